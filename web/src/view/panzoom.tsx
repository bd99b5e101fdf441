// A drawing that is moved and zoomed: by mouse, wheel, keys and buttons.

import { type Signal, useSignal } from "@preact/signals";
import type { RefObject } from "preact";
import { useEffect, useRef } from "preact/hooks";

import { addBindings, type Binding, removeBindings } from "../state/keys";
import { say } from "../state/words";
import { followPointer } from "./parts";

export interface View {
  x: number;
  y: number;
  zoom: number;
}

export interface PanZoom {
  frame: RefObject<HTMLDivElement>;
  view: Signal<View>;
  dragging: Signal<boolean>;
  fit: (whole?: boolean) => void; // whole: however small it gets
  pan: (x: number, y: number) => void;
  zoomBy: (factor: number, at?: { x: number; y: number }) => void;
  /** Move as little as needed for a part of the drawing to be in sight. */
  show: (part: { x: number; y: number; width: number; height: number }) => void;
  startDrag: (event: PointerEvent) => void;
  /** What has the focus is brought into sight, as a page would do by scrolling. */
  reveal: (event: FocusEvent) => void;
}

export const margin = 22;

/**
 * `quiet`: the wheel scrolls the page, as it should among text; with Ctrl it zooms; and the keys
 * are somebody else's. Everything begins anew with another `owner`.
 */
export function usePanZoom(options: {
  owner: unknown;
  fitted: (box: HTMLElement, whole?: boolean) => View;
  fittedTo?: () => void; // after it was fitted
  unselect: () => void;
  zooms: { least: number; most: number };
  place?: string; // where the keys work
  quiet?: boolean;
}): PanZoom {
  const { owner, zooms, quiet } = options;
  const frame = useRef<HTMLDivElement>(null);
  const view = useSignal<View>({ x: margin, y: margin, zoom: 1 });
  const dragging = useSignal(false);
  const latest = useRef(options);
  latest.current = options;

  const fit: PanZoom["fit"] = (whole) => {
    if (frame.current) view.value = latest.current.fitted(frame.current, whole);
    latest.current.fittedTo?.();
  };
  const zoomBy: PanZoom["zoomBy"] = (factor, at) => {
    const box = frame.current!;
    const { x, y, zoom } = view.peek();
    const point = at ?? { x: box.clientWidth / 2, y: box.clientHeight / 2 };
    const wanted = Math.min(zooms.most, Math.max(zooms.least, zoom * factor));
    view.value = {
      zoom: wanted,
      x: point.x - ((point.x - x) * wanted) / zoom,
      y: point.y - ((point.y - y) * wanted) / zoom,
    };
  };
  const pan = (x: number, y: number): void => {
    if (x || y) view.value = { ...view.peek(), x: view.peek().x + x, y: view.peek().y + y };
  };
  const show: PanZoom["show"] = (part) => {
    if (!frame.current) return;
    const { x, y, zoom } = view.peek();
    const { clientWidth, clientHeight } = frame.current;
    const left = x + part.x * zoom;
    const top = y + part.y * zoom;
    pan(
      intoSight(left, left + part.width * zoom, 0, clientWidth),
      intoSight(top, top + part.height * zoom, 0, clientHeight),
    );
  };

  useEffect(() => {
    const box = frame.current!;
    // A line of text more or less above the graph is no reason to move it.
    let [width, height] = [0, 0];
    const watcher = new ResizeObserver(() => {
      if (box.clientWidth === width && Math.abs(box.clientHeight - height) < 60) return;
      [width, height] = [box.clientWidth, box.clientHeight];
      fit();
    });
    watcher.observe(box);
    const wheel = (event: WheelEvent): void => {
      if (quiet && !event.ctrlKey) return;
      event.preventDefault();
      const { left, top } = box.getBoundingClientRect();
      zoomBy(Math.exp(-event.deltaY * (event.ctrlKey ? 0.01 : 0.0015)), {
        x: event.clientX - left,
        y: event.clientY - top,
      });
    };
    box.addEventListener("wheel", wheel, { passive: false });
    return () => {
      watcher.disconnect();
      box.removeEventListener("wheel", wheel);
    };
  }, [owner]);

  useEffect(() => {
    if (quiet) return undefined;
    const keys: Binding[] = [
      { keys: ["+", "="], word: "view.zoomIn", run: () => zoomBy(1.25) },
      { keys: ["-"], word: "view.zoomOut", run: () => zoomBy(0.8) },
      { keys: ["0", "f"], word: "view.fit", run: () => fit(true) },
      { keys: ["Shift+ArrowLeft"], word: "view.panLeft", run: () => pan(80, 0) },
      { keys: ["Shift+ArrowRight"], word: "view.panRight", run: () => pan(-80, 0) },
      { keys: ["Shift+ArrowUp"], word: "view.panUp", run: () => pan(0, 80) },
      { keys: ["Shift+ArrowDown"], word: "view.panDown", run: () => pan(0, -80) },
    ].map((key) => ({ ...key, group: "view", ...(options.place && { place: options.place }) }));
    addBindings(...keys);
    return () => removeBindings(...keys);
  }, [owner]);

  const startDrag = (event: PointerEvent): void => {
    if (event.button !== 0 || (event.target as Element).closest("[role=button], input, button"))
      return;
    const box = frame.current!;
    let last = { x: event.clientX, y: event.clientY };
    let moved = false;
    const move = (now: PointerEvent): void => {
      moved ||= Math.abs(now.clientX - last.x) + Math.abs(now.clientY - last.y) > 3;
      if (!moved) return;
      dragging.value = true;
      pan(now.clientX - last.x, now.clientY - last.y);
      last = { x: now.clientX, y: now.clientY };
    };
    followPointer(box, event.pointerId, move, () => {
      if (!moved) options.unselect();
      dragging.value = false;
    });
  };

  const reveal = (event: FocusEvent): void => {
    const seen = (event.target as Element).getBoundingClientRect();
    const box = frame.current!.getBoundingClientRect();
    pan(
      intoSight(seen.left, seen.right, box.left, box.right),
      intoSight(seen.top, seen.bottom, box.top, box.bottom),
    );
    frame.current!.scrollTo(0, 0);
  };
  return { frame, view, dragging, fit, pan, zoomBy, show, startDrag, reveal };
}

/** How far to move something that lies from low to high for it to be between two edges. */
function intoSight(low: number, high: number, from: number, to: number): number {
  if (low < from + margin) return from + margin - low;
  return high > to - margin ? Math.max(to - margin - high, from + margin - low) : 0;
}

export function ZoomButtons({ zoomBy, fit }: PanZoom) {
  return (
    <div class="zoom" role="group" aria-label={say("view.zoom")}>
      <button type="button" onClick={() => zoomBy(1.25)} aria-label={say("view.zoomIn")}>
        +
      </button>
      <button type="button" onClick={() => zoomBy(0.8)} aria-label={say("view.zoomOut")}>
        −
      </button>
      <button type="button" onClick={() => fit(true)}>
        {say("view.fit")}
      </button>
    </div>
  );
}
