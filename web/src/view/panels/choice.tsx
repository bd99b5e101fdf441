// Which node a panel is about: what is selected in the graph, or chosen here.

import { lookedAt } from "../../state/order";
import { say } from "../../state/words";
import { useStage } from "../stage";

export function NodeChoice({ word }: { word: string }) {
  const stage = useStage();
  const { graph, reached } = stage.numbers.value;
  return (
    <label class="choice">
      {say(word)}{" "}
      <select
        value={String(lookedAt(stage))}
        onChange={(event) => stage.selectNode(Number(event.currentTarget.value))}
        data-choice
        translate={false}
      >
        {graph.nodes.map(
          (node, i) =>
            reached[i] && (
              <option key={i} value={String(i)}>
                {node.label}
              </option>
            ),
        )}
      </select>
    </label>
  );
}
