// Drag x along a curve; beside it what a small step does, and what the slope says of it.

import { useSignal } from "@preact/signals";
import { useEffect, useMemo } from "preact/hooks";

import { compute } from "../../../engine/graph";
import { shortNumber } from "../../../engine/numbers";
import { nodeCalled, quantity } from "../../../lessons/quantities";
import { say } from "../../../state/words";
import { inBrackets } from "../../text";
import { Plot } from "./plot";
import type { CoreProps } from "./registry";
import { Slider, snapped, stepOf } from "./slider";

const steps = [1, 0.5, 0.1, 0.01, -0.5];
const NEAR = 0.01; // relative: step and slope agree to a hundredth

export function Nudge({ block, numbers, finish }: CoreProps) {
  const { graph, values } = numbers!;
  const { leaf: x, goal } = block.data as { leaf: string; goal: string };
  const leaf = nodeCalled(graph, x);
  const from = quantity(numbers, block.data.from!)!;
  const to = quantity(numbers, block.data.to!)!;
  const unit = stepOf(from, to);
  const at = useSignal(values[leaf]!);
  const step = useSignal(steps[0]!);
  const moved = useSignal(false);
  const computedAt = useMemo(
    () => (value: number) =>
      compute(
        graph,
        values.map((old, node) => (node === leaf ? value : old)),
      ),
    [numbers],
  );
  const of = useMemo(() => (value: number) => computedAt(value).values[graph.root]!, [numbers]);
  const here = computedAt(at.value);
  const slope = here.grads[leaf]!;
  const before = here.values[graph.root]!;
  const real = of(at.value + step.value) - before;
  const foretold = slope * step.value;
  const [, wanted] = /^slope = (.+)$/.exec(goal) ?? [];
  const reached = wanted
    ? Math.abs(slope - quantity(numbers, wanted)!) < 1e-6
    : Math.abs(real - foretold) <= NEAR * Math.abs(real);
  useEffect(() => {
    if (moved.value && reached) finish();
  }, [moved.value, reached]);
  const move = (value: number): void => {
    at.value = snapped(value, from, unit);
    moved.value = true;
  };
  const f = graph.nodes[graph.root]!.label;
  const most = Math.max(Math.abs(real), Math.abs(foretold), 1e-12);
  return (
    <div class="beside">
      <Plot
        label={say("core.nudge.plot", { f, x })}
        of={of}
        from={from}
        to={to}
        x={at.value}
        slope={slope}
        step={step.value}
        name={x}
        onMove={move}
      />
      <div class="readings">
        <Slider
          label={say("core.nudge.move", { x })}
          name={x}
          from={from}
          to={to}
          step={unit}
          value={at.value}
          onMove={move}
        />
        <fieldset class="row steps">
          <legend>{say("core.nudge.step", { x })}</legend>
          {steps.map((size) => (
            <label key={size} class="check">
              <input
                type="radio"
                name={`step-${block.id}`}
                checked={step.value === size}
                onChange={() => {
                  step.value = size;
                  moved.value = true;
                }}
                data-step-size={size}
              />
              <span>{shortNumber(size)}</span>
            </label>
          ))}
        </fieldset>
        <dl class="pairs" data-slope={slope} data-real={real} data-foretold={foretold}>
          <dt translate={false}>{f}</dt>
          <dd>{shortNumber(before)}</dd>
          <dt>{say("core.nudge.slope")}</dt>
          <dd>{shortNumber(slope)}</dd>
          <dt>{say("core.nudge.real", { f })}</dt>
          <dd>
            {shortNumber(real)}
            <Bar kind="by-curve" part={real / most} />
          </dd>
          <dt>{say("core.nudge.foretold", { x })}</dt>
          <dd>
            {shortNumber(slope)} · {inBrackets(step.value)} = {shortNumber(foretold)}
            <Bar kind="by-line" part={foretold / most} />
          </dd>
        </dl>
      </div>
    </div>
  );
}

/** How large a change is, beside the other. */
function Bar({ kind, part }: { kind: string; part: number }) {
  return <span class={`change-bar ${kind}`} style={{ inlineSize: `${Math.abs(part) * 100}%` }} />;
}
