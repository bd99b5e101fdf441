// How large an array is on paper: a matrix of figures, of squares, or a heat map of a large one.

import { countOf, type Shape } from "../trace/description";
import { box, type Size } from "./nested";

export const mostSide = 12; // rows and columns that are shown one by one
const thumbnailSide = 8; // of what Python keeps of a larger one
const figures = { rows: 6, columns: 4 }; // more are squares

export interface Block {
  rows: number;
  columns: number;
  whole: boolean; // every element is there
  inFigures: boolean;
  cell: { width: number; height: number };
  width: number;
  height: number;
}

/** The array as a matrix: what is before the last dimension lies in rows. */
export function blockOf(shape: Shape): Block {
  const columns = shape.at(-1) ?? 1;
  const rows = countOf(shape.slice(0, -1));
  const whole = rows > 0 && columns > 0 && rows <= mostSide && columns <= mostSide;
  const inFigures = whole && rows <= figures.rows && columns <= figures.columns;
  const shown = whole
    ? { rows, columns }
    : { rows: Math.min(rows, thumbnailSide), columns: Math.min(columns, thumbnailSide) };
  const cell = inFigures
    ? { width: 52, height: 22 }
    : whole
      ? { width: 13, height: 13 }
      : { width: 9, height: 9 };
  return {
    ...shown,
    whole,
    inFigures,
    cell,
    width: shown.columns * cell.width,
    height: shown.rows * cell.height,
  };
}

/** Inside a box: its name, then the numbers of rows and columns along the sides. */
export const inside = { side: 12, name: 27, label: 17, between: 14, foot: 12 };

const letter = 8.1; // the width of one, in the number of rows
const lent = 4; // of a label to the space before it

/** The number of rows, as it stands to the left of a matrix. */
export const rowsText = (shape: Shape): string => shape.slice(0, -1).join("·");

/** The room to the left of a matrix: for more dimensions, or many rows, their label is long. */
export const gutterOf = (shape: Shape): number =>
  Math.max(inside.label, Math.ceil(rowsText(shape).length * letter) - lent);

/** A box with its value, and its gradient beside it. */
export function matrixBox(shape: Shape, hasGradient: boolean): Size {
  const { width, height } = blockOf(shape);
  const { side, name, label, between, foot } = inside;
  const one = gutterOf(shape) + width;
  return {
    width: Math.max(box.width, 2 * side + one + (hasGradient ? between + one : 0)),
    height: name + label + height + foot,
  };
}
