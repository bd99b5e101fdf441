// The graph of a stage as a drawing.

import { effect, useComputed, useSignal } from "@preact/signals";
import { useEffect, useLayoutEffect } from "preact/hooks";

import { effectText } from "../engine/formulas";
import { edgesOf, pull, sameEdge } from "../engine/graph";
import { shortNumber } from "../engine/numbers";
import type { Computed, Edge, Graph, Step } from "../engine/types";
import { boundsOf, joined, overlap, type Rect } from "../layout/labels";
import { type Line, type Sheet, sheetOf, type Written } from "../layout/sheet";
import { strokeOf } from "../layout/strokes";
import type { Drawing, Selection } from "../state/stage";
import { say } from "../state/words";
import { EdgeView } from "./graph-edge";
import { MagnitudeLegend, PathLegend } from "./graph-legend";
import { NodeView } from "./graph-node";
import { Tokens } from "./graph-tokens";
import { MiniMap } from "./minimap";
import { foot, margin, usePanZoom, type View, ZoomButtons } from "./panzoom";
import { useRegion } from "./region";
import { useStage } from "./stage";
import { classNames, drawnOp, signed } from "./text";

const box = { width: 120, widest: 236, height: 86 };
const letter = { name: 9, edge: 8.4 }; // widths
const above = 18; // badges stand above their boxes, and below
const zooms = { least: 0.15, most: 3, fit: 1.35 };
const readable = 0.89; // the smallest text is then of 12 pixels
const farAway = 0.88; // with less, nodes have fewer texts, and larger ones
const fartherAway = 0.615; // with less, what is written on edges is larger still
const few = 200; // nodes that are all in the page; of more, those in sight
const narrow = 600; // pixels: below, inputs stand above what uses them

/** `quiet`: among text, where the keys are somebody else's. */
export function GraphView(props: { quiet?: boolean }) {
  const stage = useStage();
  const down = useSignal(false);
  const sheet = useComputed(() =>
    // Room for the texts as they are now: editing a leaf must not move the graph.
    sheetFor(stage.graph.value, stage.numbers.peek(), stage.drawing.value, down.value),
  );
  // The walk stays in sight: who hands on, who receives, and if there is room who comes next. It
  // begins where the first number is computed.
  const follow = (): void => {
    const next = stage.next.value;
    const at = stage.current.value ?? next;
    if (!at) return;
    const parts = (step: Step): Rect[] => partsOf(sheet.peek(), stage.graph.peek(), step);
    canvas.show(parts(at), next && parts(next).reduce(joined));
  };
  const canvas = usePanZoom({
    owner: stage,
    fitted: (frame, whole) => fitted(sheet.peek(), frame, whole),
    fittedTo: follow,
    unselect: () => stage.select(null),
    zooms,
    quiet: props.quiet,
  });
  useEffect(() => effect(follow), [stage]);
  // Before anything is seen, or the map would come later and move what stands beside it.
  useLayoutEffect(() => {
    down.value = canvas.frame.current!.clientWidth < narrow;
    return sheet.subscribe(() => canvas.fit());
  }, [stage]);
  useEffect(() => {
    const frame = canvas.frame.current!;
    const watcher = new ResizeObserver(() => (down.value = frame.clientWidth < narrow));
    watcher.observe(frame);
    return () => watcher.disconnect();
  }, [stage]);
  const far = useComputed(() => canvas.view.value.zoom < farAway);
  const farther = useComputed(() => canvas.view.value.zoom < fartherAway);
  const { moved, region } = useRegion(canvas, stage, () => sheet.peek());
  const part = useComputed(() =>
    props.quiet || sheet.value.boxes.length <= few
      ? sheet.value
      : partOf(sheet.value, region.value.spot),
  );

  const { boxWidth, boxHeight } = sheet.value;
  const { boxes, lines } = part.value;
  const graph = stage.graph.value;
  const about = { root: stage.name(graph.root), count: graph.nodes.length };
  return (
    <div
      class={classNames({
        graph: true,
        dragging: canvas.dragging.value,
        far: far.value,
        farther: farther.value,
      })}
      ref={canvas.frame}
      onPointerDown={canvas.startDrag}
      onFocusIn={canvas.reveal}
      data-drawing={stage.drawing.value}
    >
      <svg
        width="100%"
        height="100%"
        role="group"
        aria-label={say(sheet.value.down ? "view.graphDown" : "view.graph", about)}
      >
        <g ref={moved}>
          {ordered(lines, stage.selection.value).map((line) => (
            <EdgeView
              key={`${line.edge.node}.${line.edge.argument}`}
              line={line}
              down={sheet.value.down}
            />
          ))}
          {boxes.map((spot) => (
            <NodeView
              key={spot.node}
              box={spot}
              width={boxWidth}
              height={boxHeight}
              down={sheet.value.down}
              far={far.value}
            />
          ))}
          <Tokens lines={sheet.value.lines} />
        </g>
      </svg>
      <PathLegend />
      <div class="foot">
        <MagnitudeLegend />
        <MiniMap sheet={sheet.value} canvas={canvas} />
        <ZoomButtons {...canvas} />
      </div>
    </div>
  );
}

