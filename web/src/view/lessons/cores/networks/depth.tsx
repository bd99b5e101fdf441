// A chain of layers h ← act(w · h): how large the gradient is at each of them.

import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";

import { shortNumber } from "../../../../engine/numbers";
import { attributesOf, OPS } from "../../../../engine/ops";
import { quantity } from "../../../../lessons/quantities";
import { say } from "../../../../state/words";
import { asIs } from "../../../text";
import type { CoreProps } from "../registry";
import { Slider } from "../slider";

const activations = ["sigmoid", "tanh", "relu", "leaky_relu"];
const most = 30;
const [top, bottom] = [6, -12]; // powers of ten that are shown

const goals: Record<string, (gradient: number, depth: number) => boolean> = {
  vanish: (gradient) => gradient !== 0 && Math.abs(gradient) < 1e-6,
  explode: (gradient) => Math.abs(gradient) > 1e6,
  dead: (gradient) => gradient === 0,
  survive: (gradient, depth) =>
    depth >= 20 && Math.abs(gradient) >= 0.1 && Math.abs(gradient) <= 10,
};

/** Forward, then back: the gradient of the last result by each of the results before it. */
export function gradients(activation: string, w: number, x: number, depth: number): number[] {
  const op = OPS[activation]!;
  const more = attributesOf(op, {});
  const inputs: number[] = [];
  let h = x;
  for (let layer = 0; layer < depth; layer++) {
    inputs.push(w * h);
    h = op.value(w * h, ...more);
  }
  const found = [1];
  for (let layer = depth - 1; layer >= 0; layer--) {
    const out = op.value(inputs[layer]!, ...more);
    found.unshift(w * op.pulls[0]!(found[0]!, out, inputs[layer]!, ...more));
  }
  return found; // of x, of each layer, and 1 at the end
}

export function Depth({ block, finish }: CoreProps) {
  const start = (name: string): number => quantity(null, block.data[name] ?? "1")!;
  const activation = useSignal(block.data.activation ?? activations[0]!);
  const depth = useSignal(start("depth"));
  const w = useSignal(start("weight"));
  const x = useSignal(start("input"));
  const found = gradients(activation.value, w.value, x.value, depth.value);
  const reached = goals[block.data.goal!]!(found[0]!, depth.value);
  useEffect(() => {
    if (reached) finish();
  }, [reached]);
  return (
    <div class="beside">
      <Bars gradients={found} />
      <div class="readings">
        <fieldset class="row steps">
          <legend>{say("core.depth.activation")}</legend>
          {activations.map((name) => (
            <label key={name} class="check">
              <input
                type="radio"
                name={`act-${block.id}`}
                checked={activation.value === name}
                onChange={() => (activation.value = name)}
                data-activation={name}
              />
              <span translate={false}>{name.replace("_", " ")}</span>
            </label>
          ))}
        </fieldset>
        <Slider
          label={say("core.depth.layers")}
          name={say("core.depth.short")}
          from={1}
          to={most}
          step={1}
          value={depth.value}
          onMove={(value) => (depth.value = value)}
        />
        <Slider
          label={say("core.depth.weight")}
          name="w"
          from={-3}
          to={3}
          step={0.1}
          value={w.value}
          onMove={(value) => (w.value = value)}
        />
        <Slider
          label={say("core.depth.input")}
          name="x"
          from={-3}
          to={3}
          step={0.1}
          value={x.value}
          onMove={(value) => (x.value = value)}
        />
        <dl class="pairs" data-gradient={found[0]}>
          <dt>{say("core.depth.gradient")}</dt>
          <dd translate={false}>{shortNumber(found[0]!)}</dd>
        </dl>
      </div>
    </div>
  );
}

/** One bar for a layer, its height a power of ten; a gradient of 0 has none. */
function Bars({ gradients: all }: { gradients: number[] }) {
  const [wide, high, edge, scale] = [480, 260, 26, 74]; // `scale`: room for its numbers
  const width = Math.min(40, (wide - edge - scale) / all.length);
  const up = (power: number): number => edge + ((top - power) / (top - bottom)) * (high - 2 * edge);
  return (
    <svg
      class="plot"
      viewBox={`0 0 ${wide} ${high}`}
      role="img"
      aria-label={say("core.depth.plot")}
    >
      <g aria-hidden="true">
        {[6, 0, -6, -12].map((power) => (
          <g key={power}>
            <path class="axes" d={`M${edge} ${up(power)}H${wide - 6}`} />
            <text {...asIs} class="scale" x={wide - 8} y={up(power) - 4} text-anchor="end">
              {power ? `1e${shortNumber(power)}` : "1"}
            </text>
          </g>
        ))}
        {all.map((gradient, i) => {
          const power = Math.max(bottom, Math.min(top, Math.log10(Math.abs(gradient))));
          const [y, base] = [up(power), up(bottom)];
          if (!gradient) return null;
          return (
            <rect
              key={i}
              class={gradient < 0 ? "power negative" : "power positive"}
              x={edge + i * width + 1}
              y={y}
              width={Math.max(2, width - 2)}
              height={Math.max(1.5, base - y)}
            />
          );
        })}
        <text {...asIs} class="at" x={edge} y={high - 7}>
          x
        </text>
      </g>
    </svg>
  );
}
