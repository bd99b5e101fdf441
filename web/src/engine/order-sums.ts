// Sums over paths: of amounts, of ones (how many), of lists of the largest. `Sum`
// says what is summed; the functions here say over which paths: all, those an order runs, those it
// loses, those it runs once too often. None goes through the paths one by one.

import { carries, edgeListsOf, pull } from "./graph";
import { longer, merged, rootWay, type Way } from "./paths";
import type { Computed, Edge } from "./types";

export interface Sum<T> {
  seed: T; // at the root
  add: (one: T, other: T) => T;
  hand: (node: number, sum: T) => T[]; // along each of `edges[node]`
}

/** By node; undefined where no path arrives. */
export type Sums<T> = (T | undefined)[];

/** A graph laid out for backward passes in any order. */
export interface BackwardGraph {
  computed: Computed;
  edges: Edge[][]; // by node, those gradient goes along; none of nodes the root does not need
  reached: number[]; // consumers before their inputs
}

/** With `among`, only of some nodes. */
export function backwardGraph(computed: Computed, among?: boolean[]): BackwardGraph {
  const { graph } = computed;
  const lists = edgeListsOf(graph);
  const edges: Edge[][] = graph.nodes.map(() => []);
  const inReach = graph.nodes.map((_, i) => i === graph.root);
  const reached: number[] = [];
  for (let node = graph.root; node >= 0; node--) {
    if (!inReach[node]) continue;
    reached.push(node);
    edges[node] = lists[node]!.filter(
      (edge) => carries(graph, edge) && (!among || among[edge.source]),
    );
    for (const edge of edges[node]!) inReach[edge.source] = true;
  }
  return { computed, edges, reached };
}

/** The gradient itself. */
export const amounts = ({ computed, edges }: BackwardGraph): Sum<number> => ({
  seed: 1,
  add: (one, other) => one + other,
  hand: (node, g) => {
    const { graph, values, locals } = computed;
    // As the engine does: a mask keeps inf away, where inf × 0 would be NaN.
    const pulled = Number.isFinite(g) ? null : pull(graph, values, node, g);
    return edges[node]!.map((e) => pulled?.[e.argument] ?? g * locals[node]![e.argument]!);
  },
});

/** How many paths there are. */
export const counts = ({ edges }: BackwardGraph): Sum<bigint> => ({
  seed: 1n,
  add: (one, other) => one + other,
  hand: (node, count) => edges[node]!.map(() => count),
});

/** The largest of them. */
export const largest = ({ edges, computed }: BackwardGraph, top: number): Sum<Way[]> => ({
  seed: [rootWay()],
  add: (one, other) => merged(one, other, top),
  hand: (node, ways) =>
    edges[node]!.map((edge) =>
      ways.map((way) => longer(way, edge, computed.locals[node]![edge.argument]!)),
    ),
});

function plus<T>(sum: Sum<T>, one: T | undefined, other: T | undefined): T | undefined {
  if (one === undefined || other === undefined) return one === undefined ? other : one;
  return sum.add(one, other);
}

/** [where to, what arrives] for each edge of a node. */
function handed<T>(
  graph: BackwardGraph,
  sum: Sum<T>,
  node: number,
  own: T | undefined,
): [number, T | undefined][] {
  const parts = own === undefined ? [] : sum.hand(node, own);
  return graph.edges[node]!.map((edge, i) => [edge.source, parts[i]]);
}

/**
 * The right backward pass. `begin` has sums to begin with instead of the root's: they are not part
 * of the answer at their own place, only behind it.
 */
export function overAllPaths<T>(graph: BackwardGraph, sum: Sum<T>, begin?: Sums<T>): Sums<T> {
  const sums: Sums<T> = [];
  if (!begin) sums[graph.computed.graph.root] = sum.seed;
  for (const node of graph.reached) {
    const own = plus(sum, sums[node], begin?.[node]);
    for (const [to, part] of handed(graph, sum, node, own)) sums[to] = plus(sum, sums[to], part);
  }
  return sums;
}

/**
 * What arrives if the nodes are visited in this order, each passing on what it has by then. Every
 * pass begins by setting the gradient of the root, and clears nothing.
 */
export function asRun<T>(
  graph: BackwardGraph,
  sum: Sum<T>,
  passes: number[][],
  overwrite: boolean,
): Sums<T> {
  const sums: Sums<T> = [];
  for (const visits of passes) {
    sums[graph.computed.graph.root] = sum.seed;
    for (const node of visits) {
      for (const [to, part] of handed(graph, sum, node, sums[node])) {
        sums[to] = overwrite ? part : plus(sum, sums[to], part);
      }
    }
  }
  return sums;
}

/**
 * Sums over the paths an order loses, and over those it runs once too often.
 *
 * A path runs once for every way to find its nodes, from the root down, in the order of the visits;
 * the one that takes each node at its first chance is the right one, the others are extra. So each
 * node has two sums: what is fresh, arrived since its last visit, and what is stale, passed on
 * before, and extra if it is passed on again. What is still fresh at the end of a pass was never
 * passed on: every path that goes on from there is lost.
 */
export function lostAndExtra<T>(
  graph: BackwardGraph,
  sum: Sum<T>,
  passes: number[][],
): [lost: Sums<T>, extra: Sums<T>] {
  const { root } = graph.computed.graph;
  const fresh: Sums<T> = [];
  const stale: Sums<T> = [];
  const stuck: Sums<T> = [];
  const extra: Sums<T> = [];
  const left = new Map<number, number>();
  for (const node of passes.flat()) left.set(node, (left.get(node) ?? 0) + 1);
  let replaced: T | undefined; // what the root had before the next pass set it again
  passes.forEach((visits, pass) => {
    fresh.forEach((own, node) => {
      if (own === undefined) return; // from an earlier pass, and not cleared
      stale[node] = plus(sum, stale[node], own);
      fresh[node] = undefined;
    });
    if (pass) replaced = plus(sum, replaced, sum.seed);
    fresh[root] = sum.seed;
    stale[root] = extra[root] = undefined;
    for (const node of visits) {
      left.set(node, left.get(node)! - 1);
      const again = left.get(node)! > 0;
      const first = handed(graph, sum, node, fresh[node]);
      const repeated = handed(graph, sum, node, stale[node]);
      if (!first.length) continue;
      stale[node] = again ? plus(sum, stale[node], fresh[node]) : undefined;
      fresh[node] = undefined;
      first.forEach(([to, part], i) => {
        if (graph.edges[to]!.length) fresh[to] = plus(sum, fresh[to], part);
        const more = repeated[i]![1];
        if (more === undefined) return;
        if (left.get(to)) stale[to] = plus(sum, stale[to], more);
        extra[to] = plus(sum, extra[to], more);
      });
    }
    fresh.forEach((own, node) => {
      if (own !== undefined) stuck[node] = plus(sum, stuck[node], own);
    });
  });
  const lost = overAllPaths(graph, sum, stuck);
  if (replaced !== undefined) lost[root] = plus(sum, lost[root], replaced);
  return [lost, extra];
}
