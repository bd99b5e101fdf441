// The whole graph in small, where it is larger than its frame: what is in sight, and where the walk
// is. It is dragged like a magnifying glass; for the keyboard there are the keys that move the view.

import { useMemo } from "preact/hooks";

import type { Sheet } from "../layout/sheet";
import type { PanZoom } from "./panzoom";
import { followPointer } from "./parts";
import { useStage } from "./stage";

const most = { width: 190, height: 44 };
const mostLines = 400; // more are a blot
const around = 30; // of the drawing: badges, and the lines of boxes

export function MiniMap({ sheet, canvas }: { sheet: Sheet; canvas: PanZoom }) {
  const stage = useStage();
  const { boxes, boxWidth, boxHeight } = sheet;
  const whole = { width: sheet.width + 2 * around, height: sheet.height + 2 * around };
  const scale = Math.min(most.width / whole.width, most.height / whole.height);
  const paths = useMemo(
    () => ({
      boxes: boxes.map(({ x, y }) => `M${x} ${y}h${boxWidth}v${boxHeight}h${-boxWidth}z`).join(""),
      lines: sheet.lines.length > mostLines ? "" : sheet.lines.map(({ curve }) => curve).join(""),
    }),
    [sheet],
  );
  const { x, y, zoom } = canvas.view.value;
  const { clientWidth = 0, clientHeight = 0 } = canvas.frame.current ?? {};
  const isIn = (from: number, size: number, room: number): boolean =>
    from >= 0 && from + size * zoom <= room;
  if (!clientWidth || (isIn(x, sheet.width, clientWidth) && isIn(y, sheet.height, clientHeight)))
    return null;
  const now = stage.current.value && boxes[stage.current.value.node];
  return (
    <svg
      class="minimap"
      width={whole.width * scale}
      height={whole.height * scale}
      viewBox={`${-around} ${-around} ${whole.width} ${whole.height}`}
      aria-hidden="true"
      data-minimap
      onPointerDown={(event) => {
        event.stopPropagation(); // it is not the drawing that is dragged
        const map = event.currentTarget;
        const go = ({ clientX, clientY }: PointerEvent): void => {
          const seen = canvas.view.peek();
          const at = new DOMPoint(clientX, clientY).matrixTransform(map.getScreenCTM()!.inverse());
          canvas.pan(
            clientWidth / 2 - at.x * seen.zoom - seen.x,
            clientHeight / 2 - at.y * seen.zoom - seen.y,
          );
        };
        go(event);
        followPointer(map, event.pointerId, go, () => undefined);
      }}
    >
      <path class="lines" d={paths.lines} />
      <path class="boxes" d={paths.boxes} />
      {now && <rect class="now" x={now.x} y={now.y} width={boxWidth} height={boxHeight} />}
      <rect
        class="seen"
        x={-x / zoom}
        y={-y / zoom}
        width={clientWidth / zoom}
        height={clientHeight / zoom}
      />
    </svg>
  );
}
