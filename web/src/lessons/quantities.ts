// Quantities: what a question asks for and what a mistake would give, as text, computed here. The
// same words in Python: gradwalk.course.quiz.quantities.

import type { Asked } from "../engine/byhand";
import { compute, edgesOf, isLeaf, leavesOf, pathCounts } from "../engine/graph";
import { parse } from "../engine/expressions";
import { readNumber } from "../engine/numbers";
import { runOrder } from "../engine/order";
import { recipe } from "../engine/recipes";
import type { Computed, Edge, Graph, Message } from "../engine/types";
import type { Scene } from "../state/stage";
import type { Block } from "./reader";

/** The graph of a block with the numbers of its leaves; null if it has none. */
export function sceneOf({ source, set, id }: Block): Scene | { problem: Message } | null {
  if (!source) return null;
  const found = parse(source, set);
  if ("mistake" in found) return { problem: found.mistake };
  const { graph, values, assumed } = found;
  return { origin: { kind: "lesson", id }, graph, given: values, assumed };
}

/** Its numbers; null without a graph. */
export function numbersOf(block: Block): Computed | null {
  const scene = sceneOf(block);
  return scene && "graph" in scene ? compute(scene.graph, scene.given) : null;
}

export const nodeCalled = (graph: Graph, name: string): number =>
  graph.nodes.findIndex((node) => node.label === name);

function edgeCalled(graph: Graph, name: string, argument: string): Edge | undefined {
  return edgesOf(graph, nodeCalled(graph, name)).find((edge) => edge.argument === Number(argument));
}

const form = /^([a-z]+) (\w+)(?:\.(\d))?(?: \((.+)\))?$/;

/** The number that a quantity is; undefined if it is none. */
export function quantity(numbers: Computed | null, text: string): number | undefined {
  if (text.startsWith("minus ")) {
    const found = quantity(numbers, text.slice(6));
    return found === undefined ? undefined : 0 - found;
  }
  if (numbers && text.startsWith("compute ")) return computedFrom(numbers, text.slice(8));
  const plain = readNumber(text);
  const match = form.exec(text);
  if (plain !== undefined || !numbers || !match) return plain;
  const [, word, name = "", argument, order] = match;
  const { graph, values, grads, locals } = numbers;
  const node = nodeCalled(graph, name);
  const edge = argument && edgeCalled(graph, name, argument);
  if (node < 0 || Boolean(edge) !== (word === "local" || word === "push")) return undefined;
  const local = edge ? locals[node]![edge.argument]! : NaN;
  switch (word) {
    case "value":
      return values[node];
    case "gradient":
    case "slope": // for lessons that come before the word
      return grads[node];
    case "local":
      return local;
    case "push":
      return local * grads[node]!;
    case "overwritten":
      return received(numbers, node, null);
    case "received":
      return order === undefined ? undefined : received(numbers, node, order.split(/\s+/));
    case "paths":
      return Number(pathCounts(graph)[node]);
    default:
      return undefined;
  }
}

/**
 * An expression over the numbers of a graph: values by name, slope_a or grad_a, paths_a, and
 * local_f_0 for the number on an edge.
 */
function computedFrom(numbers: Computed, source: string): number | undefined {
  const read = parse(source);
  if ("mistake" in read) return undefined;
  const { graph } = read;
  const values = graph.nodes.map((node) => (isLeaf(node) ? named(numbers, node.label) : NaN));
  if (values.includes(undefined)) return undefined;
  return compute(graph, values as number[]).values[graph.root];
}

function named(numbers: Computed, name: string): number | undefined {
  if (nodeCalled(numbers.graph, name) >= 0) return quantity(numbers, `value ${name}`);
  const [, edge = "", argument = ""] = /^local_(\w+)_(\d)$/.exec(name) ?? [];
  if (edge) return quantity(numbers, `local ${edge}.${argument}`);
  const [, word = "", of = ""] = /^(grad|slope|paths)_(\w+)$/.exec(name) ?? [];
  return of ? quantity(numbers, `${word === "paths" ? word : "gradient"} ${of}`) : undefined;
}

