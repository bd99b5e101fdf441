// `node bundle.mjs ENTRY OUTPUT`: a module for Node out of a test's TypeScript.

import { build } from "esbuild";

const [entry, output] = process.argv.slice(2);
await build({
  entryPoints: [entry],
  outfile: output,
  bundle: true,
  platform: "node",
  format: "esm",
  target: "es2022",
  jsx: "automatic",
  jsxImportSource: "preact",
  inject: ["test/tables.ts"],
  logLevel: "warning",
});
