// A trace as boxes in boxes. Only what is in sight is in the page; moving the drawing moves one
// element, and what is in sight is looked up again when the view leaves what was drawn.

import { effect, useComputed } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";

import { inSight, type Sight, type Spot, spotOf } from "../../layout/nested";
import { origins } from "../../state/elements";
import { measureDrawing, shownTitle, traceStage as stage } from "../../state/trace";
import { say } from "../../state/words";
import { keyOf } from "../../trace/outline";
import { margin, type PanZoom, usePanZoom, type View, ZoomButtons } from "../panzoom";
import { useRegion } from "../region";
import { FrameView, ItemView } from "./boxes";
import { MergedWires, WireView } from "./wires";

const zooms = { least: 0.02, most: 2.5 };
const readable = { boxes: 1, matrices: 1.1 }; // figures are read one by one
const leastWhole = 1; // the smallest text is then of 12 pixels; with less, it begins with a part
const legible = 0.32; // with less, text on boxes cannot be read
const mostWires = 50; // more are one element, which cannot be picked apart
const mostBoxes = 64;

const shown = (): keyof typeof readable => (stage.matrices.peek() ? "matrices" : "boxes");

/** Do it now, and whenever a signal that it reads has changed. */
const useFollowing = (act: () => void): void => useEffect(() => effect(act), []);

export function TraceDrawing() {
  const untouched = useRef<View>();
  const canvas: PanZoom = usePanZoom({
    owner: stage.document.value,
    fitted,
    fittedTo: () => (untouched.current = canvas.view.peek()),
    unselect: () => stage.select(null),
    zooms,
    place: "trace",
  });
  const { moved, region } = useRegion(canvas, stage, () => stage.plan.peek()!);

  // What was clicked stays under the mouse when things around it move.
  const anchor = useRef<{ scope: number; spot: Spot } | null>(null);
  const toggle = (scope: number): void => {
    const start = performance.now();
    const spot = spotOf(stage.outline, stage.plan.peek()!, { scope });
    anchor.current = spot ? { scope, spot } : null;
    stage.toggle(scope);
    measureDrawing("group", start);
  };
  useFollowing(() => {
    const plan = stage.plan.value;
    if (!plan || !anchor.current) return;
    const { scope, spot } = anchor.current;
    const now = spotOf(stage.outline, plan, { scope });
    anchor.current = null;
    const { zoom } = canvas.view.peek();
    if (now) canvas.pan((spot.x - now.x) * zoom, (spot.y - now.y) * zoom);
  });

  // Another trace is fitted, also when Python has found what to look at, unless somebody has moved
  // it by then; what is asked for comes into the middle; the walk stays in sight.
  useFollowing(() => {
    stage.document.value;
    const found = stage.findings.value;
    queueMicrotask(() => {
      if (!found || (found.length && canvas.view.peek() === untouched.current)) canvas.fit();
    });
  });
  const sized = useRef(stage.matrices.peek());
  useFollowing(() => {
    if (sized.current === stage.matrices.value) return;
    sized.current = stage.matrices.value;
    queueMicrotask(() => canvas.fit()); // everything stands elsewhere
  });
  useFollowing(() => {
    const wish = stage.wanted.value;
    const spot = wish && spotOf(stage.outline, stage.plan.peek()!, wish.item);
    const box = canvas.frame.current;
    if (!spot || !box) return;
    if (keyOf(wish.item) === keyOf({ scope: 0 })) return queueMicrotask(() => canvas.fit());
    const zoom = Math.max(canvas.view.peek().zoom, readable[shown()]);
    const into = (room: number, from: number, size: number): number =>
      Math.max(margin, (room - size * zoom) / 2) - from * zoom;
    canvas.view.value = {
      zoom,
      x: into(box.clientWidth, spot.x, spot.width),
      y: into(box.clientHeight, spot.y, spot.height),
    };
  });
  const position = useRef(stage.position.peek());
  useFollowing(() => {
    const node = stage.current.value?.node;
    const before = position.current;
    position.current = stage.position.value;
    if (node === undefined || before === position.current) return; // something was opened
    const spot = spotOf(stage.outline, stage.plan.peek()!, stage.shownFor(node));
    if (spot) canvas.show([spot]);
  });

  const sights = useComputed((): Sight[] => {
    const { spot, zoom } = region.value;
    const plan = stage.plan.value;
    return plan ? inSight(stage.outline, plan, spot, zoom) : [];
  });
  const boxes = sights.value.reduce((sum, { items }) => sum + items.length, 0);
  const wires = sights.value.reduce((sum, sight) => sum + sight.wires.length, 0);
  const plain = region.value.zoom < legible || boxes > mostBoxes;
  return (
    <div
      class={`graph trace${canvas.dragging.value ? " dragging" : ""}`}
      ref={canvas.frame}
      onPointerDown={canvas.startDrag}
      onFocusIn={canvas.reveal}
      data-trace-drawing
    >
      <svg
        width="100%"
        height="100%"
        role="group"
        aria-label={say("trace.drawing", {
          title: shownTitle(stage.document.value!),
          count: stage.outline.scopes[0]!.operations,
        })}
      >
        <defs>
          <marker
            id="tip"
            viewBox="0 0 8 8"
            refX="8"
            refY="4"
            markerWidth="8"
            markerHeight="8"
            markerUnits="userSpaceOnUse"
            orient="auto"
          >
            <path d="M0 0l8 4l-8 4z" />
          </marker>
        </defs>
        <g ref={moved}>
          {sights.value.map(
            (sight) =>
              sight.scope > 0 && (
                <g key={sight.scope} transform={`translate(${sight.x} ${sight.y})`}>
                  <FrameView
                    sight={sight}
                    plain={region.value.zoom < legible / 2}
                    toggle={toggle}
                  />
                </g>
              ),
          )}
          {sights.value.map((sight) => (
            <g key={sight.scope} transform={`translate(${sight.x} ${sight.y})`}>
              {wires > mostWires ? (
                <MergedWires sight={sight} />
              ) : (
                sight.wires.map((wire) => (
                  <WireView key={wire} sight={sight} index={wire} labels={!plain} />
                ))
              )}
              {sight.items.map((item) => {
                if (sight.plan.inner[item]) return null; // it has its frame
                return <ItemView key={item} {...{ sight, index: item, plain, toggle }} />;
              })}
            </g>
          ))}
        </g>
      </svg>
      <ElementText />
      <div class="foot">
        <ZoomButtons {...canvas} />
      </div>
    </div>
  );
}

