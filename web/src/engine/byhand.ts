// By hand: a typed number, right or wrong, and if wrong, what it looks like somebody did.

import { edgesInto, edgesOf, operandValue, pull } from "./graph";
import { agree, shortNumber } from "./numbers";
import { amounts, asRun, backwardGraph } from "./order-sums";
import { attributesOf, OPS, opOf } from "./ops";
import type { Computed, Edge, Message } from "./types";
import { pathsTo } from "./why";

/** What is asked for. */
export type Asked =
  { kind: "value"; node: number } | { kind: "local"; edge: Edge } | { kind: "grad"; node: number };

export interface Verdict {
  right: boolean;
  correct: number;
  message: Message;
}

const ROUNDED = 1e-3; // relative: three digits are enough by hand
const FEW = 6; // contributions of which every choice is tried

/** The right answer. */
export function correctAnswer(computed: Computed, asked: Asked): number {
  if (asked.kind === "value") return computed.values[asked.node]!;
  if (asked.kind === "grad") return computed.grads[asked.node]!;
  return computed.locals[asked.edge.node]![asked.edge.argument]!;
}

/** Whether an answer is right: to three digits, or to what the page itself would show. */
export function isRight(answer: number, correct: number): boolean {
  if (agree(answer, correct, ROUNDED)) return true;
  return Number(shortNumber(correct).replaceAll("−", "-")) === answer && correct !== 0;
}

/** Mistakes whose explanation speaks of gradients: not before there are any. */
const OF_GRADIENTS = ["gradNotValue", "totalNotLocal", "upstreamOnly"].map((key) => `byhand.${key}`);

export function check(computed: Computed, asked: Asked, answer: number, gradients = true): Verdict {
  const correct = correctAnswer(computed, asked);
  if (isRight(answer, correct)) return { right: true, correct, message: { key: "byhand.right" } };
  const list = { value: valueMistakes, local: localMistakes, grad: gradMistakes }[asked.kind];
  // A guess that would be right as well explains nothing.
  const found = (list as (c: Computed, a: Asked) => Guess[])(computed, asked).find(
    ([number, { key }]) =>
      isRight(answer, number) &&
      !isRight(number, correct) &&
      (gradients || !OF_GRADIENTS.includes(key)),
  );
  const message = found?.[1] ?? { key: "byhand.wrong" };
  return { right: false, correct, message };
}

type Guess = [number: number, message: Message];

const guess = (number: number, key: string, values?: Message["values"]): Guess => [
  number,
  { key: `byhand.${key}`, ...(values && { values }) },
];

const label = ({ graph }: Computed, node: number): string => graph.nodes[node]!.label;

