// A trace as boxes in boxes. Only what is in sight is in the page; moving the drawing moves one
// element, and what is in sight is looked up again when the view leaves what was drawn.

import { effect, useComputed, useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";

import { inSight, type Plan, type Sight, type Spot, spotOf } from "../../layout/nested";
import { shownTitle, traceStage as stage } from "../../state/trace";
import { say } from "../../state/words";
import { margin, usePanZoom, type View, ZoomButtons } from "../panzoom";
import { FrameView, ItemView, PlainItem } from "./boxes";
import { MergedWires, WireView } from "./wires";

const zooms = { least: 0.02, most: 2.5 };
const legible = 0.32; // with less, text on boxes cannot be read
const around = 0.3; // of the view, drawn on each side of it
const mostWires = 50; // more are one element, which cannot be picked apart
const mostBoxes = 64;

export function TraceDrawing() {
  const region = useSignal<{ spot: Spot; zoom: number }>({
    spot: { x: 0, y: 0, width: 0, height: 0 },
    zoom: 1,
  });
  const moved = useRef<SVGGElement>(null);
  const canvas = usePanZoom({
    owner: stage.document.value,
    fitted: (box) => fitted(stage.plan.peek()!, box),
    unselect: () => stage.select(null),
    zooms,
    place: "trace",
  });

  // What was clicked stays under the mouse when things around it move.
  const anchor = useRef<{ scope: number; spot: Spot } | null>(null);
  const toggle = (scope: number): void => {
    const start = performance.now();
    const spot = spotOf(stage.outline, stage.plan.peek()!, { scope });
    anchor.current = spot ? { scope, spot } : null;
    stage.toggle(scope);
    requestAnimationFrame(() => setTimeout(() => performance.measure("gradwalk.group", { start })));
  };
  useEffect(
    () =>
      effect(() => {
        const plan = stage.plan.value;
        if (!plan || !anchor.current) return;
        const { scope, spot } = anchor.current;
        const now = spotOf(stage.outline, plan, { scope });
        anchor.current = null;
        const { zoom } = canvas.view.peek();
        if (now) canvas.pan((spot.x - now.x) * zoom, (spot.y - now.y) * zoom);
      }),
    [],
  );

  useEffect(
    () =>
      effect(() => {
        const { x, y, zoom } = canvas.view.value;
        const box = canvas.frame.current;
        if (!box || !moved.current) return;
        moved.current.setAttribute("transform", `translate(${x} ${y}) scale(${zoom})`);
        const { clientWidth: width, clientHeight: height } = box;
        const seen = { x: -x / zoom, y: -y / zoom, width: width / zoom, height: height / zoom };
        const { spot, zoom: drawnAt } = region.peek();
        const ratio = zoom / drawnAt;
        if (contains(spot, seen) && ratio > 0.75 && ratio < 1.3) return;
        const [beside, above] = [seen.width * around, seen.height * around];
        region.value = {
          zoom,
          spot: {
            x: seen.x - beside,
            y: seen.y - above,
            width: seen.width + 2 * beside,
            height: seen.height + 2 * above,
          },
        };
      }),
    [],
  );

  // Another trace is fitted; what is asked for comes into the middle; the walk stays in sight.
  useEffect(() => stage.document.subscribe(() => queueMicrotask(canvas.fit)), []);
  useEffect(
    () =>
      effect(() => {
        const wish = stage.wanted.value;
        const box = canvas.frame.current;
        const plan = stage.plan.peek();
        const spot = wish && plan && spotOf(stage.outline, plan, wish.item);
        if (!spot || !box) return;
        if ("scope" in wish.item && wish.item.scope === 0) return canvas.fit();
        const zoom = Math.max(canvas.view.peek().zoom, 0.8);
        const room = {
          x: box.clientWidth - spot.width * zoom,
          y: box.clientHeight - spot.height * zoom,
        };
        canvas.view.value = {
          zoom,
          x: Math.max(margin, room.x / 2) - spot.x * zoom,
          y: Math.max(margin, room.y / 2) - spot.y * zoom,
        };
      }),
    [],
  );
  useEffect(() => {
    let first = true;
    return effect(() => {
      const node = stage.current.value?.node;
      stage.position.value;
      if (first || node === undefined) {
        first = false;
        return;
      }
      const spot = spotOf(stage.outline, stage.plan.peek()!, stage.shownFor(node));
      if (spot) canvas.show(spot);
    });
  }, []);

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
                const Shown = plain ? PlainItem : ItemView;
                return <Shown key={item} sight={sight} index={item} toggle={toggle} />;
              })}
            </g>
          ))}
        </g>
      </svg>
      <ZoomButtons {...canvas} />
    </div>
  );
}

function contains(outer: Spot, inner: Spot): boolean {
  return (
    outer.x <= inner.x &&
    outer.y <= inner.y &&
    inner.x + inner.width <= outer.x + outer.width &&
    inner.y + inner.height <= outer.y + outer.height
  );
}

/** All of it, unless that could not be read: then its beginning. */
function fitted(plan: Plan, box: HTMLElement): View {
  const width = box.clientWidth - 2 * margin;
  const height = box.clientHeight - 2 * margin;
  const large = Math.max(1, width / 1400); // on a large screen everything is larger
  const whole = Math.min(width / plan.width, height / plan.height);
  const zoom = Math.min(1.25 * large, Math.max(0.62 * large, whole));
  const room = box.clientWidth - plan.width * zoom;
  return {
    zoom,
    x: room > 2 * margin ? room / 2 : margin,
    y: Math.max(margin, (box.clientHeight - plan.height * zoom) / 2),
  };
}
