// How a gradient goes back through an op on tensors, as text: `xᵀ @ g`.

import { slopeTree, textPart } from "./formulas";
import { OPS } from "./ops";
import { own } from "./own";
import { tables } from "./tables";
import type { Edge, Graph } from "./types";

/** What an op calls its operands; as many as it names. */
export const inputNames = (op: string): string[] =>
  own(OPS, op)?.inputs ?? own(tables.arrayRules, op)?.[0] ?? [];

/**
 * The gradient of one operand from g, the output's, in the names given for the operands and the
 * output; "" where there is no formula. What was broadcast is summed besides.
 */
export function ruleText(
  op: string,
  argument: number,
  names: string[],
  out: string,
  attrs: Record<string, number> = {},
): string {
  const row = own(tables.arrayRules, op);
  if (row) {
    const known: Record<string, string> = { out };
    row[0].forEach((name, i) => (known[name] = names[i] ?? name));
    const rule = row[argument + 1];
    if (typeof rule !== "string") return "";
    return rule.replace(/\{(\w+)\}/g, (_, name) => known[name] ?? name);
  }
  const tree = slopeTree(...single(op, argument, names, out, attrs));
  if (tree === null) return "";
  if (tree === 1) return "g";
  const [text, binding] = textPart(tree);
  return tree === -1 ? "−g" : `g × ${binding < 5 ? `(${text})` : text}`;
}

/** A graph of the one op, for what is known of graphs. */
function single(
  op: string,
  argument: number,
  names: string[],
  label: string,
  attrs: Record<string, number>,
): [Graph, Edge] {
  const leaves = (own(OPS, op)?.inputs ?? []).map((name, i) => ({
    op: "",
    args: [],
    attrs: {},
    label: names[i] ?? name,
  }));
  const node = { op, args: leaves.map((_, i) => ({ node: i })), attrs, label };
  const edge = { node: leaves.length, argument, source: argument };
  return [{ nodes: [...leaves, node], root: leaves.length }, edge];
}
