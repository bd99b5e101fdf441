// Wires in the drawing of a trace: from an input to its consumers; gradients go back along them.

import { sameEdge } from "../../engine/graph";
import { general } from "../../engine/numbers";
import type { Edge } from "../../engine/types";
import type { Sight } from "../../layout/nested";
import { traceStage as stage } from "../../state/trace";
import { say } from "../../state/words";
import { countOf } from "../../trace/description";
import { isBroken, normOf, normText } from "../../trace/statistics";
import { asButton } from "../parts";
import { WireMatrix } from "./matrix";

const labelRoom = 7; // letters between two columns
const lineHeight = 14;

export function WireView(props: { sight: Sight; index: number; labels: boolean }) {
  const { plan, scope: at } = props.sight;
  const scope = stage.outline.scopes[at]!;
  const { source, edges, to } = scope.wires[props.index]!;
  const { curve, to: end } = plan.runs[props.index]!;
  // It ends at a box; at a border it goes on.
  const item = to - scope.portsIn.length;
  const ends = item < scope.items.length && !plan.inner[item];
  const single = edges.length === 1 ? edges[0]! : undefined;
  const pushed = single && stage.pushed(single.node, single.argument);
  const norm = single && stage.isVisited(single.node) ? normOf(pushed) : undefined;
  const text = normText(pushed);
  const asMatrix = stage.matrices.value && pushed && countOf(pushed.shape) > 1;
  // Of wires that end close together the uppermost has its text; the others when they are asked for.
  const crowded = plan.runs.some(
    ({ to: other }) => other.x === end.x && other.y < end.y && end.y - other.y < lineHeight,
  );
  const consumers = edges.slice(0, 3).map(({ node }) => stage.name(node));
  return (
    <g class={`edge ${wireState(edges)}${isBroken(pushed) ? " broken" : ""}`}>
      <path
        class="reach"
        d={curve}
        {...asButton(() => stage.select({ kind: "edges", edges }))}
        aria-pressed={isChosen(edges)}
        aria-label={say("trace.wire", { from: stage.name(source), to: consumers.join(", ") })}
        data-edge={single ? `${single.node}.${single.argument}` : ""}
        data-pushed={norm ?? ""}
      />
      <path class="line" d={curve} marker-end={ends ? "url(#tip)" : undefined} />
      {props.labels && ends && norm !== undefined && asMatrix && (
        <WireMatrix kept={pushed!} x={end.x - 9} y={end.y - 4} />
      )}
      {props.labels && ends && norm !== undefined && !asMatrix && (
        <text
          class={crowded ? "pushed crowded" : "pushed"}
          x={end.x - 9}
          y={end.y - 3}
          text-anchor="end"
          aria-hidden="true"
        >
          {text.length > labelRoom ? general(norm, 2).replace("-", "−") : text}
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
    edges.some((edge) => selection.edges.some((one) => sameEdge(one, edge)))
  );
}

function wireState(edges: Edge[]): string {
  const goesBack = (step: typeof stage.current.value): boolean =>
    step?.phase === "backward" &&
    edges.some(({ node, argument }) => node === step.node && stage.pushed(node, argument) !== null);
  return [
    goesBack(stage.current.value) && "now",
    goesBack(stage.next.value) && "next",
    edges.every(({ node }) => !stage.isKnown(node)) && "later",
    isChosen(edges) && "selected",
  ]
    .filter(Boolean)
    .join(" ");
}
