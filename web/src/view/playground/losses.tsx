// The loss of each step's batch.

import { shortNumber } from "../../engine/numbers";
import { session } from "../../playground/session";
import { say } from "../../state/words";

const MOST = 300; // places on the curve: beyond that each is the mean of some steps

export function LossCurve() {
  void session.drawn.value;
  const { losses } = session.trainer;
  const each = Math.max(1, Math.ceil(losses.length / MOST));
  const means: number[] = [];
  for (let i = 0; i < losses.length; i += each) {
    const some = losses.slice(i, i + each);
    means.push(some.reduce((sum, one) => sum + one, 0) / some.length);
  }
  const shown = means.filter(Number.isFinite);
  const highest = Math.max(...shown, 1e-12);
  const x = (i: number): string => (i / Math.max(1, means.length - 1)).toFixed(4);
  const y = (loss: number): string => (1 - loss / highest).toFixed(4);
  const path = shown.map((loss, i) => `${i ? "L" : "M"}${x(i)} ${y(loss)}`).join("");
  const [first = NaN, last = NaN] = [losses[0], losses.at(-1)];
  return (
    <figure class="losses">
      <figcaption>{say("play.losses")}</figcaption>
      <div class="axis">
        {[1, 0.5, 0].map((part) => (
          <span key={part}>{shown.length ? brief(part * highest) : ""}</span>
        ))}
      </div>
      <svg
        viewBox="0 0 1 1"
        preserveAspectRatio="none"
        role="img"
        aria-label={say("play.lossesAbout", {
          count: losses.length,
          first: shortNumber(first),
          last: shortNumber(last),
        })}
      >
        {[0, 0.5, 1].map((part) => (
          <line key={part} class="level" x1={0} x2={1} y1={part} y2={part} />
        ))}
        <path class="loss" d={path} />
      </svg>
      <div class="axis across">
        <span>{losses.length ? 1 : ""}</span>
        <span>{losses.length > 1 ? losses.length : ""}</span>
      </div>
    </figure>
  );
}

const brief = (value: number): string =>
  value === 0 ? "0" : value >= 1e4 || value < 0.001 ? value.toExponential(0) : value.toPrecision(2);
