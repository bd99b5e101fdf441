// A small change: what the derivatives predict at every node, beside what really happens.

import { between, isLeaf, tangents, valueOf } from "./graph";
import type { Computed } from "./types";

export interface Move {
  node: number;
  predicted: number;
  real: number;
  error: number;
}

export interface Nudge {
  node: number;
  by: number;
  before: number; // the root
  after: number;
  predicted: number; // change of the root
  real: number;
  moves: Move[]; // from the nudged node to the root
}

/** Move a node by `by`, everything that does not depend on it held. */
export function nudge(computed: Computed, start: number, by: number): Nudge {
  const { graph, values } = computed;
  const { root } = graph;
  const moving = between(graph, start);
  const slopes = tangents(computed, start);
  const changed = values.slice();
  changed[start]! += by;
  const moves: Move[] = [];
  graph.nodes.forEach((node, i) => {
    if (!moving[i] && i !== start) return;
    if (i > start && !isLeaf(node)) changed[i] = valueOf(node, changed);
    const predicted = slopes[i]! * by;
    const real = i === start ? by : changed[i]! - values[i]!; // (x + by) − x is not quite by
    moves.push({ node: i, predicted, real, error: Math.abs(real - predicted) });
  });
  const last = moves.find((move) => move.node === root);
  return {
    node: start,
    by,
    before: values[root]!,
    after: changed[root]!,
    predicted: last?.predicted ?? 0,
    real: last?.real ?? 0,
    moves,
  };
}
