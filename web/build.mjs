// Builds the page: `node build.mjs [folder]` writes app.js, its parts (part-*.js), tables.json,
// app.css, widget.js and scorm.js there, by default where Python serves them from. The same sources
// always give the same bytes: a test rebuilds the committed files and compares.

import { copyFileSync, mkdirSync, readdirSync, rmSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";

import { build } from "esbuild";

import { buildInParts } from "./parts.mjs";

const here = dirname(fileURLToPath(import.meta.url));
const folder = resolve(process.argv[2] ?? join(here, "../src/gradwalk/studio/static"));

const common = {
  absWorkingDir: here,
  bundle: true,
  minify: true,
  target: "es2022",
  charset: "utf8",
  legalComments: "none",
  logLevel: "warning",
};

mkdirSync(folder, { recursive: true });
for (const name of readdirSync(folder)) {
  if (/^part-.*\.js$/.test(name)) rmSync(join(folder, name)); // one that is no part any more
}
const elements = {
  // Elements as calls of `h`: shorter than those of preact/jsx-runtime, which tsconfig.json names
  // for the types, so that no file need import `h`. (It would win over what is said here.)
  tsconfigRaw: { compilerOptions: { strict: true } },
  jsx: "transform",
  jsxFactory: "h",
  jsxFragment: "Fragment",
  inject: ["src/view/elements.ts"],
};
await buildInParts({ ...common, ...elements }, "src/main.tsx", folder);

// Data that the page holds beside its script.
copyFileSync(join(here, "src/generated/tables.json"), join(folder, "tables.json"));

// What a notebook loads to put the page into a frame.
await build({
  ...common,
  minify: false, // anywidget takes a module of one line for the name of a file
  entryPoints: ["src/widget.ts"],
  outfile: join(folder, "widget.js"),
  format: "esm",
});

// What a package for a learning platform runs before the page.
await build({
  ...common,
  entryPoints: ["src/scorm.ts"],
  outfile: join(folder, "scorm.js"),
  format: "iife",
});

const sheets = readdirSync(join(here, "src/style"))
  .filter((name) => name.endsWith(".css"))
  .sort();
await build({
  ...common,
  stdin: {
    contents: sheets.map((name) => `@import "./${name}";`).join("\n"),
    resolveDir: join(here, "src/style"),
    loader: "css",
  },
  external: ["fonts/*"], // they lie beside the style already
  outfile: join(folder, "app.css"),
});
