// What the browser keeps between visits, and the address. It may refuse (private windows, frames,
// files opened from disk): then nothing is kept, and nothing else changes.

const prefix = "gradwalk.";

export function recall<T>(name: string): T | null {
  try {
    return JSON.parse(localStorage.getItem(prefix + name)!) as T | null; // it reads null as null
  } catch {
    return null;
  }
}

export function remember(name: string, value: unknown): void {
  try {
    localStorage.setItem(prefix + name, JSON.stringify(value));
  } catch {
    // Then it holds for this visit.
  }
}

/** Hear when another window of the browser keeps something else under a name. */
export function whenKeptElsewhere(name: string, hear: () => void): void {
  globalThis.addEventListener?.("storage", ({ key }) => {
    if (key === prefix + name || key === null) hear(); // null: all of it was cleared
  });
}

/** The entry of the browser's history we are at, by a number; undefined before it was written. */
export const historyEntry = (): number | undefined =>
  (globalThis.history?.state as { entry?: number } | null)?.entry;

/**
 * Write the address, with `push` as a new entry of the history; a frame without an address of its
 * own, or one that writes too often, goes without.
 */
export function writeAddress(address: string, push = false): void {
  try {
    const fresh = Date.now() + Math.random();
    if (push) history.pushState({ entry: fresh }, "", address);
    else history.replaceState({ entry: historyEntry() ?? fresh }, "", address);
  } catch {
    // Links still work by hand.
  }
}
