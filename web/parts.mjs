// Builds a script in parts. `import("./x")` in the sources makes a part of the module x: a script of
// its own, which the page loads when it is opened (src/state/parts.ts). A part takes every module
// that the main script has from there, so that there is one of each; what two parts share is put
// into the main script. Parts are plain scripts, so that a page in one file can hold all of them.

import { writeFileSync } from "node:fs";
import { join, relative, resolve } from "node:path";

import { build } from "esbuild";

/** Write `app.js` and `part-*.js` into a folder. */
export async function buildInParts(options, entry, folder) {
  const here = options.absWorkingDir;
  const loader = resolve(here, "src/state/parts.ts");
  const parts = new Map(); // from the file that begins it to its name
  const nameOf = (file) => relative(join(here, "src"), file).replace(/\.\w+$/, "").replace(/\W/g, "-");
  // The same on every machine, wherever the packages are.
  const keyOf = (file) => file.split("node_modules/").at(-1).replace(`${here}/`, "");

  /** `import()` answers with what the loader loads: a module with a `then` is awaited. */
  const laterImports = {
    name: "import() makes a part",
    setup(set) {
      set.onResolve({ filter: /^\./ }, async ({ path, kind, resolveDir, pluginData }) => {
        if (kind !== "dynamic-import" || pluginData === "found") return;
        const found = await set.resolve(path, { kind, resolveDir, pluginData: "found" });
        if (found.errors.length) return found;
        parts.set(found.path, nameOf(found.path));
        return { path: nameOf(found.path), namespace: "part" };
      });
      set.onLoad({ filter: /.*/, namespace: "part" }, ({ path }) => ({
        contents: `import { loadPart } from ${JSON.stringify(loader)};
          export const then = (...done) => loadPart("${path}").then(...done);`,
        resolveDir: here,
      }));
    },
  };
  const fromMain = (inMain, used) => ({
    name: "what main has comes from main",
    setup(set) {
      set.onResolve({ filter: /.*/ }, async ({ path, kind, resolveDir, pluginData }) => {
        if (kind !== "import-statement" || pluginData === "found") return;
        const found = await set.resolve(path, { kind, resolveDir, pluginData: "found" });
        if (!inMain.has(found.path)) return;
        used.add(found.path);
        return { path: keyOf(found.path), namespace: "main" };
      });
      set.onLoad({ filter: /.*/, namespace: "main" }, ({ path }) => ({
        contents: `module.exports = main["${path}"]`,
      }));
    },
  });
  const bundle = async (more) => {
    const made = await build({ ...options, ...more, format: "iife", metafile: true, write: false });
    const files = Object.keys(made.metafile.inputs).filter((file) => !/^[a-z]+:|^</.test(file));
    return { text: made.outputFiles[0].text, files: files.map((file) => resolve(here, file)) };
  };
  /** The main script, which hands modules to its parts. */
  const bundleMain = (handed) =>
    bundle({
      stdin: {
        contents: [
          `import "./${entry}"; import { openParts } from ${JSON.stringify(loader)};`,
          ...handed.map((file, i) => `import * as m${i} from ${JSON.stringify(file)};`),
          `openParts({${handed.map((file, i) => `"${keyOf(file)}": m${i}`)}},`,
          `  ${JSON.stringify([...parts.values()].sort())});`,
        ].join("\n"),
        resolveDir: here,
      },
      plugins: [laterImports],
    });

  const used = new Set(); // modules that main hands to its parts
  for (let known = -1; ; ) {
    const handed = [...used].sort((a, b) => (keyOf(a) < keyOf(b) ? -1 : 1));
    const main = await bundleMain(handed);
    const inMain = new Set(main.files);
    const times = new Map(); // in how many parts a module is
    const scripts = [];
    for (const [file, name] of parts) {
      if (inMain.has(file)) throw new Error(`${file} is imported both with import and with import()`);
      const { text, files } = await bundle({
        entryPoints: [file],
        plugins: [laterImports, fromMain(inMain, used)],
        globalName: "part",
        banner: { js: `(self.gradwalkParts??={})["${name}"]=main=>{` },
        footer: { js: "return part};" },
      });
      for (const one of files) {
        if (!inMain.has(one)) times.set(one, (times.get(one) ?? 0) + 1);
      }
      scripts.push([`part-${name}.js`, text]);
    }
    for (const [file, count] of times) if (count > 1) used.add(file);
    if (known === (known = used.size + parts.size)) {
      for (const [name, text] of [["app.js", main.text], ...scripts]) {
        writeFileSync(join(folder, name), text);
      }
      return;
    }
  }
}
