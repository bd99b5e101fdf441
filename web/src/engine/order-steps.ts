// The order lab's visits as steps of a walk, so that they are stepped and undone like any other.

import { amounts, backwardGraph } from "./order-sums";
import type { Computed, Push, Step } from "./types";

/** In an order: backward is called again, and nothing is cleared. */
export const AGAIN = -1;

/** An order as one list of visits for each call of backward. */
export function passesOf(order: number[]): number[][] {
  const passes: number[][] = [[]];
  for (const node of order) {
    if (node === AGAIN) passes.push([]);
    else passes.at(-1)!.push(node);
  }
  return passes;
}

/** Several calls of backward as one order. */
export const orderOf = (passes: number[][]): number[] =>
  passes.flatMap((visits, pass) => (pass ? [AGAIN, ...visits] : visits));

/** The nodes that hand something on, as they are computed: the order that loses most. */
export const computedOrder = (computed: Computed): number[] => computed.visits.slice().reverse();

/** The forward phase, then the visits in this order, each passing on what it has by then. */
export function orderSteps(computed: Computed, order: number[], overwrite: boolean): Step[] {
  const graph = backwardGraph(computed);
  const { hand } = amounts(graph);
  const { root } = computed.graph;
  const steps: Step[] = [];
  computed.reached.forEach((reached, node) => {
    if (reached) steps.push({ phase: "forward", node });
  });
  const grads = new Map<number, number>();
  for (const visits of passesOf(order)) {
    steps.push({ phase: "seed", node: root });
    grads.set(root, 1);
    visits.forEach((node, place) => {
      const later = new Set(visits.slice(place + 1));
      const own = grads.get(node);
      const shares = own === undefined ? [] : hand(node, own);
      const pushes = graph.edges[node]!.map((edge, i): Push => {
        const before = grads.get(edge.source) ?? 0;
        const amount = shares[i] ?? 0;
        const after = overwrite ? amount : before + amount;
        grads.set(edge.source, after);
        return { edge, local: computed.locals[node]![edge.argument]!, amount, before, after };
      });
      const early = graph.reached.filter(
        (consumer) =>
          pushes.length &&
          later.has(consumer) &&
          graph.edges[consumer]!.some((e) => e.source === node),
      );
      steps.push({
        phase: "backward",
        node,
        received: own ?? 0,
        pushes,
        completed: [],
        incomplete: [],
        early,
      });
    });
  }
  return steps;
}
