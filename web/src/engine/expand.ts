// A composite op shown open: tanh as (e²ˣ − 1) / (e²ˣ + 1), with the same value and gradients.

import { compute } from "./graph";
import { agree } from "./numbers";
import { namedAttributes, opOf } from "./ops";
import { own } from "./own";
import { tables } from "./tables";
import type { Computed, Graph, GraphNode, Operand } from "./types";

/** What a step works on: an input or attribute by name, an earlier step, or a number. */
type Part = string | number | { is: number | null };
type OwnAttributes = { attrs: Record<string, Part> };
/** Operations, inputs first: `["exp", 0]` is exp of what the first one made. */
export type Expansion = (Part | OwnAttributes)[][];

export interface Expanded {
  graph: Graph;
  given: number[]; // by node, for compute()
  inside: number[]; // the nodes that stand for the one that was opened; its last is the result
  origin: number[]; // by node: which node of the closed graph it was; inside: the opened one
}

export const canExpand = (node: GraphNode): boolean => Object.hasOwn(tables.expansions, node.op);

/** The graph with one node open; undefined if the op is made of nothing simpler. */
export function expand(computed: Computed, index: number): Expanded | undefined {
  const node = computed.graph.nodes[index]!;
  let found: Expanded | undefined;
  for (const expansion of own(tables.expansions, node.op) ?? []) {
    found = opened(computed, index, expansion);
    const values = compute(found.graph, found.given).values;
    // The textbook's form overflows where a later one does not.
    if (agree(values[found.inside.at(-1)!]!, computed.values[index]!)) return found;
  }
  return found;
}

function opened({ graph, values }: Computed, index: number, expansion: Expansion): Expanded {
  const closed = graph.nodes[index]!;
  const op = opOf(closed)!;
  const known = namedAttributes(op, closed.attrs);
  const taken = new Set(graph.nodes.map((node) => node.label));
  const shift = expansion.length - 1;
  const moved = (operand: Operand): Operand =>
    "node" in operand && operand.node >= index ? { node: operand.node + shift } : operand;

  const inside = expansion.map((step, i): GraphNode => {
    const [name, ...parts] = step as [string, ...(Part | OwnAttributes)[]];
    const last = parts.at(-1);
    const given = last && typeof last === "object" && "attrs" in last ? last.attrs : {};
    const args = parts.filter((p): p is Part => typeof p !== "object" || "is" in p);
    const operand = (part: Part): Operand => {
      if (typeof part === "number") return { node: index + part };
      if (typeof part === "object") return { constant: part.is ?? NaN };
      if (Object.hasOwn(known, part)) return { constant: known[part]! };
      return closed.args[op.inputs.indexOf(part)]!;
    };
    const attrs = Object.fromEntries(
      Object.entries(given).map(([key, part]) => [key, asNumber(operand(part))]),
    );
    const isLast = i === expansion.length - 1;
    const label = isLast ? closed.label : free(`${closed.label}_${i + 1}`, taken);
    const line = closed.line && { line: closed.line };
    return { op: name, args: args.map(operand), attrs, label, ...line };
  });
  const before = graph.nodes.slice(0, index);
  const after = graph.nodes
    .slice(index + 1)
    .map((node) => ({ ...node, args: node.args.map(moved) }));
  const origin = [
    ...before.map((_, i) => i),
    ...inside.map(() => index),
    ...after.map((_, i) => index + 1 + i),
  ];
  return {
    graph: {
      nodes: [...before, ...inside, ...after],
      root: graph.root >= index ? graph.root + shift : graph.root,
    },
    given: origin.map((i) => values[i]!),
    inside: inside.map((_, i) => index + i),
    origin,
  };
}

const asNumber = (operand: Operand): number => ("constant" in operand ? operand.constant : NaN);

function free(name: string, taken: Set<string>): string {
  let label = name;
  for (let i = 2; taken.has(label); i++) label = `${name}_${i}`;
  taken.add(label);
  return label;
}
