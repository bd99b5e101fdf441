// A lesson's file as a tree: head, text, and blocks to do. The format is in docs/learn/lessons.md. Text
// becomes nodes for the view to draw, never HTML.

import declared from "../../../src/gradwalk/course/cores.json";
import { readNumber } from "../engine/numbers";
import type { Message } from "../engine/types";

/** Text, or marked text; `to` is where a link leads: another lesson's id, or an https address. */
export type Inline =
  string | { tag: "strong" | "em" | "code" | "a"; inside: Inline[]; to?: string };

export type Part =
  | { kind: "heading"; level: 2 | 3; text: Inline[] }
  | { kind: "paragraph"; text: Inline[] }
  | { kind: "list"; numbered: boolean; items: Inline[][] }
  | { kind: "code"; text: string }
  | { kind: "block"; block: Block };

export type BlockKind = "graph" | "question" | "order" | "byhand" | "core";

export interface Choice {
  right: boolean;
  text: Inline[];
  feedback: Inline[];
}

/** What the graphs of a lesson show: values, also the numbers on edges, or all. */
export type Shows = "values" | "edges" | "all";

/** An answer that comes from a known mistake. */
export interface Wrong {
  quantity: string;
  feedback: Inline[];
}

/** A thing to look at or to do. What a kind does not have is empty. */
export interface Block {
  kind: BlockKind;
  line: number; // of the file
  id: string;
  source: string; // its own, or that of the block before it
  set: Record<string, number>;
  ownSource: boolean;
  ask: Inline[];
  hints: Inline[][];
  explain: Inline[];
  step: string; // of a graph
  answer: string; // of a question: a quantity
  choices: Choice[];
  wrong: Wrong[];
  goal: string; // of an order
  overwrite: boolean;
  asks: string; // by hand
  core: string; // its name
  data: Record<string, string>; // of a core: its own fields
  types: Record<string, string>; // and what they may hold
  graphless: boolean; // it needs no graph
  shows: Shows;
  problem: Message | null;
}

export interface Lesson {
  head: Record<string, string>;
  parts: Part[];
  blocks: Block[];
  tasks: Block[]; // the blocks that count as done or not
}

const common = ["id", "source", "set"];
const asking = ["ask", "hint", "explain"];
/** By kind, what a block may say; the first it must. */
const fields: Record<BlockKind, string[]> = {
  graph: ["id", "step"],
  question: ["ask", "answer", "choice", "wrong", ...asking],
  order: ["goal", "overwrite", ...asking],
  byhand: ["asks", ...asking],
  core: ["ask", ...asking],
};
/**
 * By core, the type of each field of its own; "?" marks one that may be left out, and "source" says
 * that the core needs a graph.
 */
const cores: Record<string, Record<string, string>> = declared;
const several = ["hint", "wrong", "choice"];

export const isTask = (block: Block): boolean => block.kind !== "graph";

export function readLesson(file: string): Lesson {
  const lines = file.replace(/^\ufeff/, "").split(/\r?\n/);
  const head: Record<string, string> = {};
  let at = 0;
  if (lines[0]?.trim() === "---") {
    for (at = 1; at < lines.length && lines[at]!.trim() !== "---"; at++) {
      const cut = lines[at]!.indexOf(":");
      if (cut > 0) head[lines[at]!.slice(0, cut).trim()] = lines[at]!.slice(cut + 1).trim();
    }
    at++;
  }
  const parts: Part[] = [];
  const blocks: Block[] = [];
  let open = false; // whether the next line of text goes on with the last part
  for (; at < lines.length; at++) {
    const line = lines[at]!;
    const last = parts.at(-1);
    const fence = /^```\s*(?:(\w*)|core\s+([\w-]+))\s*$/.exec(line);
    const heading = /^(##|###)\s+(.*)$/.exec(line);
    const item = /^(-|\d+\.)\s+(.*)$/.exec(line);
    if (fence) {
      const begin = at + 1;
      do at++;
      while (at < lines.length && !/^```\s*$/.test(lines[at]!));
      const inside = lines.slice(begin, at);
      const kind = fence[2] ? "core" : fence[1]!;
      if (Object.hasOwn(fields, kind)) {
        const named = { kind: kind as BlockKind, core: fence[2] ?? "" };
        const block = readBlock(named, inside, begin + 1, blocks);
        block.shows = head.shows === "values" || head.shows === "edges" ? head.shows : "all";
        blocks.push(block);
        parts.push({ kind: "block", block });
      } else parts.push({ kind: "code", text: inside.join("\n") });
      open = false;
    } else if (heading) {
      parts.push({ kind: "heading", level: heading[1]!.length as 2 | 3, text: [heading[2]!] });
      open = false;
    } else if (item) {
      const numbered = item[1] !== "-";
      if (open && last?.kind === "list" && last.numbered === numbered) last.items.push([item[2]!]);
      else parts.push({ kind: "list", numbered, items: [[item[2]!]] });
      open = true;
    } else if (!line.trim()) {
      // A blank line ends a paragraph; a list goes on if another item follows.
      open = last?.kind === "list" && /^(-|\d+\.)\s/.test(lines[at + 1] ?? "");
    } else if (open && last?.kind === "paragraph") last.text[0] += ` ${line.trim()}`;
    else if (open && last?.kind === "list") last.items.at(-1)![0] += ` ${line.trim()}`;
    else {
      parts.push({ kind: "paragraph", text: [line.trim()] });
      open = true;
    }
  }
  for (const part of parts) {
    if ("text" in part && part.kind !== "code") part.text = readInline(part.text[0] as string);
    if (part.kind === "list") part.items = part.items.map(([text]) => readInline(text as string));
  }
  return { head, parts, blocks, tasks: blocks.filter(isTask) };
}

