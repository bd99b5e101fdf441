// The engine for the tests: answers calls in JSON. serve.mjs feeds it lines.

import * as byhand from "../src/engine/byhand";
import * as curve from "../src/engine/curve";
import * as derive from "../src/engine/derive";
import * as expand from "../src/engine/expand";
import * as expressions from "../src/engine/expressions";
import * as formulas from "../src/engine/formulas";
import * as graph from "../src/engine/graph";
import * as numbers from "../src/engine/numbers";
import { attributesOf, OPS } from "../src/engine/ops";
import * as nudge from "../src/engine/nudge";
import * as order from "../src/engine/order";
import * as recipes from "../src/engine/recipes";
import * as rules from "../src/engine/rules";
import * as walk from "../src/engine/walk";
import * as why from "../src/engine/why";
import * as completion from "../src/state/completion";
import * as answers from "../src/lessons/answers";
import * as quantities from "../src/lessons/quantities";
import * as reader from "../src/lessons/reader";
import * as shuffle from "../src/lessons/shuffle";
import * as playground from "./playground";

/** An op at some operands: its value, and what goes back to each for g. */
function applied(name: string, operands: number[], attrs: Record<string, number>, g = 1): unknown {
  const op = OPS[name]!;
  const more = attributesOf(op, attrs);
  const value = op.value(...operands, ...more);
  return { value, pulled: op.pulls.map((pull) => pull?.(g, value, ...operands, ...more) ?? null) };
}

const table = (): unknown =>
  Object.fromEntries(
    Object.entries(OPS).map(([name, { value: _, pulls, ...row }]) => [
      name,
      { ...row, carries: pulls.map(Boolean) },
    ]),
  );

const modules: Record<string, Record<string, unknown>> = {
  answers,
  byhand,
  completion,
  curve,
  derive,
  expand,
  expressions,
  formulas,
  graph,
  numbers,
  nudge,
  order,
  playground,
  recipes,
  rules,
  quantities,
  reader,
  shuffle,
  walk,
  why,
  ops: { applied, table },
};

/** `{"call": "graph.compute", "args": [...]}`; many calls at once if args is a list of lists. */
export function answer(line: string): string {
  const { call, args, each } = JSON.parse(line, revive);
  const [module, name] = call.split(".");
  const called = modules[module]![name] as (...args: unknown[]) => unknown;
  const found = each ? args.map((a: unknown[]) => called(...a)) : called(...args);
  return JSON.stringify({ answer: found }, write);
}

function revive(_key: string, value: unknown): unknown {
  const float = (value as { float?: string } | null)?.float;
  if (float === undefined) return value;
  return { nan: NaN, inf: Infinity, "-inf": -Infinity, "-0": -0 }[float];
}

function write(_key: string, value: unknown): unknown {
  if (typeof value === "bigint") return { integer: String(value) };
  if (typeof value !== "number") return value;
  if (Object.is(value, -0)) return { float: "-0" };
  return Number.isFinite(value) ? value : { float: String(value).replace("Infinity", "inf") };
}
