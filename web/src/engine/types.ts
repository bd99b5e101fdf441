// What everything in the page talks about. No DOM, no text: the engine reports message keys.

/** An operand: the output of another node, or a plain number given in its place. */
export type Operand = { node: number } | { constant: number };

export interface GraphNode {
  op: string; // "" of a leaf
  args: Operand[];
  attrs: Record<string, number>; // of scalar ops they are numbers
  label: string; // never empty: leaves and results that were not named get v1, v2, ...
  line?: [file: string, line: number, text: string, scope: string];
}

/** Nodes stand in computed order; the root is what is differentiated. */
export interface Graph {
  nodes: GraphNode[];
  root: number;
}

/** One operand that is a node: `a·a` has two such edges. */
export interface Edge {
  node: number; // the consumer
  argument: number; // which of its operands
  source: number; // the input
}

/** A graph with its numbers: leaves are given, the rest follows. */
export interface Computed {
  graph: Graph;
  values: number[]; // by node
  locals: number[][]; // by node, by argument; 0 for a constant operand
  grads: number[]; // by node: the correct gradients of the root
  reached: boolean[]; // whether the root depends on the node
  visits: number[]; // the order of a right backward pass: inner nodes, root first
}

export interface Push {
  edge: Edge;
  local: number;
  amount: number; // upstream × local
  before: number; // the input's gradient before and after
  after: number;
}

/** One step of the walk. Steps are made once; walking moves a position in the list. */
export type Step =
  | { phase: "forward"; node: number }
  | { phase: "seed"; node: number }
  | {
      phase: "backward";
      node: number;
      received: number; // its gradient when it was visited
      pushes: Push[];
      completed: number[]; // nodes whose gradient is complete after this step
      incomplete: number[]; // nodes that have received something and wait for more
      early?: number[]; // in the order lab: consumers that are visited only later
    };

/** Something to tell the reader, in whatever language: see say() in state/words.ts. */
export interface Message {
  key: string;
  values?: Record<string, string | number>;
}

/** A mistake in what was typed, with its place: both counted from 1, in code points. */
export interface Mistake extends Message {
  line: number;
  column: number;
  hint?: Message;
}

/** A path from the root down to a node: edges, the root's first, and their product. */
export interface Path {
  edges: Edge[];
  factors: number[];
  product: number;
}
