// The op table. Python writes what is in it: the functions (generated/ops.ts), the rest as data.

import { FUNCTIONS } from "../generated/ops";
import { own } from "./own";
import { tables } from "./tables";
import type { GraphNode } from "./types";

/**
 * A formula: a number, a name (of an input, an attribute, or "out"), `[op, operand, ...]` with the
 * op's attributes last as `{name: [value, text]}`, or a choice
 * `["?", attribute, value, then, else]`.
 */
export type Tree = number | string | null | Tree[] | { [attribute: string]: [Tree, string] };

export type Attribute = number | null | undefined;

type Value = (...numbers: any[]) => number; // of inputs, then attributes: each knows how many
/** What goes back to an input: of (g, out, ...inputs, ...attributes); null if nothing ever does. */
type Pull = ((g: number, out: number, ...numbers: any[]) => number) | null;

export type OpFunctions = [value: Value, ...pulls: Pull[]];

export interface OpFacts {
  inputs: string[];
  attributes: Record<string, number | null>; // with their defaults; null: none, or left out
  slopes: Tree[]; // the local derivative as a formula; null if there is none to write
  symbol?: string;
  gate?: string;
}

export interface Op extends OpFacts {
  value: Value;
  pulls: Pull[];
}

export const OPS: Record<string, Op> = Object.fromEntries(
  Object.entries(FUNCTIONS).map(([name, [value, ...pulls]]) => [
    name,
    { ...tables.ops[name]!, value, pulls },
  ]),
);

export const opOf = (node: GraphNode): Op | undefined => own(OPS, node.op);

/** An op's attributes in the order its functions take them. */
export function attributesOf(op: Op, attrs: Record<string, Attribute>): Attribute[] {
  const names = Object.keys(op.attributes);
  return names.length ? names.map((name) => attrs[name] ?? op.attributes[name]) : NONE;
}

const NONE: Attribute[] = []; // of most ops, for which no list is made

/** The same by their names. */
export function namedAttributes(
  op: Op,
  attrs: Record<string, Attribute>,
): Record<string, Attribute> {
  const values = attributesOf(op, attrs);
  return Object.fromEntries(Object.keys(op.attributes).map((name, i) => [name, values[i]]));
}
