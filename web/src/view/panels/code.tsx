// The program that is being walked: the topological sort, and backward.

import { useComputed, useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";

import { type CodeStep, codeTrace, lineOf, LISTING } from "../../engine/walk";
import { shortNumber } from "../../engine/numbers";
import type { Stage } from "../../state/stage";
import { say } from "../../state/words";
import { useStage } from "../stage";

export function CodePanel() {
  const stage = useStage();
  const trace = useComputed(() => codeTrace(stage.numbers.value));
  const at = useSignal(lineAt(stage, trace.value.steps));
  // The walk leads; stepping by lines moves the walk along, and must not be led back by it.
  useEffect(
    () =>
      stage.position.subscribe((position) => {
        const here = trace.peek().steps[at.peek()];
        if (here?.step !== position) at.value = lineAt(stage, trace.peek().steps);
      }),
    [stage],
  );
  const { steps, order } = trace.value;
  const here = steps[Math.min(at.value, steps.length - 1)];
  const go = (by: number): void => {
    at.value = Math.max(0, Math.min(steps.length - 1, at.peek() + by));
    const step = steps[at.value]?.step;
    if (step !== undefined && step !== stage.position.peek()) stage.jump(step);
  };
  return (
    <>
      <h3>{say("code.title")}</h3>
      <p>{say("code.about")}</p>
      <pre class="listing scroll" tabindex={0} aria-label={say("code.title")}>
        {LISTING.map((line, i) => (
          <span
            key={i}
            translate={false}
            class={here?.line === i + 1 ? "line now" : "line"}
            aria-current={here?.line === i + 1 ? "step" : undefined}
            data-line={i + 1}
          >
            {line.replace(/\bL\b/g, stage.name(stage.graph.value.root)) || " "}
            {"\n"}
          </span>
        ))}
      </pre>
      <div class="row" data-arrows>
        <button type="button" onClick={() => go(-1)} aria-disabled={at.value === 0}>
          {say("code.undo")}
        </button>
        <button type="button" onClick={() => go(1)} aria-disabled={at.value >= steps.length - 1}>
          {say("code.step")}
        </button>
        <span class="hint">{say("code.count", { line: at.value + 1, lines: steps.length })}</span>
      </div>
      {here && <Variables here={here} order={order} />}
    </>
  );
}

function Variables({ here, order }: { here: CodeStep; order: number[] }) {
  const stage = useStage();
  const { grads } = stage.standing.value;
  const grad = (node: number): string => {
    const found = grads[node] ?? null;
    return found === null ? "" : `, grad ${shortNumber(found)}`;
  };
  return (
    <dl class="facts variables" translate={false}>
      <dt>
        <code>v</code>
      </dt>
      <dd>{here.node === undefined ? "·" : stage.name(here.node) + grad(here.node)}</dd>
      <dt>
        <code>i</code>
      </dt>
      <dd>{here.input === undefined ? "·" : stage.name(here.input) + grad(here.input)}</dd>
      <dt>
        <code>order</code>
      </dt>
      <dd>[{stage.names(order.slice(0, here.order))}]</dd>
    </dl>
  );
}

/** Where in the listing the walk stands. */
function lineAt(stage: Stage, steps: CodeStep[]): number {
  const current = stage.current.peek();
  if (!current) return 0;
  const line = lineOf(current);
  const found = steps.findLastIndex(
    (here) =>
      here.line === line &&
      (current.phase === "forward"
        ? here.node === current.node
        : here.step === stage.position.peek()),
  );
  return Math.max(0, found);
}
