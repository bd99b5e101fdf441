// A graph compiled for running it many times. A page may not turn text into code, so the plan is
// numbers: one slot for each value, and runs of one op with the slots that it reads and writes. The
// loops over them are written from the op table (generated/loops.ts).

import { attributesOf, OPS } from "../engine/ops";
import type { Graph } from "../engine/types";
import { LOOPS } from "../generated/loops";

/** Of values, gradients, the slots of results, and those of inputs and then attributes. */
export type OpLoops = [
  forward: (v: Float64Array, o: Int32Array, x: Int32Array, y: Int32Array, z: Int32Array) => void,
  backward: (
    v: Float64Array,
    g: Float64Array,
    o: Int32Array,
    x: Int32Array,
    y: Int32Array,
    z: Int32Array,
  ) => void,
];

interface Run {
  loops: OpLoops;
  out: Int32Array;
  operands: [Int32Array, Int32Array, Int32Array];
}

/**
 * Several copies of a graph run side by side, one for each point: they share the nodes of `shared`,
 * the parameters. The slot of a copy's node is `node + copy * size`, of a shared node `node`.
 */
export class Plan {
  readonly size: number;
  readonly values: Float64Array;
  readonly grads: Float64Array;
  private readonly runs: Run[];
  private readonly inner: Int32Array; // slots
  private readonly roots: number[];

  constructor(
    graph: Graph,
    shared: number[],
    readonly copies: number,
  ) {
    const { nodes } = graph;
    this.size = nodes.length;
    const all = [...Array(copies).keys()];
    const isShared = new Set(shared);
    const slot = (node: number, copy: number): number =>
      isShared.has(node) ? node : node + copy * this.size;
    const constants: number[] = [];
    const constant = (number: number): number => {
      const known = constants.findIndex((one) => Object.is(one, number));
      return this.size * copies + (known < 0 ? constants.push(number) - 1 : known);
    };
    /** The slots of an op's operands, inputs and then attributes. */
    const operands = (node: number, copy: number): number[] => {
      const { op, args, attrs } = nodes[node]!;
      return [
        ...args.map((one) => ("node" in one ? slot(one.node, copy) : constant(one.constant))),
        ...attributesOf(OPS[op]!, attrs).map((one) => constant(one ?? NaN)),
      ];
    };
    this.runs = groupsOf(graph).map((group) => {
      const rows = all.flatMap((copy) => group.map((node) => [node, copy] as const));
      const read = rows.map(([node, copy]) => operands(node, copy));
      const column = (k: number): Int32Array => Int32Array.from(read, (row) => row[k] ?? 0);
      return {
        loops: LOOPS[nodes[group[0]!]!.op]!,
        out: Int32Array.from(rows, ([node, copy]) => slot(node, copy)),
        operands: [column(0), column(1), column(2)],
      };
    });
    this.inner = Int32Array.from(this.runs.flatMap(({ out }) => [...out]));
    this.roots = all.map((copy) => slot(graph.root, copy));
    this.values = new Float64Array(this.size * copies + constants.length);
    this.grads = new Float64Array(this.values.length);
    this.values.set(constants, this.size * copies);
  }

  /** From the leaves' values to all others. */
  forward(): void {
    for (const { loops, out, operands } of this.runs) {
      loops[0](this.values, out, operands[0], operands[1], operands[2]);
    }
  }

  /** Gradients of `seed` times each root; those of leaves are added to what they have. */
  backward(seed: number): void {
    const { values, grads, inner } = this;
    for (let i = 0; i < inner.length; i++) grads[inner[i]!] = 0;
    for (const root of this.roots) grads[root] = seed;
    for (let at = this.runs.length - 1; at >= 0; at--) {
      const { loops, out, operands } = this.runs[at]!;
      loops[1](values, grads, out, operands[0], operands[1], operands[2]);
    }
  }
}

/** Nodes of one op that do not depend on each other, each group after those that it reads. */
function groupsOf({ nodes }: Graph): number[][] {
  const levels = nodes.map(() => 0);
  const groups = new Map<string, number[]>();
  nodes.forEach(({ op, args }, i) => {
    if (!op) return;
    levels[i] = 1 + Math.max(0, ...args.map((one) => ("node" in one ? levels[one.node]! : 0)));
    const key = `${levels[i]} ${op}`;
    if (!groups.has(key)) groups.set(key, []);
    groups.get(key)!.push(i);
  });
  return [...groups.values()].sort((one, other) => levels[one[0]!]! - levels[other[0]!]!);
}
