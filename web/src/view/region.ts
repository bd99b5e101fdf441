// Which part of a drawing is in the page: what is in sight and some around it, so that moving the
// drawing moves one element; all of it on paper.

import { effect, type Signal, useSignal } from "@preact/signals";
import type { RefObject } from "preact";
import { useLayoutEffect, useRef } from "preact/hooks";

import type { Rect } from "../layout/labels";
import type { PanZoom } from "./panzoom";

export interface Region {
  spot: Rect;
  zoom: number;
}

const around = 0.3; // of the view, on each side of it
const paper = 680; // pixels: a narrower drawing is not made larger

/** `size`: of the whole drawing. The element is moved as the view says. */
export function useRegion(
  canvas: PanZoom,
  owner: unknown,
  size: () => { width: number; height: number },
): { moved: RefObject<SVGGElement>; region: Signal<Region> } {
  const moved = useRef<SVGGElement>(null);
  const region = useSignal<Region>({ spot: { x: 0, y: 0, width: 0, height: 0 }, zoom: 1 });
  const printing = useSignal(false);
  useLayoutEffect(
    () =>
      effect(() => {
        const { x, y, zoom } = canvas.view.value;
        if (printing.value) return; // the paper's size moves the view
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
    [owner],
  );

  // The drawing is printed whole, as wide as the paper: style/80-print.css takes off how it was
  // moved.
  const latest = useRef(size);
  latest.current = size;
  useLayoutEffect(() => {
    let onScreen = region.peek();
    const before = (): void => {
      onScreen = region.peek();
      printing.value = true;
      region.value = { zoom: 1, spot: { x: 0, y: 0, ...latest.current() } };
      queueMicrotask(() => {
        const { x, y, width, height } = moved.current!.getBBox();
        const wide = Math.max(width, paper);
        const seen = `${x - (wide - width) / 2} ${y} ${wide} ${height}`;
        moved.current!.ownerSVGElement!.setAttribute("viewBox", seen);
      });
    };
    const after = (): void => {
      moved.current!.ownerSVGElement!.removeAttribute("viewBox");
      region.value = onScreen;
      printing.value = false;
    };
    addEventListener("beforeprint", before);
    addEventListener("afterprint", after);
    return () => {
      removeEventListener("beforeprint", before);
      removeEventListener("afterprint", after);
    };
  }, [owner]);
  return { moved, region };
}

function contains(outer: Rect, inner: Rect): boolean {
  return (
    outer.x <= inner.x &&
    outer.y <= inner.y &&
    inner.x + inner.width <= outer.x + outer.width &&
    inner.y + inner.height <= outer.y + outer.height
  );
}
