// A gradient compared with a measured slope, for steps from large to tiny.

import { useSignal } from "@preact/signals";
import { useEffect, useMemo } from "preact/hooks";

import { compute } from "../../../../engine/graph";
import { general, shortNumber } from "../../../../engine/numbers";
import { nodeCalled, quantity } from "../../../../lessons/quantities";
import { say } from "../../../../state/words";
import { asIs } from "../../../text";
import type { CoreProps } from "../registry";
import { Slider } from "../slider";

const forms = ["forward", "central"] as const;
const [largest, smallest] = [-1, -15]; // powers of ten
const [wide, high, edge] = [480, 240, 30];

export function Epsilon({ block, numbers, finish }: CoreProps) {
  const { graph, values, grads } = numbers!;
  const leaf = nodeCalled(graph, block.data.leaf!);
  const power = useSignal(largest);
  const form = useSignal<(typeof forms)[number]>("forward");
  const errors = useMemo(() => {
    const of = (value: number): number =>
      compute(
        graph,
        values.map((old, node) => (node === leaf ? value : old)),
      ).values[graph.root]!;
    const x = values[leaf]!;
    const measured = {
      forward: (step: number) => (of(x + step) - of(x)) / step,
      central: (step: number) => (of(x + step) - of(x - step)) / (2 * step),
    };
    return forms.map((name) =>
      Array.from({ length: largest - smallest + 1 }, (_, i) => {
        const slope = measured[name](10 ** (largest - i));
        return { slope, error: Math.abs(slope - grads[leaf]!) };
      }),
    );
  }, [numbers]);
  const here = errors[forms.indexOf(form.value)]![largest - power.value]!;
  const reached = here.error < quantity(numbers, block.data.below!)!;
  useEffect(() => {
    if (reached) finish();
  }, [reached]);
  const step = `1e${shortNumber(power.value)}`;
  return (
    <div class="beside">
      <ErrorPlot errors={errors} at={largest - power.value} form={forms.indexOf(form.value)} />
      <div class="readings">
        <Slider
          label={say("core.epsilon.power")}
          name="log₁₀ ε"
          from={smallest}
          to={largest}
          step={1}
          value={power.value}
          onMove={(value) => (power.value = value)}
        />
        <fieldset class="row steps">
          <legend>{say("core.epsilon.form")}</legend>
          {forms.map((name) => (
            <label key={name} class="check">
              <input
                type="radio"
                name={`form-${block.id}`}
                checked={form.value === name}
                onChange={() => (form.value = name)}
                data-form={name}
              />
              <span>{say(`core.epsilon.${name}`)}</span>
            </label>
          ))}
        </fieldset>
        <dl class="pairs" data-error={here.error}>
          <dt>ε</dt>
          <dd translate={false}>{step}</dd>
          <dt>{say("core.epsilon.backward")}</dt>
          <dd translate={false}>{general(grads[leaf]!, 12).replace("-", "−")}</dd>
          <dt>{say("core.epsilon.measured")}</dt>
          <dd translate={false}>{general(here.slope, 12).replace("-", "−")}</dd>
          <dt>{say("core.epsilon.error")}</dt>
          <dd translate={false}>{general(here.error, 2).replace("-", "−")}</dd>
        </dl>
      </div>
    </div>
  );
}

/** Both axes count powers of ten: errors of 1 at the top, of 1e-14 at the bottom. */
function ErrorPlot(props: { errors: { error: number }[][]; at: number; form: number }) {
  const across = (i: number): number => edge + (i / (largest - smallest)) * (wide - 2 * edge);
  const up = (error: number): number => {
    const digits = Math.max(-14, Math.min(1, Math.log10(Math.max(error, 1e-30))));
    return edge + ((1 - digits) / 15) * (high - 2 * edge);
  };
  const line = (points: { error: number }[]): string =>
    points.map(({ error }, i) => `${i ? "L" : "M"}${across(i)} ${up(error)}`).join("");
  const { error } = props.errors[props.form]![props.at]!;
  return (
    <svg
      class="plot"
      viewBox={`0 0 ${wide} ${high}`}
      role="img"
      aria-label={say("core.epsilon.plot")}
    >
      <g aria-hidden="true">
        <path class="axes" d={`M${edge} ${edge}V${high - edge}H${wide - edge}`} />
        {props.errors.map((points, i) => (
          <path key={i} class={i === props.form ? "curve" : "curve faint"} d={line(points)} />
        ))}
        <circle class="point" cx={across(props.at)} cy={up(error)} r={8} />
        <text {...asIs} x={edge} y={high - 8}>
          ε = 0.1
        </text>
        <text {...asIs} x={wide - edge} y={high - 8} text-anchor="end">
          ε = 1e−15
        </text>
        <text x={edge + 6} y={edge + 4}>
          {say("core.epsilon.error")}
        </text>
      </g>
    </svg>
  );
}
