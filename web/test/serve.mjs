// `node serve.mjs BUNDLE`: every line of the input is a request to the bundle's answer().

import { createInterface } from "node:readline";
import { pathToFileURL } from "node:url";

const { answer } = await import(pathToFileURL(process.argv[2]).href);
for await (const line of createInterface({ input: process.stdin })) {
  let text;
  try {
    text = answer(line);
  } catch (error) {
    text = JSON.stringify({ error: String(error?.stack ?? error) });
  }
  process.stdout.write(text + "\n");
}
