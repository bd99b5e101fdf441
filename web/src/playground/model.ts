// The loss of one point as a graph of scalar ops: what the playground compiles, and what opens on
// the stage. Nodes stand in the order in which Python's code computes them.

import type { Graph, GraphNode, Operand } from "../engine/types";
import type { Random } from "./random";
import type { Settings } from "./settings";

export interface Layer {
  inputs: number;
  outputs: number;
  parameters: [from: number, to: number]; // in the list of all parameters
  units: number[]; // the nodes of its outputs, after the activation
}

export interface Model {
  graph: Graph; // its root is the loss
  inputs: number[]; // nodes
  targets: number[];
  outputs: number[]; // the scores
  parameters: number[];
  layers: Layer[];
}

class Builder {
  readonly nodes: GraphNode[] = [];

  leaf(label: string): number {
    return this.nodes.push({ op: "", args: [], attrs: {}, label }) - 1;
  }

  op(op: string, label: string, ...args: (number | Operand)[]): number {
    const operands = args.map((one) => (typeof one === "number" ? { node: one } : one));
    return this.nodes.push({ op, args: operands, attrs: {}, label }) - 1;
  }
}

export function buildModel(settings: Settings, inputCount = 2, classes = 2): Model {
  const { depth, width, activation } = settings;
  const b = new Builder();
  const last = classes > 2 ? classes : 1;
  const inputs = Array.from({ length: inputCount }, (_, i) => b.leaf(`x${i + 1}`));
  const targets = Array.from({ length: last }, (_, i) => b.leaf(last > 1 ? `y${i}` : "y"));
  const sizes = [inputCount, ...Array.from({ length: depth }, () => width), last];
  const parameters: number[] = [];
  const layers: Layer[] = [];
  let values = inputs;
  for (let at = 0; at <= depth; at++) {
    const from = parameters.length;
    const hidden = at < depth;
    const count = sizes[at + 1]!;
    const name = hidden ? `h${at + 1}_` : "s";
    const before = values;
    values = Array.from({ length: count }, (_, j) => {
      const own = hidden || last > 1 ? `${at + 1}_${j + 1}` : "";
      const weights = before.map((_, i) => b.leaf(own ? `w${own}_${i + 1}` : `w${i + 1}`));
      const bias = b.leaf(`b${own}`);
      parameters.push(...weights, bias);
      let sum = bias;
      before.forEach((value, i) => {
        const product = b.op("mul", `p${own}_${i + 1}`, weights[i]!, value);
        sum = b.op("add", `n${own}_${i + 1}`, sum, product);
      });
      const label = hidden ? `${name}${j + 1}` : last > 1 ? `s${j}` : "s";
      if (hidden && activation !== "linear") return b.op(activation, label, sum);
      b.nodes[sum]!.label = label;
      return sum;
    });
    layers.push({ inputs: sizes[at]!, outputs: count, parameters: [from, parameters.length], units: values });
  }
  const root = last > 1 ? crossEntropy(b, values, targets) : logistic(b, values[0]!, targets[0]!);
  b.nodes[root]!.label = "loss";
  return { graph: { nodes: b.nodes, root }, inputs, targets, outputs: values, parameters, layers };
}

/** log(1 + exp(−y·s)): small when the score has the sign of the target. */
function logistic(b: Builder, score: number, target: number): number {
  const margin = b.op("mul", "m", target, score);
  return b.op("softplus", "loss", b.op("neg", "minus_m", margin));
}

/** log Σ exp(s) − s of the right class. */
function crossEntropy(b: Builder, scores: number[], targets: number[]): number {
  let sum: number | undefined;
  for (const [i, score] of scores.entries()) {
    const power = b.op("exp", `e${i}`, score);
    sum = b.op("add", `sum${i}`, sum ?? { constant: 0 }, power);
  }
  let right: number | undefined;
  for (const [i, score] of scores.entries()) {
    const chosen = b.op("mul", `c${i}`, targets[i]!, score);
    right = b.op("add", `right${i}`, right ?? { constant: 0 }, chosen);
  }
  return b.op("sub", "loss", b.op("log", "all", sum!), right!);
}

/** The parameters' first numbers: weights within a bound that depends on the init, biases 0. */
export function firstNumbers(settings: Settings, { layers }: Model, random: Random): Float64Array {
  const last = layers.at(-1)!;
  const found = new Float64Array(last.parameters[1]);
  let at = 0;
  for (const { inputs, outputs } of layers) {
    const bound = boundOf(settings.init, inputs, outputs);
    for (let j = 0; j < outputs; j++) {
      for (let i = 0; i < inputs; i++) found[at++] = random.uniform(-bound, bound);
      found[at++] = 0;
    }
  }
  return found;
}

function boundOf(init: string, inputs: number, outputs: number): number {
  switch (init) {
    case "he":
      return Math.sqrt(6 / inputs);
    case "xavier":
      return Math.sqrt(6 / (inputs + outputs));
    case "small":
      return 0.01;
    case "zero":
      return 0;
    default:
      return 1;
  }
}
