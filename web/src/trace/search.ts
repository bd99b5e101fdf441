// Finding operations, leaves and modules by name, op or source line.

import { groupName, lineText, nodeName, type Trace } from "./description";
import type { Item, Outline } from "./outline";

export interface Entry {
  item: Item;
  name: string;
  about: string; // op and source line, or class
  text: string; // all of it, in small letters
}

/**
 * Everything that can be found, modules first, then what a backward pass reached: a parameter that
 * is being initialised has the same name.
 */
export function entriesOf(trace: Trace, outline: Outline): Entry[] {
  const entry = (item: Item, name: string, about: string, more = ""): Entry => ({
    item,
    name,
    about,
    text: `${name} ${about} ${more}`.toLowerCase(),
  });
  const scopes = outline.scopes.flatMap(({ group, operations }, scope) => {
    const made = trace.groups[group];
    return made && operations ? [entry({ scope }, groupName(made), made.className)] : [];
  });
  const nodes = trace.nodes.map(({ op, line, group }, node) => {
    const place = line ? lineText(line) : "";
    const path = group < 0 ? "" : trace.groups[group]!.path;
    return entry(
      { node },
      nodeName(trace, node),
      [op, place].filter(Boolean).join(" · "),
      `${path} ${line?.[2] ?? ""}`,
    );
  });
  const reached = ({ item }: Entry): number =>
    +trace.sweeps.some(({ grads }) => "node" in item && grads.has(item.node));
  return [...scopes, ...nodes.sort((a, b) => reached(b) - reached(a))];
}

/** Entries that have every word asked for; those whose name begins with it come first. */
export function search(
  entries: Entry[],
  asked: string,
  most: number,
): { found: Entry[]; count: number } {
  const words = asked.toLowerCase().split(/\s+/).filter(Boolean);
  if (!words.length) return { found: [], count: 0 };
  const all = entries.filter(({ text }) => words.every((word) => text.includes(word)));
  const rank = ({ text }: Entry): number =>
    text.startsWith(`${words[0]} `) ? 0 : text.startsWith(words[0]!) ? 1 : 2;
  // (Sorting leaves what ranks alike in its order.)
  return { found: all.sort((a, b) => rank(a) - rank(b)).slice(0, most), count: all.length };
}
