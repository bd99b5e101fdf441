// A drawing that is moved and zoomed: by mouse, fingers, wheel with Ctrl or ⌘, keys and buttons.

import { type Signal, useSignal } from "@preact/signals";
import type { RefObject } from "preact";
import { useEffect, useRef } from "preact/hooks";

import { joined, type Rect } from "../layout/labels";
import { addBindings, type Binding, removeBindings } from "../state/keys";
import { mayMove } from "../state/motion";
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
  /**
   * Move as little as needed for parts of the drawing to be in sight, and `around` if there is
   * room. They are made smaller if they must be; if that is not enough, the first ones count.
   */
  show: (parts: Rect[], around?: Rect) => void;
  startDrag: (event: PointerEvent) => void;
  /** What has the focus is brought into sight, as a page would do by scrolling. */
  reveal: (event: FocusEvent) => void;
}

export const margin = 18;
export const foot = 58; // at the lower end, where the buttons are
const readable = 0.62; // following the walk makes it smaller only for all to be in sight,
const visible = 0.48; // and not even then smaller than this
const pace = 80; // milliseconds in which most of the way is done

/**
 * The wheel scrolls the page; with Ctrl or ⌘ it zooms, as two fingers do. `quiet`: the keys are
 * somebody else's. Everything begins anew with another `owner`.
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
  const chosen = useRef(1); // the zoom that was asked for: following the walk comes back to it
  const goal = useRef<View | null>(null); // where the view is moving to

  /** Be there at once. */
  const settle = (wanted: View): void => {
    goal.current = null;
    view.value = wanted;
  };
  /** Move there in a while: never mind how often it changes on the way. */
  const glide = (wanted: View): void => {
    if (!mayMove()) return settle(wanted);
    const moving = goal.current !== null;
    goal.current = wanted;
    if (moving) return;
    let last = performance.now();
    const frames = (now: number): void => {
      const to = goal.current;
      if (!to) return;
      const at = view.peek();
      const left = Math.exp((last - now) / pace);
      last = now;
      if (Math.abs(to.x - at.x) + Math.abs(to.y - at.y) + 200 * Math.abs(to.zoom - at.zoom) < 0.5)
        return settle(to);
      const between = (from: number, until: number): number => until + (from - until) * left;
      view.value = {
        x: between(at.x, to.x),
        y: between(at.y, to.y),
        zoom: between(at.zoom, to.zoom),
      };
      requestAnimationFrame(frames);
    };
    requestAnimationFrame(frames);
  };

  const fit: PanZoom["fit"] = (whole) => {
    if (frame.current) settle(latest.current.fitted(frame.current, whole));
    chosen.current = view.peek().zoom;
    latest.current.fittedTo?.();
  };
  const zoomBy: PanZoom["zoomBy"] = (factor, at) => {
    const box = frame.current!;
    const { x, y, zoom } = view.peek();
    const point = at ?? { x: box.clientWidth / 2, y: box.clientHeight / 2 };
    const wanted = Math.min(zooms.most, Math.max(zooms.least, zoom * factor));
    chosen.current = wanted;
    settle({
      zoom: wanted,
      x: point.x - ((point.x - x) * wanted) / zoom,
      y: point.y - ((point.y - y) * wanted) / zoom,
    });
  };
  const pan = (x: number, y: number): void => {
    if (x || y) settle({ ...view.peek(), x: view.peek().x + x, y: view.peek().y + y });
  };
  const show: PanZoom["show"] = (parts, around) => {
    if (!frame.current || !parts.length) return;
    const { clientWidth, clientHeight } = frame.current;
    const room = ({ width, height }: Rect): number =>
      Math.min((clientWidth - 2 * margin) / width, (clientHeight - margin - foot) / height);
    const from = goal.current ?? view.peek();
    let part = parts.reduce(joined);
    if (room(part) < visible) {
      part = parts.reduce((one, other) => {
        const both = joined(one, other);
        return room(both) < readable ? one : both;
      });
    }
    const least = Math.min(chosen.current, room(part) < readable ? visible : readable);
    const zoom = Math.max(Math.min(chosen.current, room(part)), least);
    const more = around && joined(part, around);
    const wanted = more && room(more) >= zoom ? more : part;
    // Zooming keeps the middle of the part where it is; then all moves into sight.
    const middle = (at: number, start: number, size: number): number =>
      at + (start + size / 2) * (from.zoom - zoom);
    const x = middle(from.x, part.x, part.width);
    const y = middle(from.y, part.y, part.height);
    const left = x + wanted.x * zoom;
    const top = y + wanted.y * zoom;
    const next = {
      zoom,
      x: x + intoSight(left, left + wanted.width * zoom, 0, clientWidth),
      y: y + intoSight(top, top + wanted.height * zoom, 0, clientHeight - foot + margin),
    };
    if (next.x !== from.x || next.y !== from.y || next.zoom !== from.zoom) glide(next);
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
      if (!event.ctrlKey && !event.metaKey) return;
      event.preventDefault();
      const { left, top } = box.getBoundingClientRect();
      // A mouse's wheel turns by a hundred at a time, fingers on a pad by a few.
      const by = Math.max(-40, Math.min(40, event.deltaY));
      zoomBy(Math.exp(-by * 0.01), {
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

  const fingers = useRef(new Map<number, { x: number; y: number }>());
  const startDrag = (event: PointerEvent): void => {
    if (event.button !== 0 || (event.target as Element).closest(grabbed)) return;
    const box = frame.current!;
    const down = fingers.current;
    down.set(event.pointerId, { x: event.clientX, y: event.clientY });
    let moved = down.size > 1;
    const move = (now: PointerEvent): void => {
      const last = down.get(now.pointerId);
      if (!last) return;
      moved ||= Math.abs(now.clientX - last.x) + Math.abs(now.clientY - last.y) > 3;
      if (!moved) return;
      dragging.value = true;
      const here = { x: now.clientX, y: now.clientY };
      const other = [...down].find(([id]) => id !== now.pointerId)?.[1];
      if (other) {
        const { left, top } = box.getBoundingClientRect();
        const apart = (one: typeof here): number => Math.hypot(one.x - other.x, one.y - other.y);
        const middle = { x: (here.x + other.x) / 2 - left, y: (here.y + other.y) / 2 - top };
        zoomBy(apart(here) / Math.max(apart(last), 1), middle);
      } else pan(here.x - last.x, here.y - last.y);
      down.set(now.pointerId, here);
    };
    followPointer(box, event.pointerId, move, () => {
      down.delete(event.pointerId);
      if (!moved) options.unselect();
      dragging.value = down.size > 0;
    });
  };

  const reveal = (event: FocusEvent): void => {
    const focused = event.target as Element;
    if (!focused.closest("svg")) return; // a button beside the drawing moves nothing
    const seen = focused.getBoundingClientRect();
    const box = frame.current!.getBoundingClientRect();
    pan(
      intoSight(seen.left, seen.right, box.left, box.right),
      intoSight(seen.top, seen.bottom, box.top, box.bottom - foot + margin),
    );
    frame.current!.scrollTo(0, 0);
  };
  return { frame, view, dragging, fit, pan, zoomBy, show, startDrag, reveal };
}

/** What takes the pointer for itself. */
const grabbed = "[role=button], [role=slider], input, button, .minimap";

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
