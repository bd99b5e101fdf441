// What one edge does: the consumer's value as a function of this one operand, the others held. Value
// and slope come from the op's own functions, so that they are Python's.

import { operandValue } from "./graph";
import { attributesOf, opOf } from "./ops";
import type { Computed, Edge } from "./types";

export interface OperandCurve {
  at: number; // the operand's value in the graph
  value: (x: number) => number;
  slope: (x: number) => number;
}

export function operandCurve({ graph, values }: Computed, edge: Edge): OperandCurve {
  const node = graph.nodes[edge.node]!;
  const op = opOf(node);
  const operands = node.args.map((operand) => operandValue(operand, values));
  const attributes = op ? attributesOf(op, node.attrs) : [];
  const moved = (x: number): number[] => operands.with(edge.argument, x);
  const value = (x: number): number => op?.value(...moved(x), ...attributes) ?? NaN;
  const pull = op?.pulls[edge.argument];
  return {
    at: operands[edge.argument]!,
    value,
    slope: (x) => pull?.(1, value(x), ...moved(x), ...attributes) ?? 0,
  };
}

/** Value and slope at some places. */
export const curveAt = (numbers: Computed, edge: Edge, places: number[]): [number, number][] => {
  const { value, slope } = operandCurve(numbers, edge);
  return places.map((x) => [value(x), slope(x)]);
};

export interface Frame {
  left: number;
  right: number;
  low: number;
  high: number;
}

const samples = 240;

/** A part of the plane in which the curve, the point and 0 are seen. */
export function frameOf({ value, at }: OperandCurve): Frame {
  const middle = Number.isFinite(at) ? at : 0;
  const room = Math.max(1.6, Math.abs(middle) * 0.6);
  const left = Math.min(middle, 0) - room;
  const right = Math.max(middle, 0) + room;
  const heights = pointsOf(value, left, right)
    .flat()
    .map(([, y]) => y)
    .sort((one, other) => one - other);
  // Near a pole the curve leaves the frame.
  const part = (of: number): number => heights[Math.floor(of * (heights.length - 1))] ?? 0;
  const here = Number.isFinite(value(middle)) ? value(middle) : 0;
  const [low, high] = [Math.min(part(0.04), here, 0), Math.max(part(0.96), here, 0)];
  const pad = Math.max((high - low) * 0.12, 1e-9 * Math.abs(here), high === low ? 1 : 0);
  return { left, right, low: low - pad, high: high + pad };
}

/** The curve as lines of points: where it has no value, one ends. */
export function pointsOf(
  value: (x: number) => number,
  left: number,
  right: number,
): [x: number, y: number][][] {
  const lines: [number, number][][] = [[]];
  for (let i = 0; i <= samples; i++) {
    const x = left + ((right - left) * i) / samples;
    const y = value(x);
    if (Number.isFinite(y)) lines.at(-1)!.push([x, y]);
    else if (lines.at(-1)!.length) lines.push([]);
  }
  return lines.filter((line) => line.length > 1);
}

/** Round numbers between two: at most about `count`. */
export function ticks(from: number, to: number, count: number): number[] {
  const rough = (to - from) / count;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((n) => n * power).find((size) => size >= rough) ?? rough;
  const first = Math.ceil(from / step);
  const last = Math.floor(to / step);
  if (!(last - first < 100)) return [];
  return Array.from({ length: last - first + 1 }, (_, i) => Number(((first + i) * step).toPrecision(12)));
}