/** The sum that the element under the mouse or the keys is. */
function ElementText() {
  const text = origins.value?.text;
  return (
    <output class="element" translate={false} hidden={!text} data-origins>
      {text}
    </output>
  );
}

/** All of it, unless that could not be read: then what is to be looked at, or its beginning. */
function fitted(box: HTMLElement, whole = false): View {
  const plan = stage.plan.peek()!;
  const { clientWidth, clientHeight } = box;
  const large = Math.max(1, clientWidth / 1400); // on a large screen everything is larger
  const room = Math.min(
    (clientWidth - 2 * margin) / plan.width,
    (clientHeight - 2 * margin) / plan.height,
  );
  const small = !whole && room < leastWhole * Math.max(1, 0.6 * large);
  const zoom = Math.min(1.25 * large, small ? readable[shown()] * large : room);
  const walking = stage.position.peek() < stage.steps.peek().length && stage.current.peek();
  const item = stage.lookAt() ?? (walking ? stage.shownFor(walking.node) : undefined);
  const start = { x: 0, y: 0, width: 0, height: 0 };
  const at = (item && spotOf(stage.outline, plan, item)) ?? start;
  return {
    zoom,
    x: placed(clientWidth, plan.width * zoom, at.x * zoom, at.width * zoom),
    y: placed(clientHeight, plan.height * zoom, at.y * zoom, at.height * zoom),
  };
}

/** Where a drawing begins: in the middle if there is room, else so that a part of it is there. */
function placed(room: number, size: number, from: number, length: number): number {
  if (size + 2 * margin <= room) return (room - size) / 2;
  const start = (room - length) / 2 - from;
  return Math.max(room - margin - size, Math.min(margin, start));
}
