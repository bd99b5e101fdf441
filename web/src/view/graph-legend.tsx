// What the lines of the drawing mean, and the path that is selected.

import { shortNumber } from "../engine/numbers";
import { strokeOf } from "../layout/strokes";
import { say } from "../state/words";
import { pathText } from "./parts";
import { useStage } from "./stage";

/** The selected path with its product. */
export function PathLegend() {
  const stage = useStage();
  const selection = stage.selection.value;
  if (selection?.kind !== "path") return null;
  const { factors, product } = selection.path;
  return (
    <p class="legend" translate={false}>
      {pathText(stage, selection.path)}{" "}
      <span class="product">
        {factors.map(shortNumber).join(" × ")} = {shortNumber(product)}
      </span>
    </p>
  );
}

const sizes = [0.001, 1, 1000];
const signs = { positive: "+", negative: "−", zero: "0" }; // where there is no room for words

/** Width is size and colour is sign; shown as soon as there is a gradient to be seen. */
export function MagnitudeLegend() {
  const stage = useStage();
  if (!stage.standing.value.visited) return null;
  return (
    <p class="magnitudes">
      <span>{say("view.handedBack")}</span>
      {(Object.keys(signs) as (keyof typeof signs)[]).map((sign) => (
        <span key={sign}>
          <svg class={`edge ${sign}`} width="26" height="12" aria-hidden="true">
            <path class="line" d="M1 6H25" style={{ strokeWidth: sign === "zero" ? 1.6 : 3 }} />
          </svg>
          <span class="word">{say(`view.sign.${sign}`)}</span>
          <span class="short" aria-hidden="true">
            {signs[sign]}
          </span>
        </span>
      ))}
      {sizes.map((size) => {
        const { width, opacity } = strokeOf(size);
        return (
          <span key={size} class="size">
            <svg class="edge positive" width="22" height="12" aria-hidden="true">
              <path class="line" d="M1 6H21" style={{ strokeWidth: width, opacity }} />
            </svg>
            {shortNumber(size)}
          </span>
        );
      })}
    </p>
  );
}
