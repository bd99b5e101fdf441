// The four lines of a training loop, in the order the learner gives them, run as they stand.

import { useSignal } from "@preact/signals";

import { shortNumber } from "../../../../engine/numbers";
import { announce } from "../../../../state/announce";
import { say } from "../../../../state/words";
import type { CoreProps } from "../registry";

const lines = {
  step: "optimizer.step()",
  backward: "loss.backward()",
  zero: "optimizer.zero_grad()",
  forward: "loss = (w * x - t) ** 2",
};
type Line = keyof typeof lines;

const [x, t, rate, rounds] = [1, 3, 0.1, 6];

interface Run {
  losses: number[];
  /** The first thing that goes wrong: undefined if nothing does. */
  fault?: "noLoss" | "noGradient" | "left" | "wiped";
}

/** The program, line by line: w starts at 0, and its gradient too. */
export function ran(order: Line[]): Run {
  let [w, grad] = [0, 0];
  let loss: number | undefined;
  let slope = 0; // of the loss that was computed last
  let added = 0; // backward passes since the gradient was cleared
  let ever = false; // whether there has been one at all
  let fault: Run["fault"];
  const losses: number[] = [];
  for (let round = 0; round < rounds; round++)
    for (const line of order) {
      if (line === "forward") {
        loss = (w * x - t) ** 2;
        slope = 2 * (w * x - t) * x;
        losses.push(loss);
      } else if (line === "backward") {
        if (loss === undefined) fault ??= "noLoss";
        grad += slope;
        added += 1;
        ever = true;
      } else if (line === "zero") [grad, added] = [0, 0];
      else {
        if (!added) fault ??= ever ? "wiped" : "noGradient";
        if (added > 1) fault ??= "left";
        w -= rate * grad;
      }
    }
  return { losses, fault };
}

export function Loop({ done, finish }: CoreProps) {
  const order = useSignal<Line[]>(Object.keys(lines) as Line[]);
  const run = useSignal<Run | null>(null);
  const move = (at: number, by: number): void => {
    const next = [...order.value];
    [next[at], next[at + by]] = [next[at + by]!, next[at]!];
    order.value = next;
    run.value = null;
  };
  const start = (): void => {
    run.value = ran(order.value);
    if (run.value.fault) announce(say(`core.loop.${run.value.fault}`));
    else finish();
  };
  return (
    <div class="readings">
      <p class="hint" translate={false}>
        w = 0, x = {x}, t = {t}, lr = {rate}
      </p>
      <ol class="lines" aria-label={say("core.loop.lines")}>
        {order.value.map((line, i) => (
          <li key={line} data-line={line}>
            <code translate={false}>{lines[line]}</code>
            <span>
              <button
                type="button"
                disabled={i === 0}
                aria-label={say("core.loop.up", { number: i + 1 })}
                onClick={() => move(i, -1)}
                data-up={line}
              >
                ↑
              </button>
              <button
                type="button"
                disabled={i === order.value.length - 1}
                aria-label={say("core.loop.down", { number: i + 1 })}
                onClick={() => move(i, 1)}
              >
                ↓
              </button>
            </span>
          </li>
        ))}
      </ol>
      <p>
        <button type="button" onClick={start} data-run-loop>
          {say("core.loop.run", { rounds })}
        </button>
      </p>
      {run.value && (
        <>
          <p>
            {say("core.loop.losses")}{" "}
            <span translate={false}>{run.value.losses.map(shortNumber).join(", ")}</span>
          </p>
          {run.value.fault && !done && (
            <p class="feedback wrong" data-feedback="core">
              {say(`core.loop.${run.value.fault}`)}
            </p>
          )}
        </>
      )}
    </div>
  );
}