function gradMistakes(computed: Computed, { node }: { node: number }): Guess[] {
  const { graph, values, grads, locals, reached } = computed;
  const name = label(computed, node);
  const edges = edgesInto(graph, node).filter((edge) => reached[edge.node]);
  const shares = edges.map(
    (edge) => pull(graph, values, edge.node, grads[edge.node]!)[edge.argument]!,
  );
  const found: Guess[] = [];
  if (edges.length > 1) {
    const backward = backwardGraph(computed);
    const run = asRun(backward, amounts(backward), [computed.visits], true);
    // Consumers are visited from the root down, and the arguments of each from left to right.
    const last = edges.findLastIndex((edge) => edge.node === edges[0]!.node);
    found.push(guess(run[node] ?? 0, "overwrote", { name, count: edges.length }));
    found.push(guess(shares[last]!, "overwrote", { name, count: edges.length }));
    if (edges.length <= FEW) {
      for (let choice = 1; choice < 2 ** edges.length - 1; choice++) {
        const missing = edges.filter((_, i) => !(choice & (1 << i)));
        const sum = shares.reduce((total, share, i) => total + (choice & (1 << i) ? share : 0), 0);
        const names = [...new Set(missing.map((edge) => label(computed, edge.node)))].join(", ");
        found.push(guess(sum, "pathMissing", { name, consumers: names }));
      }
    }
  }
  const { paths, count } = pathsTo(computed, node, FEW);
  if (count > 1n && count <= FEW) {
    for (const path of paths) {
      const through = path.edges.map((edge) => label(computed, edge.node)).join(" → ");
      found.push(guess(grads[node]! - path.product, "pathMissing", { name, consumers: through }));
    }
  }
  found.push(guess(-grads[node]!, "sign"));
  for (const edge of edges) {
    const consumer = label(computed, edge.node);
    const local = locals[edge.node]![edge.argument]!;
    found.push(guess(local, "localNotTotal", { name, consumer }));
    if (edge.node !== graph.root) {
      found.push(guess(grads[edge.node]!, "upstreamOnly", { name, consumer }));
      found.push(guess(grads[edge.node]! + local, "addedUpstream", { name, consumer }));
    }
    for (const other of edgesOf(graph, edge.node)) {
      const source = label(computed, other.source);
      if (other.source !== node) {
        found.push(guess(grads[other.source]!, "otherInput", { name, other: source }));
        const share = pull(graph, values, edge.node, grads[edge.node]!)[other.argument]!;
        found.push(guess(share, "otherInput", { name, other: source }));
      }
    }
  }
  found.push(guess(values[node]!, "valueNotGrad", { name }));
  if (node === graph.root) found.push(guess(0, "seed", { name }));
  else found.push(guess(values[graph.root]!, "rootValue", { name: label(computed, graph.root) }));
  return found;
}

function localMistakes(computed: Computed, { edge }: { edge: Edge }): Guess[] {
  const { graph, values, grads, locals } = computed;
  const { node, argument, source } = edge;
  const local = locals[node]![argument]!;
  const consumer = label(computed, node);
  const name = label(computed, source);
  const others = edgesOf(graph, node).filter((other) => other.argument !== argument);
  return [
    ...others.map((other) =>
      guess(locals[node]![other.argument]!, "otherInput", {
        name,
        other: label(computed, other.source),
      }),
    ),
    guess(-local, "sign"),
    guess(local * grads[node]!, "totalNotLocal", { name, consumer }),
    guess(grads[source]!, "totalNotLocal", { name, consumer }),
    guess(grads[node]!, "upstreamOnly", { name, consumer }),
    guess(values[node]!, "valueNotLocal", { name: consumer }),
    guess(values[source]!, "valueNotLocal", { name }),
    guess(1 / local, "upsideDown", { name, consumer }),
  ];
}

const BINARY = ["add", "sub", "mul", "div"];

function valueMistakes(computed: Computed, { node: index }: { node: number }): Guess[] {
  const { graph, values, grads } = computed;
  const node = graph.nodes[index]!;
  const operands = node.args.map((operand) => operandValue(operand, values));
  const found: Guess[] = [];
  const op = opOf(node);
  if (op && operands.length === 2) {
    const swapped = op.value(operands[1], operands[0], ...attributesOf(op, node.attrs));
    found.push(guess(swapped, "swapped"));
    for (const other of BINARY) {
      if (other === node.op) continue;
      const { symbol, value } = OPS[other]!;
      const names = { op: op.symbol ?? node.op, sign: symbol! };
      found.push(guess(value(...operands), "otherOp", names));
    }
  }
  if (node.op === "power") {
    const doubled = operands[0]! * node.attrs.exponent!;
    found.push(guess(doubled, "timesExponent", { exponent: node.attrs.exponent! }));
  }
  found.push(guess(-values[index]!, "sign"));
  for (const edge of edgesOf(graph, index)) {
    found.push(guess(values[edge.source]!, "inputOnly", { name: label(computed, edge.source) }));
  }
  found.push(guess(grads[index]!, "gradNotValue", { name: label(computed, index) }));
  return found;
}
