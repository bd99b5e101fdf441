// Outlines and layouts of traces for the tests: answers calls in JSON, as engine.ts does.

import { inSight, type Plan, planOf, type Plans, spotOf } from "../src/layout/nested";
import { countOf, Fault, parameterCount, readTrace } from "../src/trace/description";
import { jacobianOf } from "../src/trace/jacobian";
import { outlineOf } from "../src/trace/outline";
import { search, entriesOf } from "../src/trace/search";

/** What is wrong with a description: the key of the message, and where; null if nothing is. */
function fault(description: unknown): unknown {
  try {
    readTrace(description);
    return null;
  } catch (error) {
    if (!(error instanceof Fault)) throw error;
    return error.told;
  }
}

const outline = (description: unknown): unknown => outlineOf(readTrace(description));

/** Every scope open: where all items stand, how many plans were drawn, how many items are shown. */
function layout(description: unknown): unknown {
  const found = outlineOf(readTrace(description));
  const open = new Set(found.scopes.keys());
  const plans: Plans = new Map();
  const plan = planOf(found, 0, open, plans);
  const whole = { x: 0, y: 0, width: plan.width, height: plan.height };
  const seen = inSight(found, plan, whole, 1);
  return {
    scopes: [...scopesOf(plan, 0, found)],
    plans: plans.size,
    shown: seen.reduce((sum, { items }) => sum + items.length, 0),
    width: plan.width,
    height: plan.height,
    nodes: found.home.map((_, node) => spotOf(found, plan, { node }) ?? null),
  };
}

function* scopesOf(
  plan: Plan,
  scope: number,
  found: ReturnType<typeof outlineOf>,
): Iterable<unknown> {
  yield { scope, width: plan.width, height: plan.height, spots: plan.spots };
  for (const [i, item] of found.scopes[scope]!.items.entries()) {
    const inner = plan.inner[i];
    if (inner && "scope" in item) yield* scopesOf(inner, item.scope, found);
  }
}

function find(description: unknown, asked: string): unknown {
  const trace = readTrace(description);
  return search(entriesOf(trace, outlineOf(trace)), asked, 1000);
}

const parameters = (description: unknown): number => parameterCount(readTrace(description));

/** The Jacobian of a node by an operand, densely: outputs by inputs; null if there is none. */
function jacobian(description: unknown, node: number, argument: number): unknown {
  const trace = readTrace(description);
  const values = (at: number): number[] | undefined => trace.nodes[at]!.values[0]?.elements;
  const found = jacobianOf(trace, node, argument, values);
  if (!found) return null;
  const rows = countOf(trace.nodes[node]!.metas[0]!.shape);
  const dense = Array.from({ length: rows }, () => found.map(() => 0));
  found.forEach((entries, column) =>
    entries.forEach(({ out, factor }) => (dense[out]![column]! += factor)),
  );
  return dense;
}

const calls: Record<string, (...args: never[]) => unknown> = {
  fault,
  outline,
  layout,
  find,
  jacobian,
  parameters,
};

export function answer(line: string): string {
  const { call, args } = JSON.parse(line) as { call: string; args: never[] };
  return JSON.stringify({ answer: calls[call]!(...args) ?? null });
}
