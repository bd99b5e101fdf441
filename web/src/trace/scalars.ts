// A recorded graph of plain numbers as the engine's graph: it can be computed again, so it is live.

import { OPS } from "../engine/ops";
import { own } from "../engine/own";
import type { Graph, GraphNode, Operand } from "../engine/types";
import type { Kept, Trace } from "./description";

const mostNodes = 400; // more are too many to be drawn at once

export interface LiveGraph {
  graph: Graph;
  given: number[];
  place: Map<number, number>; // where each node of the trace went
}

/** Null where the page cannot compute it: other ops, several results, or too large. */
export function liveGraph(trace: Trace): LiveGraph | null {
  const { nodes, sweeps } = trace;
  const seeds = sweeps.at(-1)?.seeds ?? [];
  const root = seeds[0]?.node ?? nodes.length - 1;
  const able = nodes.every(({ op, args, attrs }) => {
    const known = own(OPS, op);
    return !op || (known && args.length === known.inputs.length && numbersIn(attrs));
  });
  if (!trace.scalar || !able || nodes.length > mostNodes || sweeps.length > 1 || seeds.length > 1) {
    return null;
  }
  const someNamed = nodes.some(({ op, label }) => !op && label);
  const isConstant = (node: number): boolean =>
    someNamed && !nodes[node]!.op && !nodes[node]!.label && node !== root;
  const taken = new Set(nodes.map(({ label }) => label));
  let unnamed = 0;
  const nameless = (): string => {
    do unnamed++;
    while (taken.has(`v${unnamed}`));
    return `v${unnamed}`;
  };
  const place = new Map<number, number>();
  const found: GraphNode[] = [];
  const given: number[] = [];
  nodes.forEach((node, i) => {
    if (isConstant(i)) return;
    place.set(i, found.length);
    found.push({
      op: node.op,
      args: node.args.map((arg): Operand => {
        if ("constant" in arg) return { constant: numberOf(arg.constant) };
        const at = place.get(arg.node);
        return at === undefined ? { constant: numberOf(nodes[arg.node]!.values[0]) } : { node: at };
      }),
      attrs: node.attrs as Record<string, number>,
      label: node.label || trace.names.get(i) || nameless(),
      ...(node.line && { line: node.line }),
    });
    given.push(numberOf(node.values[0]));
  });
  return { graph: { nodes: found, root: place.get(root)! }, given, place };
}

const numbersIn = (attrs: Record<string, unknown>): boolean =>
  Object.values(attrs).every((value) => typeof value === "number");

function numberOf(kept: Kept | null | undefined): number {
  return kept?.elements?.[0] ?? NaN;
}
