// The images of the digits, all at once: each with a frame in the colour of right or wrong.

import { session } from "../../playground/session";
import type { Palette } from "./paint";

const COLUMNS = 12;
const SIDE = 8; // pixels of an image

/** Which image is at a part of the way across and down. */
export function imageAt(across: number, down: number): number {
  const at = Math.floor(down * COLUMNS) * COLUMNS + Math.floor(across * COLUMNS);
  return Math.min(at, session.trainer.points.length - 1);
}

export function drawDigits(
  context: CanvasRenderingContext2D,
  size: number,
  { paper, minus, plus, ink }: Palette,
): void {
  const cell = size / COLUMNS;
  const pixel = (0.76 * cell) / SIDE;
  const { points } = session.trainer;
  const wrong = session.look.value.wrong;
  context.fillStyle = `rgb(${paper.join(" ")})`;
  context.fillRect(0, 0, size, size);
  points.forEach(({ x }, i) => {
    const [left, top] = [(i % COLUMNS) * cell, Math.floor(i / COLUMNS) * cell];
    const frame = (0.24 * cell) / 2;
    context.fillStyle = `rgb(${(wrong.has(i) ? minus : plus).join(" ")} / 30%)`;
    context.fillRect(left + 1, top + 1, cell - 2, cell - 2);
    x.forEach((shade, k) => {
      context.fillStyle = `rgb(${ink.join(" ")} / ${shade})`;
      const [column, row] = [k % SIDE, Math.floor(k / SIDE)];
      context.fillRect(left + frame + column * pixel, top + frame + row * pixel, pixel, pixel);
    });
    if (wrong.has(i)) {
      context.fillStyle = `rgb(${minus.join(" ")})`; // seen without colours too
      context.fillRect(left + 1, top + cell - 4, cell - 2, 3);
    }
  });
  const at = session.point.value;
  context.strokeStyle = `rgb(${ink.join(" ")})`;
  context.lineWidth = size / 180;
  context.strokeRect((at % COLUMNS) * cell, Math.floor(at / COLUMNS) * cell, cell, cell);
}