/** What a node gets from visits in some order; without one, in a right order with `=`. */
function received(numbers: Computed, node: number, names: string[] | null): number | undefined {
  const right = recipe(numbers, "overwrite");
  const visits = names?.map((name) => nodeCalled(numbers.graph, name));
  if ("problem" in right || visits?.includes(-1)) return undefined;
  const run = runOrder(numbers, visits ? [visits] : right.passes, !visits);
  return run.nodes.find((result) => result.node === node)?.got;
}

/** What `asks` of a byhand block asks for; null if a part of it is no such quantity. */
export function asksOfBlock(
  { graph }: Computed,
  asks: string,
  all: (kind: Asked["kind"]) => Asked[],
): Asked[] | null {
  const kind = ({ values: "value", locals: "local", gradients: "grad" } as const)[asks];
  if (kind) return all(kind);
  const found = asks.split(",").map((text): Asked | undefined => {
    const [, word, name = "", argument] = form.exec(text.trim()) ?? [];
    const node = nodeCalled(graph, name);
    const edge = argument && edgeCalled(graph, name, argument);
    if (edge) return word === "local" ? { kind: "local", edge } : undefined;
    if (node < 0 || argument) return undefined;
    return word === "value" || word === "gradient"
      ? { kind: word === "value" ? "value" : "grad", node }
      : undefined;
  });
  return found.includes(undefined) ? null : (found as Asked[]);
}

/** What an order block wants: `x = 9`, or `x correct`; null if it says something else. */
export function goalOf(
  numbers: Computed,
  goal: string,
): { node: number; amount: number | "correct" } | null {
  const [, name = "", text = ""] = /^(\w+)\s*(?:=\s*(.+)|correct)$/.exec(goal) ?? [];
  const node = nodeCalled(numbers.graph, name);
  const amount = text ? quantity(numbers, text) : "correct";
  return node < 0 || amount === undefined ? null : { node, amount };
}

/** What the fields of cores may hold; in Python: _TYPES of gradwalk.course.lesson_files. */
const types: Record<string, (numbers: Computed | null, text: string) => boolean> = {
  text: () => true,
  number: (numbers, text) => quantity(numbers, text) !== undefined,
  numbers: (numbers, text) => text.split(/\s+/).every((word) => types.number!(numbers, word)),
  leaf: (numbers, text) =>
    !!numbers && leavesOf(numbers.graph).includes(nodeCalled(numbers.graph, text)),
  node: (numbers, text) => !!numbers && nodeCalled(numbers.graph, text) >= 0,
  nodes: (numbers, text) => text.split(/\s+/).every((word) => types.node!(numbers, word)),
  nudge: (numbers, text) => {
    const [, wanted] = /^(?:agree|slope = (.+))$/.exec(text) ?? [null, "no"];
    return wanted === undefined || types.number!(numbers, wanted);
  },
};

/** Whether the value of a core's field is of its type. */
function fits(numbers: Computed | null, kind: string, text: string): boolean {
  const [first = "", ...choices] = kind.split(" ");
  return first === "one-of" ? choices.includes(text) : types[first]!(numbers, text);
}

/** What keeps a block from being shown; null if all is well. For those who write lessons. */
export function problemOf(block: Block): Message | null {
  const scene = sceneOf(block);
  if (block.problem) return block.problem;
  if (scene && "problem" in scene) return scene.problem;
  const numbers = scene && compute(scene.graph, scene.given);
  const bad = (text: string): Message => ({ key: "lesson.wrong.quantity", values: { text } });
  if (!numbers && !block.graphless) return { key: "lesson.wrong.missing", values: { text: "source" } };
  if (block.kind === "core") {
    for (const [name, kind] of Object.entries(block.types)) {
      const text = block.data[name];
      if (text && !fits(numbers, kind, text)) return bad(`${name}: ${text}`);
    }
    return null;
  }
  if (numbers && block.kind !== "question") {
    if (block.goal && !goalOf(numbers, block.goal)) return bad(block.goal);
    return block.asks && !asksOfBlock(numbers, block.asks, () => []) ? bad(block.asks) : null;
  }
  const wrong = [block.answer, ...block.wrong.map((one) => one.quantity)].find(
    (text) => text && quantity(numbers, text) === undefined,
  );
  return wrong === undefined ? null : bad(wrong);
}
