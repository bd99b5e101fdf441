// Three logits, their probabilities, and what goes back to them: p − y.

import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";

import { shortNumber } from "../../../../engine/numbers";
import { quantity } from "../../../../lessons/quantities";
import { say } from "../../../../state/words";
import type { CoreProps } from "../registry";
import { Slider } from "../slider";

export function Softmax({ block, finish }: CoreProps) {
  const start = block.data.logits!.split(/\s+/).map((text) => quantity(null, text)!);
  const right = quantity(null, block.data.right!)!;
  const logits = useSignal(start);
  const top = Math.max(...logits.value);
  const exponentials = logits.value.map((logit) => Math.exp(logit - top));
  const all = exponentials.reduce((sum, part) => sum + part, 0);
  const p = exponentials.map((part) => part / all);
  const gradients = p.map((share, i) => share - Number(i === right));
  const loss = -Math.log(p[right]!);
  const reached = p[right]! >= quantity(null, block.data.reach!)!;
  useEffect(() => {
    if (reached) finish();
  }, [reached]);
  const move = (i: number, value: number): void => {
    logits.value = logits.value.map((old, j) => (i === j ? value : old));
  };
  return (
    <div class="readings" data-loss={loss}>
      <table class="classes">
        <thead>
          <tr>
            {["class", "logit", "p", "back"].map((word) => (
              <th key={word} scope="col">
                {say(`core.softmax.${word}`)}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {logits.value.map((logit, i) => (
            <tr key={i} class={i === right ? "right" : ""}>
              <th scope="row">
                {i + 1}
                {i === right && <span class="soft"> {say("core.softmax.right")}</span>}
              </th>
              <td>
                <Slider
                  label={say("core.softmax.move", { number: i + 1 })}
                  name="z"
                  from={-5}
                  to={5}
                  step={0.1}
                  value={Number(logit.toFixed(4))}
                  onMove={(value) => move(i, value)}
                />
              </td>
              <td data-p={p[i]}>
                {shortNumber(p[i]!)}
                <span class="change-bar" style={{ inlineSize: `${p[i]! * 100}%` }} />
              </td>
              <td class={gradients[i]! < 0 ? "negative" : "positive"} data-back={gradients[i]}>
                {shortNumber(gradients[i]!)}
                <span
                  class="change-bar"
                  style={{ inlineSize: `${Math.abs(gradients[i]!) * 100}%` }}
                />
              </td>
            </tr>
          ))}
        </tbody>
      </table>
      <p class="row">
        <button
          type="button"
          onClick={() => (logits.value = logits.value.map((logit, i) => logit - gradients[i]!))}
          data-descend
        >
          {say("core.softmax.descend")}
        </button>
        <span>
          {say("core.softmax.loss")} <strong>{shortNumber(loss)}</strong>
        </span>
      </p>
    </div>
  );
}
