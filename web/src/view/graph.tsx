// The graph of a stage as a drawing.

import { effect, useComputed } from "@preact/signals";
import { useEffect } from "preact/hooks";

import { effectText } from "../engine/formulas";
import { edgeListsOf, sameEdge } from "../engine/graph";
import { shortNumber } from "../engine/numbers";
import type { Computed } from "../engine/types";
import { type Line, type Sheet, sheetOf } from "../layout/sheet";
import type { Drawing, Selection } from "../state/stage";
import { say } from "../state/words";
import { EdgeView } from "./graph-edge";
import { NodeView } from "./graph-node";
import { margin, usePanZoom, type View, ZoomButtons } from "./panzoom";
import { pathText } from "./parts";
import { useStage } from "./stage";
import { signed } from "./text";

const measures = { boxWidth: 134, boxHeight: 72, down: 28 };
const zooms = { least: 0.15, most: 3, fit: 1.25 };

/** `quiet`: the wheel scrolls the page, as it should among text; with Ctrl it zooms. */
export function GraphView(props: { quiet?: boolean }) {
  const stage = useStage();
  const sheet = useComputed(() => {
    const graph = stage.graph.value;
    // Room for the text on edges as it is now: editing a leaf must not move the graph.
    const gap = gapFor(stage.numbers.peek(), stage.drawing.value);
    return sheetOf(graph, { ...measures, gap });
  });
  // The walk stays in sight.
  const follow = (): void => {
    const at = stage.current.value?.node;
    const spot = at === undefined ? undefined : sheet.peek().boxes[at];
    if (spot) canvas.show({ ...spot, width: measures.boxWidth, height: measures.boxHeight });
  };
  const canvas = usePanZoom({
    owner: stage,
    fitted: (box, whole) => fitted(sheet.peek(), box, whole),
    fittedTo: follow,
    unselect: () => stage.select(null),
    zooms,
    quiet: props.quiet,
  });
  useEffect(() => effect(follow), [stage]);
  useEffect(() => sheet.subscribe(() => canvas.fit()), [stage]);

  const { x, y, zoom } = canvas.view.value;
  const { boxes, lines, boxWidth, boxHeight } = sheet.value;
  const graph = stage.graph.value;
  return (
    <div
      class={`graph${canvas.dragging.value ? " dragging" : ""}`}
      ref={canvas.frame}
      onPointerDown={canvas.startDrag}
      onFocusIn={canvas.reveal}
      data-drawing={stage.drawing.value}
    >
      <svg
        width="100%"
        height="100%"
        role="group"
        aria-label={say("view.graph", { root: stage.name(graph.root), count: graph.nodes.length })}
      >
        <g transform={`translate(${x} ${y}) scale(${zoom})`}>
          {ordered(lines, stage.selection.value).map((line) => (
            <EdgeView key={`${line.edge.node}.${line.edge.argument}`} line={line} />
          ))}
          {boxes.map((box) => (
            <NodeView key={box.node} box={box} width={boxWidth} height={boxHeight} />
          ))}
        </g>
      </svg>
      <PathLegend />
      <ZoomButtons {...canvas} />
    </div>
  );
}

/** The selected path with its product. */
function PathLegend() {
  const stage = useStage();
  const selection = stage.selection.value;
  if (selection?.kind !== "path") return null;
  const { factors, product } = selection.path;
  return (
    <p class="legend" translate={false}>
      {pathText(stage, selection.path)}{" "}
      <span class="product">
        {factors.map(shortNumber).join(" × ")} = {shortNumber(product)}
      </span>
    </p>
  );
}

/** What is selected is drawn on top. */
function ordered(lines: Line[], selection: Selection): Line[] {
  if (selection?.kind !== "path" && selection?.kind !== "edge") return lines;
  const chosen = selection.kind === "path" ? selection.path.edges : [selection.edge];
  const isChosen = ({ edge }: Line): boolean => chosen.some((one) => sameEdge(one, edge));
  return [...lines.filter((line) => !isChosen(line)), ...lines.filter(isChosen)];
}

function gapFor({ graph, locals, grads }: Computed, drawing: Drawing): number {
  const widths = edgeListsOf(graph)
    .flat()
    .map((edge) => {
      const local = locals[edge.node]![edge.argument]!;
      const amount = signed(grads[edge.node]! * local);
      // An operation at one end, what is handed back at the other.
      const text =
        drawing === "edges" ? effectText(graph, edge) + amount : `×${shortNumber(local)}`;
      const ghost = say("edge.ghost", { amount });
      return Math.max(46 + 7.4 * text.length, 20 + 7.2 * ghost.length);
    });
  return Math.min(200, Math.max(68, ...widths));
}

function fitted(sheet: Sheet, box: HTMLElement, small = false): View {
  const width = box.clientWidth - 2 * margin;
  const height = box.clientHeight - 2 * margin;
  const above = 14; // badges stand above their boxes
  const whole = Math.min(width / sheet.width, height / (sheet.height + above));
  // On a small screen a graph that is all in sight cannot be read: it is so when asked for.
  const zoom = Math.min(zooms.fit * Math.max(1, width / 1400), Math.max(whole, small ? 0 : 0.6));
  const room = box.clientWidth - sheet.width * zoom;
  return {
    zoom,
    x: room > 2 * margin ? room / 2 : margin,
    y: Math.max(margin, (box.clientHeight - (sheet.height - above) * zoom) / 2),
  };
}
