// The plane: each place in the colour of the class that the network gives it, and the points.

import { useSignalEffect } from "@preact/signals";
import { useRef } from "preact/hooks";

import { EXTENT, type Maps } from "../../playground/boundary";
import type { Point } from "../../playground/data";
import { session } from "../../playground/session";
import { theme } from "../../state/studio";
import { say } from "../../state/words";
import { drawDigits, imageAt } from "./digits";
import { type Colour, heatMap, paletteOf } from "./paint";

export function Picture() {
  const canvas = useRef<HTMLCanvasElement>(null);
  const digits = session.settings.value.data === "digits";
  useSignalEffect(() => {
    void [session.drawn.value, session.point.value, session.map.value, theme.value];
    if (canvas.current) draw(canvas.current);
  });
  const pick = (event: MouseEvent): void => {
    const box = canvas.current!.getBoundingClientRect();
    const across = (event.clientX - box.left) / box.width;
    const down = (event.clientY - box.top) / box.height;
    session.point.value = digits ? imageAt(across, down) : nearest(across, down);
  };
  return (
    <canvas
      ref={canvas}
      class="plane"
      role="img"
      aria-label={say(digits ? "play.digitsAbout" : "play.pictureAbout", {
        count: session.look.value.right,
        all: session.trainer.points.length,
      })}
      onClick={pick}
    />
  );
}

/** The nearest point is the one that was meant. */
function nearest(across: number, down: number): number {
  const [x, y] = [EXTENT * (2 * across - 1), EXTENT * (1 - 2 * down)];
  const far = session.trainer.points.map((p) => Math.hypot(p.x[0]! - x, p.x[1]! - y));
  return far.indexOf(Math.min(...far));
}

function draw(canvas: HTMLCanvasElement): void {
  const size = Math.round(canvas.clientWidth * devicePixelRatio);
  if (!size) return;
  if (canvas.width !== size) canvas.width = canvas.height = size;
  const context = canvas.getContext("2d")!;
  const palette = paletteOf(canvas);
  const { paper, minus, plus, ink } = palette;
  const digits = session.settings.peek().data === "digits";
  if (digits && !session.map.value) {
    drawDigits(context, size, palette);
    return;
  }
  const { size: cells } = session.maps;
  const small = new OffscreenCanvas(cells, cells);
  small.getContext("2d")!.putImageData(heatMap(session.maps, session.map.value, palette), 0, 0);
  context.imageSmoothingEnabled = !digits;
  context.imageSmoothingQuality = "high";
  context.drawImage(small, 0, 0, size, size);
  if (digits) return;
  border(context, session.maps, size, ink);
  const chosen = session.trainer.points[session.point.value]!;
  for (const point of [...session.trainer.points, chosen]) {
    mark(context, point, size, point.y > 0 ? plus : minus, paper);
  }
  ring(context, chosen, size, ink);
}

/** Where the score is 0, as a line through the cells: seen without colours too. */
function border(
  context: CanvasRenderingContext2D,
  maps: Maps,
  size: number,
  ink: Colour,
): void {
  const cells = maps.size;
  const unit = size / cells;
  context.beginPath();
  for (let row = 0; row + 1 < cells; row++) {
    for (let column = 0; column + 1 < cells; column++) {
      const corner = (dx: number, dy: number): number =>
        maps.at(0, (row + dy) * cells + column + dx);
      const crossed: [number, number][] = [];
      const side = (x1: number, y1: number, x2: number, y2: number): void => {
        const [one, other] = [corner(x1, y1), corner(x2, y2)];
        if (one > 0 === other > 0) return;
        const part = one / (one - other);
        crossed.push([x1 + (x2 - x1) * part, y1 + (y2 - y1) * part]);
      };
      side(0, 0, 1, 0);
      side(1, 0, 1, 1);
      side(1, 1, 0, 1);
      side(0, 1, 0, 0);
      for (let i = 0; i + 1 < crossed.length; i += 2) {
        for (const [k, [x, y]] of crossed.slice(i, i + 2).entries()) {
          const at = [(column + x + 0.5) * unit, (row + y + 0.5) * unit] as const;
          if (k) context.lineTo(...at);
          else context.moveTo(...at);
        }
      }
    }
  }
  context.strokeStyle = `rgb(${ink.join(" ")} / 75%)`;
  context.lineWidth = Math.max(1.5, size / 320);
  context.stroke();
}

/** A circle for +1, a square for −1. */
function outline(
  context: CanvasRenderingContext2D,
  { x, y }: Point,
  size: number,
  radius: number,
): void {
  const [left, top] = [(x[0]! / EXTENT + 1) * (size / 2), (1 - x[1]! / EXTENT) * (size / 2)];
  const half = radius * 0.88;
  context.beginPath();
  if (y > 0) context.arc(left, top, radius, 0, 7);
  else context.rect(left - half, top - half, 2 * half, 2 * half);
}

function mark(
  context: CanvasRenderingContext2D,
  point: Point,
  size: number,
  colour: Colour,
  paper: Colour,
): void {
  outline(context, point, size, size / 85);
  context.fillStyle = `rgb(${colour.join(" ")})`;
  context.fill();
  context.strokeStyle = `rgb(${paper.join(" ")})`;
  context.lineWidth = size / 400;
  context.stroke();
}

function ring(
  context: CanvasRenderingContext2D,
  point: Point,
  size: number,
  ink: Colour,
): void {
  outline(context, point, size, size / 42);
  context.strokeStyle = `rgb(${ink.join(" ")})`;
  context.lineWidth = size / 180;
  context.stroke();
}
