// The order lab of a stage: what is tried there, and what came of it.

import { AGAIN, computedOrder, orderOf, passesOf } from "../engine/order-steps";
import { type OrderResult, runOrder } from "../engine/order";
import { agree } from "../engine/numbers";
import { type Recipe, recipe, RECIPES } from "../engine/recipes";
import type { Message } from "../engine/types";
import { announce } from "./announce";
import type { Stage } from "./stage";
import { say } from "./words";

/** What an order is to give a node: a number, or the right one. */
export interface Goal {
  node: number;
  amount: number | "correct";
}

const mostVisits = 400; // that can be looked at, one by one

/** The order tried: as computed until somebody has arranged another. */
export const orderOn = (stage: Stage): number[] =>
  stage.order.value ?? computedOrder(stage.numbers.value);

/** The name of a visit. */
export const visitName = (stage: Stage, node: number): string =>
  node === AGAIN ? say("order.again") : stage.name(node);

export function move(stage: Stage, from: number, to: number): void {
  const order = orderOn(stage).slice();
  const [node] = order.splice(from, 1);
  if (node === undefined || to < 0 || to > order.length) return;
  order.splice(to, 0, node);
  stage.arrange(order);
  announce(
    say("order.moved", { name: visitName(stage, node), place: to + 1, count: order.length }),
  );
}

export function leaveOut(stage: Stage, place: number): void {
  const order = orderOn(stage).slice();
  const [node] = order.splice(place, 1);
  if (node === undefined) return;
  stage.arrange(order);
  announce(say("order.leftOut", { name: visitName(stage, node) }));
}

/** One more visit, at a place or at the end. */
export function visit(stage: Stage, node: number, place = orderOn(stage).length): void {
  const order = orderOn(stage).slice();
  order.splice(place, 0, node);
  stage.arrange(order);
  announce(
    say("order.added", { name: visitName(stage, node), place: place + 1, count: order.length }),
  );
}

/** Arrange what a recipe does; where it cannot be shown, says why. */
export function follow(stage: Stage, name: Recipe): Message | null {
  const run = recipe(stage.numbers.value, name, mostVisits);
  if ("problem" in run) return run.problem;
  const order = orderOf(run.passes);
  if (order.length > mostVisits) return { key: "order.tooMany", values: { visits: order.length } };
  stage.arrange(order, run.overwrite);
  announce(say("order.follows", { recipe: say(`order.recipe.${name}`) }));
  return null;
}

/** The recipes that do just what is tried. */
export function recipesOn(stage: Stage): Recipe[] {
  const tried = orderOn(stage).join();
  return RECIPES.filter((name) => {
    const run = recipe(stage.numbers.value, name, mostVisits);
    if ("problem" in run || run.overwrite !== stage.overwrite.value) return false;
    return orderOf(run.passes).join() === tried;
  });
}

export const resultOn = (stage: Stage): OrderResult =>
  runOrder(stage.numbers.value, passesOf(orderOn(stage)), stage.overwrite.value);

/** The node that is looked at: what is selected, else the first leaf that the root depends on. */
export function lookedAt(stage: Stage): number {
  const { graph, reached } = stage.numbers.value;
  const selected = stage.selection.value;
  const node =
    selected?.kind === "node"
      ? selected.node
      : selected?.kind === "edge"
        ? selected.edge.source
        : selected?.path.edges.at(-1)?.source;
  if (node !== undefined && reached[node]) return node;
  const leaf = graph.nodes.findIndex((made, i) => !made.op && reached[i]);
  return leaf < 0 ? graph.root : leaf;
}

export function isReached({ nodes }: OrderResult, { node, amount }: Goal): boolean {
  const found = nodes.find((one) => one.node === node);
  return found !== undefined && agree(found.got, amount === "correct" ? found.correct : amount);
}
