// Arrays as matrices: in the boxes of the drawing, on its wires, and where products are explained.

import { general } from "../../engine/numbers";
import { type Block, blockOf, gutterOf, inside, rowsText } from "../../layout/matrix";
import {
  type Element,
  isLit,
  looked,
  numbersAt,
  numbersOf,
  sameElement,
} from "../../state/elements";
import { traceStage as stage } from "../../state/trace";
import type { Kept, Shape } from "../../trace/description";
import { asIs, signOf } from "../text";

const levels = 8; // of how strong a colour is

/** How the elements of an array stand on paper: as they are, or transposed. */
export interface Grid {
  block: Block;
  numbers?: readonly number[]; // undefined: not known (yet)
  element?: (index: number) => Element; // so that it can be looked at
  transposed?: boolean;
}

/** Row by row on paper: which element it is. */
function indexAt({ block, transposed }: Grid, row: number, column: number): number {
  return transposed ? column * block.rows + row : row * block.columns + column;
}

function* places({ block: { rows, columns } }: Grid): Iterable<[row: number, column: number]> {
  for (let row = 0; row < rows; row++)
    for (let column = 0; column < columns; column++) yield [row, column];
}

function outline({ block: { cell } }: Grid, row: number, column: number): string {
  const { width, height } = cell;
  return `M${column * width} ${row * height}h${width}v${height}h-${width}z`;
}

/** A number that fits into its cell. */
export function cellText(value: number): string {
  const [long, short] = [3, 2].map((digits) => general(value, digits).replaceAll("-", "−"));
  return long!.length <= 6 ? long! : short!;
}

/** The matrix itself; the element that is looked at, and what made it, are drawn above it. */
export function MatrixView({ grid, x = 0, y = 0 }: { grid: Grid; x?: number; y?: number }) {
  const { block, numbers, element } = grid;
  const { width, height, cell, inFigures } = block;
  return (
    <g class="matrix" transform={`translate(${x} ${y})`}>
      <rect class="paper" width={width} height={height} />
      {numbers && <Shades grid={grid} numbers={numbers} />}
      <path class="rules" d={rules(block)} />
      {numbers &&
        inFigures &&
        [...places(grid)].map(([row, column]) => {
          const number = numbers[indexAt(grid, row, column)]!;
          return (
            <text
              key={`${row}.${column}`}
              class={`figure ${signOf(number)}`}
              x={(column + 0.5) * cell.width}
              y={(row + 0.5) * cell.height + 4.2}
              text-anchor="middle"
              aria-hidden="true"
              data-number={number}
              {...asIs}
            >
              {cellText(number)}
            </text>
          );
        })}
      {numbers && element && (
        <>
          <Lit grid={grid} />
          <rect
            class="cells"
            width={width}
            height={height}
            onPointerMove={(event) => {
              const seen = event.currentTarget.getBoundingClientRect();
              const part = (at: number, size: number, count: number): number =>
                Math.max(0, Math.min(count - 1, Math.floor((at / size) * count)));
              const row = part(event.clientY - seen.top, seen.height, block.rows);
              const column = part(event.clientX - seen.left, seen.width, block.columns);
              const found = element(indexAt(grid, row, column));
              if (!sameElement(looked.peek(), found)) looked.value = found;
            }}
            onPointerLeave={() => (looked.value = null)}
            onClick={() => stage.select({ kind: "node", node: element(0).node })}
          />
        </>
      )}
    </g>
  );
}

/** Colour by sign, strength by size: all cells of one strength are one path. */
function Shades({ grid, numbers }: { grid: Grid; numbers: readonly number[] }) {
  const { cell, inFigures } = grid.block;
  const sizes = numbers.filter(Number.isFinite).map(Math.abs);
  const largest = Math.max(0, ...sizes) || 1;
  const paths = new Map<string, string>();
  let minus = "";
  for (const [row, column] of places(grid)) {
    const number = numbers[indexAt(grid, row, column)]!;
    const [x, y] = [column * cell.width, row * cell.height];
    const level = Number.isFinite(number)
      ? Math.ceil(Math.sqrt(Math.abs(number) / largest) * levels)
      : levels;
    const key = `${signOf(number)} ${level}`;
    if (level) paths.set(key, (paths.get(key) ?? "") + outline(grid, row, column));
    if (number < 0 && !inFigures && cell.width > 6)
      minus += `M${x + cell.width / 2 - 2.5} ${y + cell.height / 2}h5`;
  }
  return (
    <>
      {[...paths].map(([key, d]) => {
        const [sign, level] = key.split(" ");
        const strength = (Number(level) / levels) * (inFigures ? 0.45 : 0.9);
        return <path key={key} class={`shade ${sign}`} d={d} fill-opacity={strength} />;
      })}
      {minus && <path class="minus" d={minus} />}
    </>
  );
}

