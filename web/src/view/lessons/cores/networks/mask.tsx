// The Jacobian of relu: a diagonal of ones and zeros, and how much room it would take.

import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";

import { countText, shortNumber } from "../../../../engine/numbers";
import { quantity } from "../../../../lessons/quantities";
import { say } from "../../../../state/words";
import type { CoreProps } from "../registry";
import { Slider } from "../slider";

const small = [1.5, -2, 0.5, -1, 3]; // what enters relu, as far as it is drawn
const bytes = 8n; // of a number

export function Mask({ block, finish }: CoreProps) {
  const power = useSignal(1);
  const units = 10n ** BigInt(power.value);
  const matrix = units * units * bytes;
  const reached = matrix > BigInt(quantity(null, block.data.bytes!)!);
  useEffect(() => {
    if (reached) finish();
  }, [reached]);
  return (
    <div class="beside">
      <table class="small-matrix diagonal" translate={false}>
        <caption>∂relu(z)/∂z</caption>
        <tbody>
          {small.map((z, i) => (
            <tr key={i}>
              <th scope="row">z = {shortNumber(z)}</th>
              {small.map((_, j) => (
                <td key={j} class={i === j && z > 0 ? "positive" : "zero"}>
                  {i === j && z > 0 ? 1 : 0}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
      <div class="readings">
        <Slider
          label={say("core.mask.units")}
          name={say("core.mask.short")}
          from={1}
          to={6}
          step={1}
          value={power.value}
          onMove={(value) => (power.value = value)}
        />
        <dl class="pairs" data-bytes={String(matrix)}>
          <dt>{say("core.mask.number")}</dt>
          <dd>{countText(units)}</dd>
          <dt>{say("core.mask.matrix")}</dt>
          <dd translate={false}>{sizeText(matrix)}</dd>
          <dt>{say("core.mask.mask")}</dt>
          <dd translate={false}>{sizeText(units)}</dd>
        </dl>
      </div>
    </div>
  );
}

function sizeText(size: bigint): string {
  const names = ["B", "kB", "MB", "GB", "TB"];
  const step = Math.min(names.length - 1, Math.floor((size.toString().length - 1) / 3));
  return `${countText(size / 1000n ** BigInt(step))} ${names[step]}`;
}
