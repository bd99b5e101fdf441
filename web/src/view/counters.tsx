// What one sweep saves: edges visited once, instead of every path, or a sweep for every leaf.

import { countPaths } from "../engine/graph";
import { countText } from "../engine/numbers";
import { say } from "../state/words";
import { useStage } from "./stage";

export function Counters() {
  const stage = useStage();
  const { graph, reached } = stage.numbers.value;
  const leaves = graph.nodes.filter((node, i) => !node.op && reached[i]).length;
  const edges = stage.steps.value.reduce(
    (sum, step) => sum + (step.phase === "backward" ? step.pushes.length : 0),
    0,
  );
  const { visited } = stage.standing.value;
  return (
    <details class="drawer">
      <summary>
        {say("count.title")} <span>{say("count.short", { visited, edges })}</span>
      </summary>
      <dl class="counters">
      <div>
        <dt>{say("count.paths")}</dt>
        <dd data-count="paths">{say("count.pathsOf", { paths: countText(countPaths(graph)) })}</dd>
      </div>
      <div>
        <dt>{say("count.edges")}</dt>
        <dd data-count="edges">{say("count.edgesOf", { visited, edges })}</dd>
      </div>
      <div>
        <dt>{say("count.sweeps")}</dt>
        <dd data-count="sweeps">{say("count.sweepsOf", { count: leaves })}</dd>
      </div>
      </dl>
    </details>
  );
}
