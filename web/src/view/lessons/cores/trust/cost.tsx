// How long a product of matrices takes, and how long the two products take that go back: measured.

import { useSignal } from "@preact/signals";

import { general } from "../../../../engine/numbers";
import { announce } from "../../../../state/announce";
import { say } from "../../../../state/words";
import type { CoreProps } from "../registry";

const size = 160;
const rounds = 7; // the fastest counts: whatever else the computer does only adds to it

interface Times {
  forward: number;
  backward: number;
}

export function Cost({ finish }: CoreProps) {
  const times = useSignal<Times | null>(null);
  const measure = (): void => {
    const found = measured();
    times.value = found;
    const ratio = general(found.backward / found.forward, 2);
    announce(say("core.cost.said", { ratio }));
    finish();
  };
  const { forward = 0, backward = 0 } = times.value ?? {};
  return (
    <div class="readings">
      <p>
        <button type="button" onClick={measure} data-measure>
          {say("core.cost.measure")}
        </button>
      </p>
      {times.value && (
        <dl class="pairs" data-ratio={backward / forward}>
          <dt>{say("core.cost.forward", { size })}</dt>
          <dd>
            {general(forward, 3)} ms
            <span
              class="change-bar"
              style={{ inlineSize: `${(100 * forward) / (forward + backward)}%` }}
            />
          </dd>
          <dt>{say("core.cost.backward")}</dt>
          <dd>
            {general(backward, 3)} ms
            <span
              class="change-bar by-curve"
              style={{ inlineSize: `${(100 * backward) / (forward + backward)}%` }}
            />
          </dd>
          <dt>{say("core.cost.ratio")}</dt>
          <dd>{general(backward / forward, 2)}</dd>
        </dl>
      )}
    </div>
  );
}

function measured(): Times {
  const filled = (start: number): Float64Array =>
    Float64Array.from({ length: size * size }, (_, i) => ((i * 7 + start) % 13) - 6);
  const [x, w, g] = [filled(1), filled(2), filled(3)];
  const out = new Float64Array(size * size);
  const fastest = (act: () => void): number => {
    let best = Infinity;
    for (let round = 0; round < rounds; round++) {
      const start = performance.now();
      act();
      best = Math.min(best, performance.now() - start);
    }
    return Math.max(best, 0.01); // a browser's clock may stand still that long
  };
  const turned = (of: Float64Array): Float64Array =>
    of.map((_, i) => of[(i % size) * size + Math.floor(i / size)]!);
  const [wTurned, xTurned] = [turned(w!), turned(x!)];
  return {
    forward: fastest(() => multiply(x!, w!, out)),
    backward: fastest(() => {
      multiply(g!, wTurned, out);
      multiply(xTurned, g!, out);
    }),
  };
}

function multiply(left: Float64Array, right: Float64Array, out: Float64Array): void {
  out.fill(0);
  for (let row = 0; row < size; row++)
    for (let k = 0; k < size; k++) {
      const factor = left[row * size + k]!;
      for (let column = 0; column < size; column++)
        out[row * size + column]! += factor * right[k * size + column]!;
    }
}
