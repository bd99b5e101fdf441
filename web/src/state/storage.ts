// What the browser keeps between visits. It may refuse (private windows, frames, files opened from
// disk): then nothing is kept, and nothing else changes.

const prefix = "gradwalk.";

export function recall<T>(name: string): T | undefined {
  try {
    const text = localStorage.getItem(prefix + name);
    return text === null ? undefined : (JSON.parse(text) as T);
  } catch {
    return undefined;
  }
}

/** Says whether it was kept. */
export function remember(name: string, value: unknown): boolean {
  try {
    if (value === undefined) localStorage.removeItem(prefix + name);
    else localStorage.setItem(prefix + name, JSON.stringify(value));
    return true;
  } catch {
    return false;
  }
}
