// After a leaf was edited: what each value was and is, beside what its derivative promised.

import { shortNumber } from "../engine/numbers";
import { say } from "../state/words";
import { Scroll, Table } from "./parts";
import { signed } from "./text";
import { useStage } from "./stage";

export function ChangeView() {
  const stage = useStage();
  const change = stage.change.value;
  if (!change) return null;
  const { values, graph } = stage.numbers.value;
  const { known } = stage.standing.value;
  const moved = values.flatMap((value, node) =>
    known[node] && (!Object.is(value, change.before.values[node]) || change.predicted[node])
      ? [node]
      : [],
  );
  return (
    <section class="change" aria-label={say("change.title")}>
      <Scroll label={say("change.title")}>
        <Table
          columns={["table.node", "change.value", "change.predicted", "change.real"]}
          caption={say("change.caption", {
            name: stage.name(change.leaf),
            before: shortNumber(change.before.values[change.leaf]!),
            after: shortNumber(values[change.leaf]!),
          })}
        >
          {moved.map((node) => {
            const before = change.before.values[node]!;
            return (
              <tr
                key={node}
                class={node === graph.root ? "root" : ""}
                data-changed={stage.name(node)}
              >
                <th scope="row" translate={false}>
                  {stage.name(node)}
                </th>
                <td>
                  {shortNumber(before)} → {shortNumber(values[node]!)}
                </td>
                <td data-predicted={change.predicted[node]}>{signed(change.predicted[node]!)}</td>
                <td data-real={values[node]! - before}>{signed(values[node]! - before)}</td>
              </tr>
            );
          })}
        </Table>
      </Scroll>
      <div class="row">
        <button type="button" onClick={() => stage.reset()}>
          {say("change.reset")}
        </button>
        <button type="button" onClick={() => stage.forgetChange()}>
          {say("change.dismiss")}
        </button>
      </div>
    </section>
  );
}
