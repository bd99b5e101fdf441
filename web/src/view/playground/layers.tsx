// Layer by layer: how the units' outputs and the parameters' gradients are spread.

import { general } from "../../engine/numbers";
import type { LayerLook } from "../../playground/look";
import { session } from "../../playground/session";
import { say } from "../../state/words";

export function Layers() {
  const { layers, range, powers, step } = session.look.value;
  const tall = layers.length <= 8;
  return (
    <div class={tall ? "layers" : "layers many"}>
      <table>
        <caption>{say("play.layers")}</caption>
        <thead>
          <tr>
            <th scope="col">{say("play.layer")}</th>
            <th scope="col">
              {say("play.activations")}
              <Scale from={brief(range[0])} to={brief(range[1])} />
            </th>
            <th scope="col">
              {say("play.gradients")}
              <Scale from={`10${raised(powers[0])}`} to={`10${raised(powers[1])}`} />
            </th>
            <th scope="col">{say("play.median")}</th>
          </tr>
        </thead>
        <tbody>
          {layers.map((layer, i) => (
            <Row key={i} layer={layer} at={i} last={i === layers.length - 1} step={step} />
          ))}
        </tbody>
      </table>
    </div>
  );
}

function Row(props: { layer: LayerLook; at: number; last: boolean; step: number }) {
  const { layer, at, last, step } = props;
  const name = last ? say("play.output") : String(at + 1);
  return (
    <tr data-layer={at + 1} data-median={layer.median} data-dead={layer.dead}>
      <th scope="row">{name}</th>
      <td>
        {!last && <Bars counts={layer.activations} class="activation" />}
        {!last && layer.dead > 0 && (
          <span class="dead">{say("play.deadUnits", { count: layer.dead, units: layer.units })}</span>
        )}
      </td>
      <td>{step > 0 && <Bars counts={layer.gradients} class="gradient" />}</td>
      <td class="number">
        {step > 0 && general(layer.median, 2)}
        {step > 0 && layer.zeros > 0 && (
          <span class="zeros">{say("play.zeros", { count: layer.zeros })}</span>
        )}
      </td>
    </tr>
  );
}

/** A histogram; beside it stands what it says in numbers. */
function Bars({ counts, class: kind }: { counts: number[]; class: string }) {
  const most = Math.max(...counts, 1);
  return (
    <svg
      class={`bars ${kind}`}
      viewBox={`0 0 ${counts.length} 1`}
      preserveAspectRatio="none"
      aria-hidden="true"
    >
      {counts.map((count, i) => {
        const height = count === 0 ? 0 : Math.max(0.04, Math.sqrt(count / most));
        return <rect key={i} x={i + 0.06} width={0.88} y={1 - height} height={height} />;
      })}
    </svg>
  );
}

function Scale({ from, to }: { from: string; to: string }) {
  return (
    <span class="scale" aria-hidden="true">
      <span>{from}</span>
      <span>{to}</span>
    </span>
  );
}

const brief = (value: number): string => general(value, 2).replace("-", "−");

const raised = (power: number): string =>
  String(power).replace(/./g, (sign) => "⁰¹²³⁴⁵⁶⁷⁸⁹⁻"["0123456789-".indexOf(sign)]!);
