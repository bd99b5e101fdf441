// What an edge does to a gradient, in matrices: the product that fits by shape, the sum that undoes
// a broadcast, and the Jacobian that is never built.

import { edgeJacobian, numbersOf } from "../../state/elements";
import { traceStage as stage } from "../../state/trace";
import { say } from "../../state/words";
import { blockOf, inside, mostSide } from "../../layout/matrix";
import type { Edge } from "../../engine/types";
import {
  countOf,
  sameShape,
  type Shape,
  shapeText,
  type TraceArgument,
} from "../../trace/description";
import { type Grid, MatrixView, partGrid, Sides } from "./matrix";

export function EdgeArithmetic({ edge }: { edge: Edge }) {
  const { op, metas, args } = stage.node(edge.node);
  const found = edgeJacobian(edge);
  if (!found) return null;
  const from = stage.node(edge.source).metas[0]!.shape;
  const to = metas[0]!.shape;
  const went = stage.pushed(edge.node, edge.argument) !== null;
  const product = went && productOf(op, edge, args);
  const fits = went && [from, to].every((shape) => blockOf(shape).whole);
  return (
    <div class="arithmetic" data-arithmetic={`${edge.node}.${edge.argument}`}>
      {product && <Product {...product} edge={edge} />}
      {!product && fits && stretched(from, to) && <Broadcast edge={edge} from={from} to={to} />}
      <JacobianView edge={edge} />
    </div>
  );
}

/** One factor: an array of a node, as it is or transposed. */
interface Factor {
  node: number;
  part: "value" | "gradient";
  transposed: boolean;
}

interface Factors {
  left: Factor;
  top: Factor;
}

/** The two matrices whose product goes back; undefined if it is no plain product. */
function productOf(
  op: string,
  { node, argument }: Edge,
  args: TraceArgument[],
): Factors | undefined {
  const plain = args.every((arg, i) => {
    if (!("node" in arg)) return false;
    const { shape } = stage.node(arg.node).metas[0]!;
    return blockOf(shape).whole && shape.length === (op === "linear" && i === 2 ? 1 : 2);
  });
  if (!plain || !["matmul", "linear"].includes(op) || argument > 1) return undefined;
  const g = (transposed: boolean): Factor => ({ node, part: "gradient", transposed });
  const beside = args[1 - argument] as { node: number };
  const other: Factor = { node: beside.node, part: "value", transposed: false };
  if (op === "linear") return { left: g(argument === 1), top: other };
  const turned = { ...other, transposed: true };
  return argument ? { left: turned, top: g(false) } : { left: g(false), top: turned };
}

const titleOf = ({ node, part, transposed }: Factor): string =>
  `${part === "gradient" ? "∇" : ""}${stage.name(node)}${transposed ? "ᵀ" : ""}`;

/** What goes back along the edge; if nothing else goes there, it is the gradient. */
function arriving({ node, argument, source }: Edge): Grid {
  const grid = partGrid(source, "gradient");
  if (stage.outline.consumers[source]!.length > 1) delete grid.element;
  return { ...grid, numbers: numbersOf(stage.pushed(node, argument)) };
}

const shapeOf = ({ rows, columns }: Grid["block"]): Shape => [rows, columns];

/** The first to the left of the result, the second above it: rows and columns meet in its cells. */
function Product({ left, top, edge }: Factors & { edge: Edge }) {
  const [one, other] = [left, top].map(({ node, part, transposed }) =>
    partGrid(node, part, transposed),
  ) as [Grid, Grid];
  const result = arriving(edge);
  const { label } = inside;
  const gap = 42; // room for a title and a number of columns
  const x = label + one.block.width + gap;
  const y = label + 16 + other.block.height + gap;
  const titles: [string, Grid, number, number][] = [
    [titleOf(left), one, label, y],
    [titleOf(top), other, x, label + 16],
    [`→ ${stage.name(edge.source)}`, result, x, y],
  ];
  const width = x + Math.max(other.block.width, 90) + 6;
  const height = y + result.block.height + 6;
  const name = stage.name(edge.source);
  return (
    <>
      <svg
        viewBox={`0 0 ${width} ${height}`}
        width={width}
        role="img"
        aria-label={titles
          .map(([title, { block }]) => `${title} ${shapeText(shapeOf(block))}`)
          .join(", ")}
      >
        {titles.map(([title, grid, left, above]) => (
          <g key={title}>
            <text class="side title" x={left} y={above - 19}>
              {title}
            </text>
            <Sides shape={shapeOf(grid.block)} block={grid.block} x={left} y={above} />
            <MatrixView grid={grid} x={left} y={above} />
          </g>
        ))}
      </svg>
      <p class="hint">
        {say("trace.aligned", {
          rows: one.block.rows,
          inner: one.block.columns,
          columns: other.block.columns,
          name,
        })}
      </p>
    </>
  );
}

const stretched = (from: Shape, to: Shape): boolean =>
  !sameShape(from, to) && countOf(from) < countOf(to);

/** What came back to the output, and its sum over the repeats. */
function Broadcast({ edge, from, to }: { edge: Edge; from: Shape; to: Shape }) {
  const [g, result] = [partGrid(edge.node, "gradient"), arriving(edge)];
  const { label } = inside;
  const y = label + 16;
  const x = label + g.block.width + 62;
  const height = y + Math.max(g.block.height, result.block.height) + 6;
  const width = x + Math.max(result.block.width, 70) + 6;
  return (
    <>
      <svg viewBox={`0 0 ${width} ${height}`} width={width} role="img" aria-label="Σ">
        <text class="side title" x={label} y={14}>
          ∇{stage.name(edge.node)}
        </text>
        <Sides shape={to} block={g.block} x={label} y={y} />
        <MatrixView grid={g} x={label} y={y} />
        <text class="side title" x={x - 38} y={y + 16}>
          Σ →
        </text>
        <text class="side title" x={x} y={14}>
          → {stage.name(edge.source)}
        </text>
        <Sides shape={from} block={result.block} x={x} y={y} />
        <MatrixView grid={result} x={x} y={y} />
      </svg>
      <p class="hint">
        {say("trace.broadcastBack", { from: stage.name(edge.source), to: shapeText(to) })}
      </p>
    </>
  );
}

/** Rows are elements of the output, columns those of the input; zeros are dots. */
function JacobianView({ edge }: { edge: Edge }) {
  const found = edgeJacobian(edge)!;
  const rows = countOf(stage.node(edge.node).metas[0]!.shape);
  const columns = found.length;
  if (rows > mostSide || columns > mostSide || rows * columns < 2) return null;
  const numbers = new Array<number>(rows * columns).fill(0);
  found.forEach((entries, column) =>
    entries.forEach(({ out, factor }) => (numbers[out * columns + column]! += factor)),
  );
  const zeros = numbers.filter((number) => number === 0).length;
  const block = blockOf([rows, columns]);
  const { label } = inside;
  const [width, height] = [label + block.width + 6, label + block.height + 6];
  const [from, to] = [stage.name(edge.source), stage.name(edge.node)];
  return (
    <details data-jacobian>
      <summary>{say("trace.jacobian", { from, to })}</summary>
      <svg
        viewBox={`0 0 ${width} ${height}`}
        width={width}
        role="img"
        aria-label={say("trace.jacobian", { from, to })}
        data-numbers={numbers.join(" ")}
      >
        <Sides shape={[rows, columns]} block={block} x={label} y={label} />
        <MatrixView grid={{ block, numbers }} x={label} y={label} />
      </svg>
      <p class="hint">{say("trace.jacobianAbout", { rows, columns, zeros })}</p>
    </details>
  );
}
