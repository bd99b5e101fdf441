// The walk: every step of the forward and the backward phase, and the lines of code they are.

import { edgesInto, edgesOf, isLeaf, pull } from "./graph";
import type { Computed, Push, Step } from "./types";

/** All steps: each node forward, the seed, then each node with inputs backward. */
export function stepsOf(computed: Computed): Step[] {
  const { graph, reached, locals, values, visits } = computed;
  const steps: Step[] = [];
  graph.nodes.forEach((_, node) => {
    if (reached[node]) steps.push({ phase: "forward", node });
  });
  steps.push({ phase: "seed", node: graph.root });
  const grads: number[] = graph.nodes.map((_, i) => (i === graph.root ? 1 : 0));
  const waits = graph.nodes.map(
    (_, i) => edgesInto(graph, i).filter((edge) => reached[edge.node]).length,
  );
  const met = new Set<number>();
  for (const node of visits) {
    const received = grads[node]!;
    const amounts = pull(graph, values, node, received);
    const pushes: Push[] = [];
    const completed: number[] = [];
    met.delete(node);
    for (const edge of edgesOf(graph, node)) {
      const before = grads[edge.source]!;
      const amount = amounts[edge.argument]!;
      const after = (grads[edge.source] = before + amount);
      pushes.push({ edge, local: locals[node]![edge.argument]!, amount, before, after });
      met.add(edge.source);
      if (--waits[edge.source]! === 0) {
        completed.push(edge.source);
        met.delete(edge.source);
      }
    }
    steps.push({
      phase: "backward",
      node,
      received,
      pushes,
      completed,
      incomplete: [...met].sort((a, b) => a - b),
    });
  }
  return steps;
}

/** The textbook's code, as the code panel shows it. */
export const LISTING = [
  "def topo(v):",
  "    if v in seen:",
  "        return",
  "    seen.add(v)",
  "    for i in v.inputs:",
  "        topo(i)",
  "    order.append(v)",
  "",
  "order, seen = [], set()",
  "topo(L)",
  "",
  "for v in order:",
  "    v.grad = 0",
  "L.grad = 1",
  "for v in reversed(order):",
  "    for i, local in v.edges:",
  "        i.grad += v.grad * local",
];

/** One line being executed. Lines are counted from 1. */
export interface CodeStep {
  line: number;
  node?: number; // v
  input?: number; // i
  argument?: number; // the edge's operand
  order: number; // how many nodes `order` holds now
  step?: number; // of the walk: how many of stepsOf's steps are done when this line has run
}

export interface CodeTrace {
  steps: CodeStep[];
  order: number[]; // the nodes in the order topo appends them
}

const MOST_LINES = 200_000;

/** The listing executed on a graph, line by line. */
export function codeTrace(computed: Computed): CodeTrace {
  const { graph } = computed;
  const steps: CodeStep[] = [];
  const order: number[] = [];
  const add = (line: number, more: Partial<CodeStep> = {}): void => {
    if (steps.length < MOST_LINES) steps.push({ line, order: order.length, ...more });
  };
  add(9);
  add(10, { node: graph.root });
  const seen = new Set<number>();
  // Each frame is a call of topo, with how many of its inputs it has called.
  const frames: { node: number; next: number }[] = [];
  const call = (node: number): void => {
    add(2, { node });
    if (seen.has(node)) return add(3, { node });
    seen.add(node);
    add(4, { node });
    frames.push({ node, next: 0 });
  };
  call(graph.root);
  while (frames.length) {
    const frame = frames.at(-1)!;
    const { node } = frame;
    const edge = edgesOf(graph, node)[frame.next++];
    if (edge) {
      add(5, { node, input: edge.source, argument: edge.argument });
      add(6, { node, input: edge.source, argument: edge.argument });
      call(edge.source);
    } else {
      order.push(node);
      frames.pop();
      add(7, { node });
    }
  }
  const forward = order.length; // steps of the walk before the seed
  for (const node of order) {
    add(12, { node });
    add(13, { node });
  }
  add(14, { node: graph.root, step: forward + 1 });
  let done = forward + 1;
  for (const node of order.slice().reverse()) {
    add(15, { node, step: done });
    if (isLeaf(graph.nodes[node]!)) continue;
    done++;
    for (const edge of edgesOf(graph, node)) {
      const here = { node, input: edge.source, argument: edge.argument, step: done };
      add(16, here);
      add(17, here);
    }
  }
  return { steps, order };
}

/** The line of the listing that a step of the walk ends with. */
export const lineOf = (step: Step): number =>
  step.phase === "forward" ? 7 : step.phase === "seed" ? 14 : 17;
