// Why a gradient is what it is: by edge, by path, and as the chain rule written out.

import { between, carries, edgesInto, edgesOf, pathCounts, pull } from "./graph";
import { backwardGraph, largest, overAllPaths } from "./order-sums";
import { pathOfWay } from "./paths";
import type { Computed, Edge, Path } from "./types";

/** What came along one edge: local × the consumer's gradient. */
export interface EdgeShare {
  edge: Edge;
  local: number;
  gradient: number; // of the consumer
  amount: number;
}

export interface Why {
  node: number;
  gradient: number;
  edges: EdgeShare[]; // the largest first
  paths: Path[]; // the largest first
  count: bigint; // of paths, in all
  dead: bigint; // those with a factor that is exactly 0
  cancellation: number; // Σ |contribution| / |gradient| over paths: 1 if nothing cancels
  edgeCancellation: number; // the same over edges
}

export function why(computed: Computed, node: number, top = 5): Why {
  const { graph, grads, values, reached, locals } = computed;
  const gradient = grads[node]!;
  const edges = edgesInto(graph, node)
    .filter((edge) => reached[edge.node] && carries(graph, edge))
    .map((edge): EdgeShare => {
      const above = grads[edge.node]!;
      const amount = pull(graph, values, edge.node, above)[edge.argument]!;
      return { edge, local: locals[edge.node]![edge.argument]!, gradient: above, amount };
    })
    .sort((one, other) => Math.abs(other.amount) - Math.abs(one.amount));
  const { paths, count } = pathsTo(computed, node, top);
  const [alive, magnitude] = sums(computed, node);
  const byEdge = edges.reduce((sum, share) => sum + Math.abs(share.amount), 0);
  return {
    node,
    gradient,
    edges,
    paths,
    count,
    dead: count - alive,
    cancellation: cancellation(magnitude, gradient),
    edgeCancellation: cancellation(node === graph.root ? 1 : byEdge, gradient),
  };
}

function cancellation(magnitudes: number, gradient: number): number {
  if (gradient !== 0) return Math.max(magnitudes / Math.abs(gradient), 1); // NaN of NaN
  return magnitudes ? Infinity : 1;
}

/** How many paths to a node have no factor 0, and Σ |product of factors| over all of them. */
function sums({ graph, locals }: Computed, start: number): [bigint, number] {
  const counts = graph.nodes.map((_, i) => (i === graph.root ? 1n : 0n));
  const sizes: number[] = graph.nodes.map((_, i) => (i === graph.root ? 1 : 0));
  const wanted = between(graph, start);
  for (let node = graph.root; node > start; node--) {
    if (!wanted[node]) continue;
    for (const edge of edgesOf(graph, node)) {
      const local = locals[node]![edge.argument]!;
      if (!wanted[edge.source] || !carries(graph, edge)) continue;
      if (local !== 0) counts[edge.source]! += counts[node]!;
      sizes[edge.source]! += sizes[node]! * Math.abs(local);
    }
  }
  return [counts[start]!, sizes[start]!];
}

/** A path given by its edges, the root's first. */
export function pathOf({ locals }: Computed, edges: Edge[]): Path {
  const factors = edges.map((edge) => locals[edge.node]![edge.argument]!);
  return { edges, factors, product: factors.reduce((product, factor) => product * factor, 1) };
}

/** The largest paths to a node, and how many there are in all. */
export function pathsTo(
  computed: Computed,
  node: number,
  top: number,
): { paths: Path[]; count: bigint } {
  const graph = backwardGraph(computed, between(computed.graph, node));
  const ways = overAllPaths(graph, largest(graph, top))[node] ?? [];
  return {
    paths: ways.map((way) => pathOfWay(way, computed.locals)),
    count: pathCounts(computed.graph)[node]!,
  };
}