/** What is selected is drawn on top. */
function ordered(lines: Line[], selection: Selection): Line[] {
  if (selection?.kind !== "path" && selection?.kind !== "edge") return lines;
  const chosen = selection.kind === "path" ? selection.path.edges : [selection.edge];
  const isChosen = ({ edge }: Line): boolean => chosen.some((one) => sameEdge(one, edge));
  return [...lines.filter((line) => !isChosen(line)), ...lines.filter(isChosen)];
}

// -- how much room things need --------------------------------------------------------------------

function sheetFor(graph: Graph, numbers: Computed, drawing: Drawing, down: boolean): Sheet {
  const titles = graph.nodes.map(({ label, op }, node) => {
    // Beside a leaf's name it says which way to move it.
    const beside = op ? drawnOp(graph, node) : say("node.way.lower");
    return (label.length + beside.length + 2) * letter.name;
  });
  const boxWidth = Math.min(box.widest, Math.max(box.width, 20 + Math.max(...titles)));
  const written = (edge: Edge): Written => writtenOn(numbers, edge, drawing);
  return sheetOf(
    graph,
    {
      boxWidth,
      boxHeight: box.height,
      ...(down ? { gap: 76 } : { gap: 66, mostGap: 212 }),
      rows: down ? 46 : 32,
      down,
      textHeight: 14,
    },
    written,
  );
}

/** The texts on an edge in the end, and how wide it is then. */
function writtenOn(numbers: Computed, edge: Edge, drawing: Drawing): Written {
  const { graph, values, locals, grads } = numbers;
  const local = locals[edge.node]![edge.argument]!;
  const amount = pull(graph, values, edge.node, grads[edge.node]!)[edge.argument]!;
  const text = drawing === "edges" ? effectText(graph, edge) : `×${shortNumber(local)}`;
  const handed = [say("edge.ghost", { amount: signed(amount) }), lands(amount)];
  return {
    local: text.length * letter.edge,
    pushed: Math.max(...handed.map((one) => one.length)) * letter.edge,
    stroke: strokeOf(amount).width,
  };
}

/** What is handed back as it is added to what is there. */
export const lands = (amount: number): string => say("edge.lands", { amount: signed(amount) });

// -- the view -------------------------------------------------------------------------------------

/** Where the nodes of a step are: the one it is about, then its inputs, the nearest first. */
function partsOf(sheet: Sheet, graph: Graph, step: Step): Rect[] {
  const spot = (node: number): Rect => ({
    ...sheet.boxes[node]!,
    width: sheet.boxWidth,
    height: sheet.boxHeight,
  });
  const first = spot(step.node);
  if (step.phase === "seed") return [first];
  const distance = (one: Rect): number => Math.hypot(one.x - first.x, one.y - first.y);
  const others = edgesOf(graph, step.node).map(({ source }) => spot(source));
  return [first, ...others.sort((one, other) => distance(one) - distance(other))];
}

/** The boxes and the lines that are there. */
function partOf(sheet: Sheet, spot: Rect): Pick<Sheet, "boxes" | "lines"> {
  const { boxWidth: width, boxHeight: height } = sheet;
  return {
    boxes: sheet.boxes.filter(({ x, y }) => overlap({ x, y, width, height }, spot)),
    lines: sheet.lines.filter(({ points }) => overlap(boundsOf(points), spot)),
  };
}

function fitted(sheet: Sheet, frame: HTMLElement, small = false): View {
  const width = frame.clientWidth - 2 * margin;
  const height = frame.clientHeight - margin - foot;
  const whole = Math.min(width / sheet.width, height / (sheet.height + 2 * above));
  // A graph that is all in sight but cannot be read is so only when asked for.
  const least = small ? 0 : readable;
  const zoom = Math.min(zooms.fit * Math.max(1, width / 1400), Math.max(whole, least));
  const place = (room: number, size: number, from: number): number =>
    Math.max(from, (room - size * zoom) / 2);
  return {
    zoom,
    x: place(frame.clientWidth, sheet.width, margin),
    y: place(frame.clientHeight - foot + margin, sheet.height, margin + above * zoom),
  };
}

