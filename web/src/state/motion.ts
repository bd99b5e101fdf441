// Things that move: a part of 1 that grows with time, unless the reader wants none of it.

export const duration = 350; // milliseconds, of what happens in one step

const still = globalThis.matchMedia?.("(prefers-reduced-motion: reduce)");

/** Whether anything may move; asked anew each time, as it can be changed while the page is open. */
export const mayMove = (): boolean => still !== undefined && !still.matches;

/** Call `frame` with 0 to 1 over some time; what is returned stops it. */
export function animate(time: number, frame: (part: number) => void): () => void {
  let asked = 0;
  let start: number | undefined;
  const next = (now: number): void => {
    start ??= now;
    const part = Math.min(1, (now - start) / time);
    if (part < 1) asked = requestAnimationFrame(next);
    frame(part);
  };
  asked = requestAnimationFrame(next);
  return () => cancelAnimationFrame(asked);
}

/** Slow at both ends. */
export const eased = (part: number): number =>
  part < 0.5 ? 4 * part ** 3 : 1 - (2 - 2 * part) ** 3 / 2;
