// A copy of the page in one file that works from disk, with what is open now.
//
// The page is its own template: as it was before anything was drawn, with script and style put
// inside it (in an export they are already), another boot block and the policy of pages.py for
// pages that hold everything.

import { tables } from "../engine/tables";
import { encoded } from "../trace/source";
import { writeLink } from "./links";
import { currentLink, originNow } from "./address";
import { load } from "./beside";
import { boot, type Boot } from "./boot";
import { partAddresses } from "./parts";
import { titleOf } from "./studio";
import { traceDocument } from "./traces";

const asLoaded = globalThis.document?.documentElement.outerHTML ?? "";

export async function saveCopy(): Promise<void> {
  saveFile([await copyOfPage()], titleOf(originNow()), "html", "text/html");
}

/** Hand a file to the browser, which keeps it where downloads are kept. */
export function saveFile(parts: BlobPart[], title: string, ending: string, type: string): void {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob(parts, { type }));
  link.download = `${title.replace(/[^\p{L}\p{N}]+/gu, "-")}.${ending}`;
  link.click();
  setTimeout(URL.revokeObjectURL, 10_000, link.href);
}

/** The page's fonts, inside the rules that name them. */
export async function fontFaces(): Promise<string> {
  const faces = (await text("style, link[rel=stylesheet]", "href")).match(/@font-face\s*{[^}]*}/g);
  return withFonts((faces ?? []).filter((face) => !/Math/.test(face)).join(""));
}

export async function copyOfPage(): Promise<string> {
  // In a JavaScript text \x3C is the same as <, and it cannot end the element around it.
  const script = (await allScripts()).replace(/<(?=!--|\/?script)/gi, "\\x3C");
  const style = await withFonts(await text("style, link[rel=stylesheet]", "href"));
  const data = JSON.stringify(await bootNow()).replaceAll("<", "\\u003c"); // so it cannot end
  const policy = `script-src ${await allowed(script)}; style-src ${await allowed(style)}; `;
  // As text: a policy would not let us put a style into a document, not even into one nobody sees.
  const parts: [RegExp, string][] = [
    [
      /(?<=<meta charset="utf-8">\n).*/, // the policy has a line of its own
      `<meta http-equiv="Content-Security-Policy" content="${policy}${tables.closed}">`,
    ],
    [/(?<=<script type="application\/json" id="boot">)[^<]*/, data],
    [/<link rel="preload"[^]*?css">|<style>[^]*?<\/style>/, `<style>${style}</style>`],
    [/<script(?: src="[^"]*")?>[^]*?<\/script>/, `<script>${script}</script>`],
  ];
  const copy = parts.reduce((page, [part, now]) => page.replace(part, () => now), asLoaded);
  return `<!doctype html>\n${copy}\n`;
}

/** Numbers and position travel in the link; a recorded trace in the boot block. */
async function bootNow(): Promise<Boot> {
  const recorded = originNow().kind === "trace";
  return {
    ...boot,
    mode: "export",
    session: null,
    document: recorded ? await traceDocument() : null,
    link: recorded ? undefined : writeLink(currentLink()),
  };
}

/** Every part of the script, as one text. */
async function allScripts(): Promise<string> {
  const main = await text("script:not([type])", "src");
  if (boot.mode === "export") return main; // it holds them already
  const parts = await Promise.all(partAddresses().map(async (one) => (await load(one)).text()));
  return [...parts, main].join("");
}

/** What an element of the page holds, or what it was loaded from. */
async function text(selector: string, address: "src" | "href"): Promise<string> {
  const element = document.querySelector(selector)!;
  const from = element.getAttribute(address);
  return from === null ? element.textContent! : (await load(from)).text();
}

/** A style with the fonts it names inside it. */
async function withFonts(style: string): Promise<string> {
  for (const [address] of style.matchAll(/(?<=url\()fonts[^)]+/g)) {
    const font = await (await load(address)).arrayBuffer();
    style = style.replace(address, `data:font/woff2;base64,${encoded(font)}`);
  }
  return style;
}

/** The hash that lets a policy allow exactly this text; without a secure context there is none. */
async function allowed(inline: string): Promise<string> {
  if (!crypto.subtle) return "'unsafe-inline'";
  const hash = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(inline));
  return `'sha256-${encoded(hash)}'`;
}
