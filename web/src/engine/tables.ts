// What Python tells the page of ops, formulas, the grammar and presets (tools/page/tables.py).
//
// It is data, and stands in the page beside the script: `tables` is filled before any other module
// is run, by state/tables.ts in the page and by test/tables.ts in Node.

import type { Expansion } from "./expand";
import type { OpFacts } from "./ops";

export type Preset = { id: string; group: string } & (
  | { kind: "expression"; source: string; values: Record<string, number> }
  | { kind: "trace"; trace: unknown }
);

export interface Tables {
  ops: Record<string, OpFacts>;
  expansions: Record<string, Expansion[]>; // what composite ops are made of
  arrayRules: Record<string, [inputs: string[], ...rules: (string | null)[]]>;
  infix: Record<string, number>; // how tightly it binds
  symbols: Record<string, string>; // of infix ops, in text
  signs: Record<string, string>; // in MathML
  around: Record<string, [string, string]>;
  letters: Record<string, string>; // that stand for functions
  greek: Record<string, string>;
  functions: Record<string, [op: string, arity: number]>; // that can be typed
  constants: Record<string, string>; // as text: JSON has no infinity
  // What stands in other notations: the hint about a sign or a word, and what to write for it.
  instead: Record<string, string>;
  otherWords: Record<string, string>;
  write: Record<string, string>;
  presets: Preset[];
  closed: string; // what a page that holds everything may load from elsewhere
}

export const tables = {} as Tables;
