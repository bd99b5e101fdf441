// Wires in the drawing of a trace: from an input to its consumers; gradients go back along them.

import type { Edge } from "../../engine/types";
import type { Sight } from "../../layout/nested";
import { traceStage as stage } from "../../state/trace";
import { say } from "../../state/words";
import { isBroken, normOf, normText } from "../../trace/statistics";
import { pressed } from "./boxes";

export function WireView({
  sight,
  index,
  labels,
}: {
  sight: Sight;
  index: number;
  labels: boolean;
}) {
  const scope = stage.outline.scopes[sight.scope]!;
  const { source, edges, to } = scope.wires[index]!;
  // It ends at a box; at a border it goes on.
  const item = to - scope.portsIn.length;
  const ends = item < scope.items.length && !sight.plan.inner[item];
  const run = sight.plan.runs[index]!;
  const single = edges.length === 1 ? edges[0]! : undefined;
  const pushed = single && stage.pushed(single.node, single.argument);
  const visited = single !== undefined && stage.isVisited(single.node);
  const norm = pushed ? normOf(pushed) : undefined;
  const pick = (): void => stage.select({ kind: "edges", edges });
  const classes = ["edge", wireState(edges)];
  if (isBroken(pushed)) classes.push("broken");
  return (
    <g class={classes.join(" ")}>
      <path
        class="reach"
        d={run.curve}
        role="button"
        tabindex={0}
        aria-pressed={isChosen(edges)}
        aria-label={say("trace.wire", {
          from: stage.name(source),
          to: edges
            .slice(0, 3)
            .map((edge) => stage.name(edge.node))
            .join(", "),
        })}
        onClick={pick}
        onKeyDown={pressed(pick)}
        data-edge={single ? `${single.node}.${single.argument}` : ""}
        data-pushed={visited && norm !== undefined ? norm : ""}
      />
      <path class="line" d={run.curve} marker-end={ends ? "url(#tip)" : undefined} />
      {labels && ends && visited && norm !== undefined && (
        <text class="pushed" x={run.to.x - 9} y={run.to.y - 3} text-anchor="end" aria-hidden="true">
          {normText(pushed)}
        </text>
      )}
    </g>
  );
}

/** All wires of a scope in one element: there are too many to be told apart. */
export function MergedWires({ sight }: { sight: Sight }) {
  const curves = sight.wires.map((wire) => sight.plan.runs[wire]!.curve);
  return (
    <g class="edge">
      <path class="line" d={curves.join("")} />
    </g>
  );
}

function isChosen(edges: Edge[]): boolean {
  const selection = stage.selection.value;
  return (
    selection?.kind === "edges" &&
    edges.some((edge) =>
      selection.edges.some((one) => one.node === edge.node && one.argument === edge.argument),
    )
  );
}

function wireState(edges: Edge[]): string {
  const now = stage.current.value;
  const next = stage.next.value;
  const goesBack = (step: typeof now): boolean =>
    step?.phase === "backward" &&
    edges.some(({ node, argument }) => node === step.node && stage.pushed(node, argument) !== null);
  return [
    goesBack(now) ? "now" : "",
    goesBack(next) ? "next" : "",
    edges.every(({ node }) => !stage.isKnown(node)) ? "later" : "",
    isChosen(edges) ? "selected" : "",
  ]
    .filter(Boolean)
    .join(" ");
}
