// The nudge: move a node a little, and see the prediction beside what really happens.

import { useSignal } from "@preact/signals";
import { useId } from "preact/hooks";

import { nudge } from "../../engine/nudge";
import { readNumber, shortNumber } from "../../engine/numbers";
import type { Computed } from "../../engine/types";
import { say } from "../../state/words";
import { NumberInput, Scroll, Table } from "../parts";
import { useStage } from "../stage";
import { signed } from "../text";

const ticks = 100; // of the slider, to each side

export function NudgeView({ node }: { node: number }) {
  const stage = useStage();
  const id = useId();
  const by = useSignal(0.1);
  const typed = useSignal<string | null>(null);
  const reach = reachOf(stage.numbers.value, node);
  const { before, after, predicted, real, moves } = nudge(stage.numbers.value, node, by.value);
  const name = stage.name(node);
  const root = stage.name(stage.graph.value.root);
  const set = (number: number): void => {
    typed.value = null;
    by.value = number;
  };
  return (
    <section class="nudge" aria-labelledby={id}>
      <h4 id={id}>{say("nudge.title", { name })}</h4>
      <div class="row">
        <input
          type="range"
          min={-ticks}
          max={ticks}
          value={Math.round((by.value / reach) * ticks)}
          aria-label={say("nudge.by", { name })}
          aria-valuetext={signed(by.value)}
          onInput={(event) => set((Number(event.currentTarget.value) / ticks) * reach)}
          data-nudge-slider
        />
        <NumberInput
          inputMode="decimal"
          value={typed.value ?? String(by.value).replace("-", "−")}
          aria-label={say("nudge.exactly", { name })}
          aria-invalid={typed.value !== null && readNumber(typed.value) === undefined}
          onInput={(event) => {
            typed.value = event.currentTarget.value;
            const number = readNumber(typed.value);
            if (number !== undefined) by.value = number;
          }}
          onBlur={() => (typed.value = null)}
          data-nudge
        />
      </div>
      <p data-nudged-root={root} data-predicted={predicted} data-real={real}>
        {say("nudge.root", {
          name,
          root,
          by: signed(by.value),
          before: shortNumber(before),
          after: shortNumber(after),
          predicted: signed(predicted),
          real: signed(real),
        })}
      </p>
      <Scroll label={say("nudge.table")}>
        <Table columns={["table.node", "nudge.predicted", "nudge.real", "nudge.apart"]}>
          {moves.map((move) => (
            <tr
              key={move.node}
              class={move.node === stage.graph.value.root ? "root" : ""}
              data-moved={stage.name(move.node)}
              data-predicted={move.predicted}
              data-real={move.real}
            >
              <th scope="row" translate={false}>
                {stage.name(move.node)}
              </th>
              <td>{signed(move.predicted)}</td>
              <td>{signed(move.real)}</td>
              <td>{shortNumber(rounding(move.error, move.real) ? 0 : move.error)}</td>
            </tr>
          ))}
        </Table>
      </Scroll>
    </section>
  );
}

/** As Python's report: what only rounding keeps apart is not apart. */
const rounding = (error: number, real: number): boolean => error < 1e-13 * Math.abs(real);

/** How far the slider goes: at most 1, and not out of where the graph is defined. */
function reachOf(numbers: Computed, node: number): number {
  if (!numbers.values.every(Number.isFinite)) return 1;
  const defined = (by: number): boolean =>
    nudge(numbers, node, by).moves.every((m) => Number.isFinite(m.real));
  let reach = 1;
  while (reach > 1e-6 && !(defined(reach) && defined(-reach))) reach /= 2;
  return reach;
}
