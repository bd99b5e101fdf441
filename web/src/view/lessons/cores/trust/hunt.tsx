// Where did the NaN begin? The nodes with their values: pick the first that is to blame.

import { useSignal } from "@preact/signals";

import { expressionText } from "../../../../engine/formulas";
import { edgesOf } from "../../../../engine/graph";
import { shortNumber } from "../../../../engine/numbers";
import { nodeCalled } from "../../../../lessons/quantities";
import { announce } from "../../../../state/announce";
import { say } from "../../../../state/words";
import { signOf } from "../../../text";
import type { CoreProps } from "../registry";

export function Hunt({ block, numbers, finish }: CoreProps) {
  const { graph, values } = numbers!;
  const cause = nodeCalled(graph, block.data.cause!);
  const said = useSignal("");
  const pick = (node: number): void => {
    if (node === cause) {
      said.value = "";
      finish();
      return;
    }
    const name = graph.nodes[node]!.label;
    const sick = edgesOf(graph, node).some(({ source }) => !Number.isFinite(values[source]));
    const key = Number.isFinite(values[node]) ? "healthy" : sick ? "inherited" : "later";
    said.value = say(`core.hunt.${key}`, { name });
    announce(said.value);
  };
  return (
    <div class="readings">
      <ul class="suspects" translate={false}>
        {graph.nodes.map(({ label, op }, node) => (
          <li key={node}>
            <button type="button" onClick={() => pick(node)} data-suspect={label}>
              <span>{op ? `${label} = ${expressionText(graph, node)}` : label}</span>
              <strong class={signOf(values[node]!)}>{shortNumber(values[node]!)}</strong>
            </button>
          </li>
        ))}
      </ul>
      {said.value && (
        <p class="feedback wrong" data-feedback="core">
          {said.value}
        </p>
      )}
    </div>
  );
}