/** The element that is looked at, and what made it. */
function Lit({ grid }: { grid: Grid }) {
  const found = { at: "", lit: "" };
  const now = looked.value;
  if (!now) return null;
  for (const [row, column] of places(grid)) {
    const element = grid.element!(indexAt(grid, row, column));
    const d = outline(grid, row, column);
    if (sameElement(now, element)) found.at += d;
    else if (isLit(element)) found.lit += d;
  }
  return (
    <>
      {found.lit && <path class="lit" d={found.lit} data-lit />}
      {found.at && <path class="at" d={found.at} data-at />}
    </>
  );
}

function rules({ rows, columns, cell, width, height }: Block): string {
  const across = Array.from({ length: rows + 1 }, (_, i) => `M0 ${i * cell.height}h${width}`);
  const down = Array.from({ length: columns + 1 }, (_, i) => `M${i * cell.width} 0v${height}`);
  return [...across, ...down].join("");
}

/** The numbers of rows and columns, along the sides of a matrix that begins at x, y. */
export function Sides(props: { shape: Shape; block: Block; x: number; y: number; title?: string }) {
  const { shape, block, x, y, title } = props;
  const last = shape.at(-1);
  const before = rowsText(shape);
  return (
    <>
      {title && (
        <text class="side title" x={x - inside.label + 3} y={y - 5} {...asIs}>
          {title}
        </text>
      )}
      {last !== undefined && (
        <text class="side" x={x + block.width / 2} y={y - 5} text-anchor="middle" {...asIs}>
          {last}
        </text>
      )}
      {before && (
        <text class="side" x={x - 5} y={y + block.height / 2 + 4} text-anchor="end" {...asIs}>
          {before}
        </text>
      )}
    </>
  );
}

/** What is drawn of an array: all of it, or what was kept of a large one. */
export function gridOf(kept: Kept | null | undefined, shape: Shape, shown = true): Grid {
  const block = blockOf(shape);
  if (!kept || !shown) return { block };
  if (block.whole) return { block, numbers: numbersOf(kept) };
  const { thumbnail } = kept;
  if (!thumbnail) return { block };
  const [rows = 1, columns = 1] = [1, ...thumbnail.shape].slice(-2);
  const small = { ...block, rows, columns };
  return { block: { ...small, ...sized(small) }, numbers: thumbnail.elements };
}

const sized = ({ rows, columns, cell }: Block): { width: number; height: number } => ({
  width: columns * cell.width,
  height: rows * cell.height,
});

/** The value of a node and its gradient, in its box. */
export function NodeMatrices({ node }: { node: number }) {
  const { shape } = stage.node(node).metas[0]!;
  const gradient = stage.gradient(node);
  const { side, name, label, between } = inside;
  const y = name + label;
  const parts = [
    ["value", stage.node(node).values[0], stage.isKnown(node)],
    ["gradient", gradient, stage.isComplete(node)],
  ] as const;
  let x = side;
  return (
    <g class="matrices">
      {parts.map(([part, kept, shown]) => {
        if (part === "gradient" && !kept) return null;
        const grid = gridOf(kept, shape, shown);
        if (grid.block.whole) grid.element = (index) => ({ node, part, index });
        const left = x + gutterOf(shape);
        x = left + blockOf(shape).width + between;
        return (
          <g key={part} class={part} data-matrix={`${node}.${part}`}>
            <Sides
              {...{ shape, block: grid.block, x: left, y }}
              title={part === "gradient" ? "∇" : ""}
            />
            <MatrixView grid={grid} x={left} y={y} />
          </g>
        );
      })}
    </g>
  );
}

/** What goes back along a wire, so small that its colours are its message. */
export function WireMatrix({ kept, x, y }: { kept: Kept; x: number; y: number }) {
  const { block, numbers } = gridOf(kept, kept.shape);
  if (!numbers) return null;
  const size = Math.max(2, Math.min(6, 26 / block.rows, 60 / block.columns));
  const small: Block = { ...block, inFigures: false, cell: { width: size, height: size } };
  const all = { ...small, ...sized(small) };
  return <MatrixView grid={{ block: all, numbers }} x={x - all.width} y={y - all.height} />;
}

/** The same array from a node, for where a product is explained. */
export function partGrid(node: number, part: Element["part"], transposed = false): Grid {
  const block = blockOf(stage.node(node).metas[0]!.shape);
  const turned = transposed ? { ...block, rows: block.columns, columns: block.rows } : block;
  return {
    block: { ...turned, ...sized(turned) },
    numbers: numbersAt({ node, part }),
    element: (index) => ({ node, part, index }),
    transposed,
  };
}
