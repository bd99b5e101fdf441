// A graph and its numbers. Nodes stand in computed order, so loops replace recursion everywhere.

import { attributesOf, opOf } from "./ops";
import type { Computed, Edge, Graph, GraphNode, Operand } from "./types";

export const isLeaf = (node: GraphNode): boolean => node.op === "";

const edgeLists = new WeakMap<Graph, Edge[][]>();
const consumerLists = new WeakMap<Graph, Edge[][]>();

/** By node, the operands of each that are nodes; made once for a graph. */
export function edgeListsOf(graph: Graph): Edge[][] {
  let found = edgeLists.get(graph);
  if (!found) {
    found = graph.nodes.map((made, node) =>
      made.args.flatMap((operand, argument) =>
        "node" in operand ? [{ node, argument, source: operand.node }] : [],
      ),
    );
    edgeLists.set(graph, found);
  }
  return found;
}

/** The edges into a node: its operands that are nodes. */
export const edgesOf = (graph: Graph, node: number): Edge[] => edgeListsOf(graph)[node] ?? [];

export const sameEdge = (one: Edge, other: Edge): boolean =>
  one.node === other.node && one.argument === other.argument;

/** Whether another edge joins the same two nodes: `a·a`. */
export const hasTwin = (graph: Graph, { node, source }: Edge): boolean =>
  edgesOf(graph, node).filter((edge) => edge.source === source).length > 1;

/** The leaves, in computed order. */
export const leavesOf = (graph: Graph): number[] =>
  graph.nodes.flatMap((node, i) => (isLeaf(node) ? [i] : []));

/** The edges out of a node: its uses, in computed order. */
export function edgesInto(graph: Graph, node: number): Edge[] {
  let found = consumerLists.get(graph);
  if (!found) {
    found = graph.nodes.map(() => []);
    for (const edge of edgeListsOf(graph).flat()) found[edge.source]!.push(edge);
    consumerLists.set(graph, found);
  }
  return found[node] ?? [];
}

/** Whether gradient can go along an edge at all: a comparison hands nothing back. */
export const carries = (graph: Graph, edge: Edge): boolean =>
  Boolean(opOf(graph.nodes[edge.node]!)?.pulls[edge.argument]);

export const operandValue = (operand: Operand, values: number[]): number =>
  "node" in operand ? values[operand.node]! : operand.constant;

/** A node's value, from those of its operands. */
export function valueOf(node: GraphNode, values: number[]): number {
  const op = opOf(node);
  if (!op) return NaN;
  const operands = node.args.map((operand) => operandValue(operand, values));
  return op.value(...operands, ...attributesOf(op, node.attrs));
}

/** What a node whose gradient is g hands along each of its operands; 0 to a constant. */
export function pull(graph: Graph, values: number[], node: number, g: number): number[] {
  const made = graph.nodes[node]!;
  const op = opOf(made);
  if (!op) return made.args.map(() => NaN);
  const operands = made.args.map((operand) => operandValue(operand, values));
  const attributes = attributesOf(op, made.attrs);
  return made.args.map((operand, i) =>
    "node" in operand ? (op.pulls[i]?.(g, values[node]!, ...operands, ...attributes) ?? 0) : 0,
  );
}

/** Everything about a graph at certain numbers: `given` has those of the leaves. */
export function compute(graph: Graph, given: number[]): Computed {
  const { nodes, root } = graph;
  const values = given.slice(0, nodes.length);
  nodes.forEach((node, i) => {
    if (!isLeaf(node)) values[i] = valueOf(node, values);
  });
  const locals = nodes.map((_, i) => pull(graph, values, i, 1));
  const reached = nodes.map((_, i) => i === root);
  const grads: number[] = nodes.map((_, i) => (i === root ? 1 : 0));
  const visits: number[] = [];
  for (let node = root; node >= 0; node--) {
    if (!reached[node]) continue;
    if (isLeaf(nodes[node]!)) continue;
    visits.push(node);
    const pushed = pull(graph, values, node, grads[node]!);
    for (const edge of edgesOf(graph, node)) {
      reached[edge.source] = true;
      grads[edge.source]! += pushed[edge.argument]!;
    }
  }
  return { graph, values, locals, grads, reached, visits };
}

/** By node, how many paths lead to it from the root; exact however many there are. */
export function pathCounts(graph: Graph): bigint[] {
  const counts = graph.nodes.map((_, i) => (i === graph.root ? 1n : 0n));
  for (let node = graph.root; node >= 0; node--) {
    const count = counts[node]!;
    if (!count) continue;
    for (const edge of edgesOf(graph, node)) {
      if (carries(graph, edge)) counts[edge.source]! += count;
    }
  }
  return counts;
}

/** How many paths there are from the root down to the leaves. */
export function countPaths(graph: Graph): bigint {
  const counts = pathCounts(graph);
  return graph.nodes.reduce((sum, node, i) => (isLeaf(node) ? sum + counts[i]! : sum), 0n);
}

/** d node / d source for every node: one sweep forward. */
export function tangents(computed: Computed, source: number): number[] {
  const { graph, locals } = computed;
  const found: number[] = graph.nodes.map((_, i) => (i === source ? 1 : 0));
  for (let node = source + 1; node < found.length; node++) {
    for (const edge of edgesOf(graph, node)) {
      const moves = found[edge.source]!;
      if (moves !== 0) found[node]! += locals[node]![edge.argument]! * moves;
    }
  }
  return found;
}

/** The nodes between a node and the root, both ends among them. */
export function between(graph: Graph, start: number): boolean[] {
  const leading = graph.nodes.map((_, i) => i === start);
  for (let node = start + 1; node <= graph.root; node++) {
    leading[node] = edgesOf(graph, node).some((e) => leading[e.source] && carries(graph, e));
  }
  const wanted = graph.nodes.map((_, i) => i === graph.root && leading[i]!);
  for (let node = graph.root; node > start; node--) {
    if (!wanted[node]) continue;
    for (const edge of edgesOf(graph, node)) {
      if (leading[edge.source] && carries(graph, edge)) wanted[edge.source] = true;
    }
  }
  return wanted;
}