const marks =
  /`([^`]+)`|\*\*(?=\S)(.+?)(?<=\S)\*\*|(?<![\w*])\*(?=[^\s*])(.+?)(?<=\S)\*(?![\w*])|\[([^\]]+)\]\(([^)\s]+)\)/g;

export function readInline(text = ""): Inline[] {
  const found: Inline[] = [];
  let from = 0;
  for (const match of text.matchAll(marks)) {
    const [whole, code, strong, em, name, address] = match;
    if (match.index > from) found.push(text.slice(from, match.index));
    from = match.index + whole.length;
    const to =
      address &&
      (/^([\w-]+)\.md$/.exec(address)?.[1] ?? (/^https:\/\//.test(address) ? address : ""));
    const tag = code ? "code" : strong ? "strong" : em ? "em" : to && "a";
    const inside = code ? [code] : readInline(strong ?? em ?? name);
    found.push(tag ? { tag, inside, to } : whole);
  }
  if (from < text.length) found.push(text.slice(from));
  return found;
}

/** Without its marks: for what is spoken. */
export const plainText = (inline: Inline[]): string =>
  inline.map((part) => (typeof part === "string" ? part : plainText(part.inside))).join("");

function readBlock(
  { kind, core }: { kind: BlockKind; core: string },
  lines: string[],
  line: number,
  before: Block[],
): Block {
  const { source: needed, ...own } = Object.hasOwn(cores, core) ? cores[core]! : {};
  let problem: Message | null = null;
  const wrong = (key: string, text: string): void => {
    problem ??= { key: `lesson.wrong.${key}`, values: { text } };
  };
  if (kind === "core" && !Object.hasOwn(cores, core)) wrong("core", core);
  const found: Record<string, string[]> = {};
  let last = "";
  for (const text of lines) {
    const [, name = "", value = ""] = /^(\w+):\s*(.*)$/.exec(text) ?? [];
    const list = found[last];
    if (/^ {2}/.test(text) && list) list.push(`${list.pop()!} ${text.trim()}`);
    else if (![...common, ...fields[kind], ...Object.keys(own)].includes(name)) {
      if (text.trim()) wrong("field", text.trim());
    } else {
      if (found[name] && !several.includes(name)) wrong("twice", name);
      (found[name] ??= []).push(value.trim());
      last = name;
    }
  }
  const one = (name: string): string => found[name]?.[0] ?? "";
  const must = Object.keys(own).filter((name) => !own[name]!.endsWith("?"));
  for (const name of ["id", fields[kind][0]!, ...must]) if (!one(name)) wrong("missing", name);
  const chosen = found.choice?.some((text) => /^yes\s*\|/.test(text));
  if (kind === "question" && !found.answer === !chosen) wrong("missing", "answer");
  if (before.some(({ id }) => id === one("id"))) wrong("twice", one("id"));
  const set: Record<string, number> = {};
  for (const pair of one("set").split(/\s+/).filter(Boolean)) {
    const [name = "", text = ""] = pair.split("=");
    const number = readNumber(text);
    if (!name || number === undefined) wrong("field", pair);
    else set[name] = number;
  }
  const scene = (!found.source && before.at(-1)) || { source: one("source"), set };
  return {
    kind,
    line,
    id: one("id"),
    source: scene.source,
    set: scene.set,
    ownSource: Boolean(found.source),
    ask: readInline(one("ask")),
    hints: (found.hint ?? []).map(readInline),
    explain: readInline(one("explain")),
    step: one("step"),
    answer: one("answer"),
    choices: (found.choice ?? []).map((text) => {
      const [right, said, feedback] = cells(text, 3);
      return { right: right === "yes", text: readInline(said), feedback: readInline(feedback) };
    }),
    wrong: (found.wrong ?? []).map((text) => {
      const [quantity, feedback] = cells(text, 2);
      return { quantity: quantity!, feedback: readInline(feedback) };
    }),
    goal: one("goal"),
    overwrite: one("overwrite") === "yes",
    asks: one("asks"),
    core,
    data: Object.fromEntries(Object.keys(own).map((name) => [name, one(name)])),
    types: Object.fromEntries(
      Object.entries(own).map(([name, type]) => [name, type.replace(/\?$/, "")]),
    ),
    graphless: kind === "question" || (kind === "core" && !needed),
    shows: "all",
    problem,
  };
}

/** `a | b | c`; the last cell may hold further bars. */
function cells(text: string, count: number): string[] {
  const all = text.split("|");
  return [...all.splice(0, count - 1), all.join("|")].map((cell) => cell.trim());
}
