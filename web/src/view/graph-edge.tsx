// One edge of the drawing: it leads from an input to its consumer; gradients go back along it.

import { effectText } from "../engine/formulas";
import { sameEdge } from "../engine/graph";
import { shortNumber } from "../engine/numbers";
import type { Edge, Step } from "../engine/types";
import type { Line } from "../layout/sheet";
import { say } from "../state/words";
import { asButton } from "./parts";
import { asIs, classNames, signed, signOf } from "./text";
import { useStage } from "./stage";

export function EdgeView({ line }: { line: Line }) {
  const stage = useStage();
  const { edge } = line;
  const graph = stage.graph.value;
  const { known: knownNodes, locals } = stage.standing.value;
  const known = locals ? locals[edge.node]![edge.argument]! : knownNodes[edge.node]!;
  const local = stage.numbers.value.locals[edge.node]![edge.argument]!;
  const onEdges = stage.drawing.value === "edges";
  const done = stage.byHand.value
    ? undefined
    : pushedBy(stage.steps.value.slice(0, stage.position.value), edge);
  const next = stage.next.value ? pushedBy([stage.next.value], edge) : undefined;
  const now = stage.current.value ? pushedBy([stage.current.value], edge) : undefined;
  const selection = stage.selection.value;
  const isAmong = (edges: Edge[]): boolean => edges.some((one) => sameEdge(one, edge));
  const onPath = selection?.kind === "path" && isAmong(selection.path.edges);
  const chosen = selection?.kind === "edge" && sameEdge(selection.edge, edge);
  const classes = classNames({
    edge: true,
    later: !known,
    now: now !== undefined,
    next: next !== undefined,
    selected: chosen || onPath,
    path: onPath,
    lost: isAmong(stage.lost.value),
  });
  const from = stage.name(edge.source);
  const to = stage.name(edge.node);
  const label = known ? (onEdges ? effectText(graph, edge) : `×${shortNumber(local)}`) : "";
  const spoken = [
    say("edge.of", { from, to, argument: edge.argument + 1 }),
    known ? say("edge.localIs", { local: shortNumber(local) }) : "",
    done !== undefined ? say("edge.pushed", { amount: shortNumber(done) }) : "",
    next !== undefined ? say("edge.willPush", { amount: shortNumber(next) }) : "",
  ];
  return (
    <g class={classes}>
      <path
        class="reach"
        d={line.curve}
        {...asButton(() => stage.pick({ kind: "edge", edge }))}
        aria-pressed={chosen}
        aria-label={spoken.filter(Boolean).join(", ")}
        data-edge={`${to}.${edge.argument}`}
        data-local={known ? local : ""}
        data-pushed={done ?? ""}
        data-next={next ?? ""}
      />
      <g aria-hidden="true">
        <path class="line" d={line.curve} />
        <path class="tip" d={`M${line.to.x} ${line.to.y}l-8 -4v8z`} />
        {(now !== undefined || next !== undefined) && (
          <path class="tip back" d={`M${line.from.x} ${line.from.y}l8 -4v8z`} />
        )}
        {label && (
          <text
            {...asIs}
            class={`local ${signOf(local)}`}
            x={line.to.x - 11}
            y={line.to.y + (line.textAtTo === "above" ? -6 : 15)}
            text-anchor="end"
          >
            {label}
          </text>
        )}
        {(line.crowded ? (now ?? next) : (done ?? next)) !== undefined && (
          <text
            class={`pushed ${signOf(done ?? next!)}`}
            x={line.from.x + 11}
            y={line.from.y + (line.textAtFrom === "above" ? -6 : 15)}
          >
            {done === undefined ? say("edge.ghost", { amount: signed(next!) }) : signed(done)}
          </text>
        )}
      </g>
    </g>
  );
}

/** What these steps hand along an edge last; undefined if nothing. */
export function pushedBy(steps: Step[], edge: Edge): number | undefined {
  const step = steps.findLast((s) => s.phase === "backward" && s.node === edge.node);
  if (step?.phase !== "backward") return undefined;
  return step.pushes.find((p) => p.edge.argument === edge.argument)?.amount;
}
