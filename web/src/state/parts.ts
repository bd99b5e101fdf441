// Parts of the page that load when they are opened: `import()` of a module ends up here, see
// web/parts.mjs. A part is a script beside the page; a page in one file holds all of them.

/** Given the modules of the main script, runs the part and returns what it exports. */
type Part = (main: Record<string, object>) => object;

declare global {
  var gradwalkParts: Record<string, Part> | undefined; // a part puts itself here
}

let modules: Record<string, object> = {};
let names: string[] = [];
const loaded = new Map<string, Promise<object>>();

/** What the main script has for its parts, and their names. */
export function openParts(main: Record<string, object>, parts: string[]): void {
  modules = main;
  names = parts;
}

/** The addresses of all parts. */
export const partAddresses = (): string[] => names.map(addressOf);

/** A part that failed to load is asked for again the next time. */
export function loadPart(name: string): Promise<object> {
  const known = loaded.get(name);
  if (known) return known;
  const part = run(name);
  loaded.set(name, part);
  part.catch(() => loaded.delete(name));
  return part;
}

async function run(name: string): Promise<object> {
  if (!globalThis.gradwalkParts?.[name]) await loadScript(addressOf(name));
  return globalThis.gradwalkParts![name]!(modules);
}

const addressOf = (name: string): string => `part-${name}.js`;

function loadScript(address: string): Promise<void> {
  return new Promise((done, failed) => {
    const script = document.createElement("script");
    script.onload = () => done();
    script.onerror = () => failed(new Error(address));
    script.src = address;
    document.body.append(script); // after the page's own, which a saved copy reads
  });
}
