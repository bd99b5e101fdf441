// What the last step did, in one sentence at its node, wherever there is room for it. The step text
// below says all of it, and is what screen readers hear.

import { useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";

import { headline } from "../state/narrate";
import { useStage } from "./stage";

interface Spot {
  x: number;
  y: number;
}

const gap = { below: 12, above: 22 }; // to the node: badges stand on its border
const settled = 140; // milliseconds without a move of the drawing
const mostNodes = 300; // and texts, looked at for room

/** Lies over the drawing beside it, in the same box. */
export function Caption() {
  const stage = useStage();
  const bubble = useRef<HTMLParagraphElement>(null);
  const spot = useSignal<Spot | null>(null);
  const text = stage.byHand.value || stage.playing.value ? "" : headline(stage);
  useEffect(() => {
    spot.value = null;
    if (!text) return undefined;
    const box = bubble.current!.parentElement!;
    const drawing = box.querySelector(".graph > svg > g");
    let waiting = 0;
    const place = (): void => {
      clearTimeout(waiting);
      spot.value = null; // while the drawing moves
      waiting = setTimeout(() => (spot.value = freeSpot(box, bubble.current!)), settled);
    };
    place();
    if (!drawing) return () => clearTimeout(waiting);
    const moves = new MutationObserver(place);
    moves.observe(drawing, { attributes: true, attributeFilter: ["transform"] });
    return () => {
      moves.disconnect();
      clearTimeout(waiting);
    };
  }, [text, stage]);
  const at = spot.value;
  return (
    <p
      ref={bubble}
      class={at ? "caption shown" : "caption"}
      aria-hidden="true"
      style={at ? { insetInlineStart: `${at.x}px`, top: `${at.y}px` } : {}}
      data-caption
    >
      {text}
    </p>
  );
}

/** Beside the active node, over no other; null if there is no such place. */
function freeSpot(box: HTMLElement, bubble: HTMLElement): Spot | null {
  const active = box.querySelector(".node.now [data-node]")?.getBoundingClientRect();
  if (!active) return null;
  const nodes = [...box.querySelectorAll("[data-node], .edge text, .badge, .magnitudes, .minimap, .zoom, .legend")];
  if (nodes.length > mostNodes) return null;
  const { left, top, width, height } = box.getBoundingClientRect();
  const { offsetWidth: wide, offsetHeight: high } = bubble;
  const taken = nodes.map((node) => node.getBoundingClientRect());
  const middle = (active.left + active.right) / 2;
  const clamped = (x: number): number => Math.max(left + 8, Math.min(x, left + width - wide - 8));
  const columns = [middle - wide / 2, active.left, active.right - wide].map(clamped);
  const rows = [active.bottom + gap.below, active.top - gap.above - high];
  for (const y of rows) {
    if (y < top + 4 || y + high > top + height - 4) continue;
    for (const x of columns) {
      const free = taken.every(
        (one) =>
          one.right + 2 < x || one.left - 2 > x + wide || one.bottom + 2 < y || one.top - 2 > y + high,
      );
      if (free) return { x: x - left, y: y - top };
    }
  }
  return null;
}
