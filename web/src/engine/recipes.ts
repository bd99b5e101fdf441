// Recipes for a backward pass: the right one, and the wrong ones people really write.

import { backwardGraph, type BackwardGraph, counts, overAllPaths } from "./order-sums";
import { countText } from "./numbers";
import type { Computed, Message } from "./types";

export const RECIPES = [
  "right",
  "plain recursion",
  "depth-first",
  "breadth-first",
  "overwrite",
  "twice",
] as const;
export type Recipe = (typeof RECIPES)[number];

const MOST_VISITS = 1_000_000;

export interface Run {
  passes: number[][]; // the nodes visited, for each call of backward
  overwrite: boolean;
}

/** The visits of a recipe; plain recursion visits once for every path, which may be too much. */
export function recipe(
  computed: Computed,
  name: Recipe,
  most = MOST_VISITS,
): Run | { problem: Message } {
  const graph = backwardGraph(computed);
  const right = (): number[] => consumersFirst(graph);
  switch (name) {
    case "right":
    case "overwrite":
      return { passes: [right()], overwrite: name === "overwrite" };
    case "twice":
      return { passes: [right(), right()], overwrite: false };
    case "plain recursion": {
      const all = overAllPaths(graph, counts(graph));
      const visits = all.reduce<bigint>(
        (sum, count, node) => sum + (graph.edges[node]!.length ? (count ?? 0n) : 0n),
        0n,
      );
      if (visits > most) {
        return { problem: { key: "order.tooMany", values: { visits: countText(visits) } } };
      }
      return { passes: [depthFirst(graph, false)], overwrite: false };
    }
    case "depth-first":
      return { passes: [depthFirst(graph, true)], overwrite: false };
    case "breadth-first":
      return { passes: [breadthFirst(graph)], overwrite: false };
  }
}

/** The inputs that hand something on themselves, one entry per edge. */
const inputs = (graph: BackwardGraph, node: number): number[] =>
  graph.edges[node]!.map((edge) => edge.source).filter((source) => graph.edges[source]!.length);

/** A right order: each node as soon as all of its consumers were visited. */
export function consumersFirst(graph: BackwardGraph): number[] {
  const waits = new Map<number, number>();
  const inner = graph.reached.filter((node) => graph.edges[node]!.length);
  for (const source of inner.flatMap((node) => inputs(graph, node))) {
    waits.set(source, (waits.get(source) ?? 0) + 1);
  }
  const { root } = graph.computed.graph;
  const visits = graph.edges[root]!.length ? [root] : [];
  for (let i = 0; i < visits.length; i++) {
    for (const source of inputs(graph, visits[i]!)) {
      waits.set(source, waits.get(source)! - 1);
      if (!waits.get(source)) visits.push(source);
    }
  }
  return visits;
}

/** Each node, then its inputs one after the other; with `once` each only when it is first met. */
function depthFirst(graph: BackwardGraph, once: boolean): number[] {
  const visits: number[] = [];
  const seen = new Set<number>();
  const stack = [graph.computed.graph.root];
  while (stack.length) {
    const node = stack.pop()!;
    if (once && seen.has(node)) continue;
    seen.add(node);
    visits.push(node);
    stack.push(...inputs(graph, node).reverse());
  }
  return visits;
}

function breadthFirst(graph: BackwardGraph): number[] {
  const visits = [graph.computed.graph.root];
  const seen = new Set(visits);
  for (let i = 0; i < visits.length; i++) {
    for (const source of inputs(graph, visits[i]!)) {
      if (seen.has(source)) continue;
      seen.add(source);
      visits.push(source);
    }
  }
  return visits;
}
