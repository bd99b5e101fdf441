// What a step says in words, for the line under the graph and for the live region.

import { expressionText } from "../engine/formulas";
import { shortNumber } from "../engine/numbers";
import type { Step } from "../engine/types";
import type { Stage } from "./stage";
import { say } from "./words";

/** The step last done. */
export const narrate = (stage: Stage): string =>
  [standsAt(stage), whatHappened(stage)].filter(Boolean).join(" ");

/** Which step it is; nothing before the first. */
export function standsAt(stage: Stage): string {
  const step = stage.current.value;
  if (!step) return "";
  return say("walk.step", {
    step: stage.position.value,
    steps: stage.steps.value.length,
    phase: say(`phase.${step.phase}`),
  });
}

/** What it did. */
export function whatHappened(stage: Stage): string {
  const step = stage.current.value;
  if (step) return sentences(stage, step).join(" ");
  return say(stage.shows.value === "all" ? "walk.notBegun" : "walk.notBegunForward");
}

/** The first sentence of it; nothing before the first step. */
export function headline(stage: Stage): string {
  const step = stage.current.value;
  return step ? sentences(stage, step)[0]! : "";
}

function sentences(stage: Stage, step: Step): string[] {
  const { values, grads, graph } = stage.numbers.value;
  const name = stage.name(step.node);
  const first = stage.cause.value === step ? [say("walk.cause")] : [];
  if (step.phase === "seed") return [say("walk.seed", { name })];
  if (step.phase === "forward") {
    const node = graph.nodes[step.node]!;
    const value = shortNumber(values[step.node]!);
    const formula = expressionText(graph, step.node);
    return [say(node.op ? "walk.forward" : "walk.leaf", { name, value, formula }), ...first];
  }
  const found = [
    say(step.early ? "order.visit" : "walk.backward", { name, grad: shortNumber(step.received) }),
  ];
  if (step.early?.length) {
    const consumers = stage.names(step.early);
    found.push(say("order.early", { name, consumers, count: step.early.length }));
  }
  for (const push of step.pushes) {
    const plain = push.before === 0;
    const over = !plain && stage.lab.value && stage.overwrite.value;
    found.push(
      say(plain ? "walk.push" : over ? "order.pushOver" : "walk.pushAdds", {
        before: shortNumber(push.before),
        name: stage.name(push.edge.source),
        received: shortNumber(step.received),
        local: shortNumber(push.local),
        amount: shortNumber(push.amount),
        after: shortNumber(push.after),
      }),
    );
  }
  for (const node of step.completed) {
    const leaf = graph.nodes[node]!.op === "";
    const way = leaf ? wayDown(grads[node]!) : "inner";
    found.push(
      say("walk.complete", {
        name: stage.name(node),
        grad: shortNumber(grads[node]!),
        way: say(`walk.way.${way}`, { root: stage.name(graph.root) }),
      }),
    );
  }
  for (const node of step.incomplete)
    found.push(say("walk.incomplete", { name: stage.name(node) }));
  return [...found, ...first];
}

/** Which way to move a value to lower the root; a gradient of NaN does not say. */
export function wayDown(grad: number): "raise" | "lower" | "none" | "unknown" {
  return grad < 0 ? "raise" : grad > 0 ? "lower" : grad === 0 ? "none" : "unknown";
}
