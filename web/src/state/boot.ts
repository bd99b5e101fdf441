// What the page was started with: data blocks in index.html (docs/develop/studio-design.md).

export interface ArrayData {
  dtype: string;
  shape: number[];
  base64: string;
}

export type BootDocument =
  | { kind: "expression"; title?: string; source: string; values?: Record<string, number> }
  | { kind: "trace"; title: string; trace: unknown; arrays?: Record<string, ArrayData> };

export interface Boot {
  mode: "server" | "site" | "export" | "widget";
  version: string;
  document: BootDocument | null;
  session: string | null;
  languages: Record<string, string>;
  /** What a class's codes of completion are made with: see `gradwalk site --class-key`. */
  classKey?: string;
  /** The version of SCORM that a package speaks: scorm.ts. */
  scorm?: string;
  /** What an exported page shows when its address names nothing: a link. */
  link?: string;
}

/** What a `<script type="application/json">` of the page holds; nothing outside of a page. */
export const dataBlock = (id: string): object =>
  JSON.parse(globalThis.document?.getElementById(id)?.textContent ?? "{}") as object;

export const boot: Boot = {
  mode: "site",
  version: "",
  document: null,
  session: null,
  languages: { en: "English" },
  ...dataBlock("boot"),
};
