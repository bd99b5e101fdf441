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

/** Write the address; a frame without one of its own, or one that writes too often, goes without. */
export function writeAddress(address: string): void {
  try {
    history.replaceState(null, "", address);
  } catch {
    // Links still work by hand.
  }
}
