// A small graph on paper: boxes, and edges as curves with places for the text on them.

import { edgeListsOf } from "../engine/graph";
import type { Edge, Graph } from "../engine/types";
import { placed, type Placed, type Point, type Rect } from "./labels";
import { type Arc, layered } from "./layered";

export interface Box {
  node: number;
  x: number; // upper left corner
  y: number;
}

export interface Line {
  edge: Edge;
  curve: string; // of an SVG path, from the input to the consumer
  points: Point[]; // the same as short straight pieces
  from: Point;
  to: Point;
  local: Placed; // where its texts stand: the local derivative, and what is handed back
  pushed: Placed;
}

export interface Sheet {
  boxes: Box[];
  lines: Line[];
  boxWidth: number;
  boxHeight: number;
  width: number;
  height: number;
  down: boolean;
}

/** What stands on an edge: widths of its two texts, and of its line. */
export interface Written {
  local: number;
  pushed: number;
  stroke: number;
}

export interface Measures {
  boxWidth: number;
  boxHeight: number;
  gap: number; // the least between columns: the text on edges stands there,
  mostGap?: number; // and makes it wider, column by column, up to this
  rows: number; // between boxes in a column
  down: boolean; // inputs above and the root below, else left and right
  textHeight: number;
}

const beside = 24; // a gap is wider than its texts, for the bends of its edges
const wider = 1.15; // a gap grows by this factor for the texts in it to stand clear,
const mostTimes = 4; // so often at most
const mostTexts = 900; // beyond, they stand where they do: nobody can read them all

export function sheetOf(
  graph: Graph,
  measures: Measures,
  written: (edge: Edge) => Written,
): Sheet {
  const edges = edgeListsOf(graph).flat();
  const places = layered(
    graph.nodes.length,
    edges.map((edge): Arc => [edge.source, edge.node]),
  );
  const texts = edges.map(written);
  // The local derivative stands in the gap before its consumer, what is handed back in the one
  // after its source.
  const before = (edge: Edge): number => places.columns[edge.node]! - 1;
  const after = (edge: Edge): number => places.columns[edge.source]!;
  const { gap, mostGap = gap } = measures;
  const gaps = new Array<number>(Math.max(0, places.width - 1)).fill(gap);
  edges.forEach((edge, i) => {
    const widen = (at: number, text: number): void => {
      gaps[at] = Math.max(gaps[at]!, Math.min(mostGap, beside + text));
    };
    widen(before(edge), texts[i]!.local);
    widen(after(edge), texts[i]!.pushed);
  });
  let sheet = drawn(graph, edges, places, gaps, measures, texts);
  if (edges.length * 2 > mostTexts) return sheet;
  let [best, fewest] = [sheet, unclear(sheet)];
  for (let times = 0; fewest && times < mostTimes; times++) {
    const crowded = new Set<number>();
    for (const { edge, local, pushed } of sheet.lines) {
      if (!local.clear) crowded.add(before(edge));
      if (!pushed.clear) crowded.add(after(edge));
    }
    for (const at of crowded) gaps[at]! *= wider;
    sheet = drawn(graph, edges, places, gaps, measures, texts);
    const found = unclear(sheet);
    if (found < fewest) [best, fewest] = [sheet, found];
  }
  return best;
}

const unclear = ({ lines }: Sheet): number =>
  lines.reduce((sum, { local, pushed }) => sum + +!local.clear + +!pushed.clear, 0);

function drawn(
  graph: Graph,
  edges: Edge[],
  places: ReturnType<typeof layered>,
  gaps: readonly number[],
  measures: Measures,
  texts: Written[],
): Sheet {
  const { boxWidth, boxHeight, rows, down, textHeight } = measures;
  const [along, across] = down ? [boxHeight, boxWidth] : [boxWidth, boxHeight];
  const starts = [0];
  for (const gap of gaps) starts.push(Math.round(starts.at(-1)! + along + gap));
  const main = (column: number): number => starts[column]!;
  const cross = (row: number): number => row * (across + rows);
  const point = (a: number, b: number): Point => (down ? { x: b, y: a } : { x: a, y: b });
  const boxes = graph.nodes.map((_, node) => ({
    node,
    ...point(main(places.columns[node]!), cross(places.rows[node]!)),
  }));
  // Where an edge comes from and goes to, next to the node at its other end: so that edges do not
  // cross beside a node, and a × a has two curves.
  const beyond = (i: number, last: boolean): number => {
    const bend = last ? places.routes[i]!.at(-1) : places.routes[i]![0];
    return bend?.row ?? places.rows[last ? edges[i]!.source : edges[i]!.node]!;
  };
  const arrive = spread(
    edges,
    (e) => e.node,
    (i) => beyond(i, true),
    down ? 0.8 : 1,
  );
  const leave = spread(
    edges,
    (e) => e.source,
    (i) => beyond(i, false),
    0.62,
  );
  const paths = edges.map((edge, i) => {
    const start = main(places.columns[edge.source]!) + along;
    const from = point(start, cross(places.rows[edge.source]!) + across * leave[i]!);
    const stop = main(places.columns[edge.node]!);
    const to = point(stop, cross(places.rows[edge.node]!) + across * arrive[i]!);
    const path = new Path(from, down);
    for (const bend of places.routes[i]!) {
      const side = cross(bend.row) + across / 2;
      path.bow(point(main(bend.column), side));
      path.straight(point(main(bend.column) + along, side));
    }
    path.bow(to);
    return { from, to, path };
  });
  const solid: Rect[] = boxes.map(({ x, y }) => ({ x, y, width: boxWidth, height: boxHeight }));
  const curves = paths.map(({ path }, i) => ({ points: path.points, stroke: texts[i]!.stroke }));
  // The middle of an edge at a box lies above or below the box's: so does its text.
  const found = placed(
    edges.flatMap((_, line) => [
      {
        line,
        end: "to" as const,
        width: texts[line]!.local,
        height: textHeight,
        side: arrive[line]! > 0.5 ? 1 : (-1 as const),
      },
      {
        line,
        end: "from" as const,
        width: texts[line]!.pushed,
        height: textHeight,
        side: leave[line]! < 0.5 ? -1 : (1 as const),
      },
    ]),
    curves,
    solid,
    down,
  );
  const size = point(
    starts.at(-1)! + along,
    Math.max(1, places.height) * (across + rows) - rows,
  );
  return {
    boxes,
    lines: edges.map((edge, i) => ({
      edge,
      curve: paths[i]!.path.text,
      points: paths[i]!.path.points,
      from: paths[i]!.from,
      to: paths[i]!.to,
      local: found[2 * i]!,
      pushed: found[2 * i + 1]!,
    })),
    boxWidth,
    boxHeight,
    width: size.x,
    height: size.y,
    down,
  };
}

const pieces = 14; // of a curve

/** A path as SVG has it, and as points. */
class Path {
  text: string;
  readonly points: Point[];

  constructor(
    start: Point,
    private readonly down: boolean,
  ) {
    this.text = `M${round(start.x)} ${round(start.y)}`;
    this.points = [start];
  }

  bow(to: Point): void {
    const from = this.points.at(-1)!;
    const half = this.down ? (to.y - from.y) / 2 : (to.x - from.x) / 2;
    const one = this.down ? { x: from.x, y: from.y + half } : { x: from.x + half, y: from.y };
    const other = this.down ? { x: to.x, y: to.y - half } : { x: to.x - half, y: to.y };
    this.text += cubic(one, other, to);
    for (let i = 1; i <= pieces; i++) {
      const t = i / pieces;
      const s = 1 - t;
      const at = (key: "x" | "y"): number =>
        s * s * s * from[key] + 3 * s * s * t * one[key] + 3 * s * t * t * other[key] +
        t * t * t * to[key];
      this.points.push({ x: at("x"), y: at("y") });
    }
  }

  straight(to: Point): void {
    this.text += `L${round(to.x)} ${round(to.y)}`;
    this.points.push(to);
  }
}

/** The point so far along a line of points, from 0 to 1. */
export function pointOn(points: readonly Point[], part: number): Point {
  const lengths = points.slice(1).map((p, i) => Math.hypot(p.x - points[i]!.x, p.y - points[i]!.y));
  let left = lengths.reduce((sum, length) => sum + length, 0) * Math.max(0, Math.min(1, part));
  for (let i = 0; i < lengths.length; i++) {
    const length = lengths[i]!;
    if (left > length && i + 1 < lengths.length) {
      left -= length;
      continue;
    }
    const [one, other] = [points[i]!, points[i + 1]!];
    const t = length ? left / length : 0;
    return { x: one.x + t * (other.x - one.x), y: one.y + t * (other.y - one.y) };
  }
  return points[0]!;
}

/** For every edge a height between 0 and 1 on the side of a box, in the order of `key`. */
export function spread<E>(
  edges: readonly E[],
  end: (edge: E) => number,
  key: (index: number) => number,
  part: number, // of the side that is used
): number[] {
  const found = new Array<number>(edges.length).fill(0.5);
  const together = new Map<number, number[]>();
  edges.forEach((edge, i) => {
    const list = together.get(end(edge)) ?? [];
    list.push(i);
    together.set(end(edge), list);
  });
  for (const list of together.values()) {
    list.sort((a, b) => key(a) - key(b)); // of two to the same place the first is above
    list.forEach((i, place) => {
      found[i] = 0.5 + part * ((place + 1) / (list.length + 1) - 0.5);
    });
  }
  return found;
}

/** A curve to a place on the right. */
export function bow(from: Point, to: Point): string {
  const half = (to.x - from.x) / 2;
  return cubic({ x: from.x + half, y: from.y }, { x: to.x - half, y: to.y }, to);
}

const cubic = (one: Point, other: Point, to: Point): string =>
  `C${[one, other, to].map(({ x, y }) => `${round(x)} ${round(y)}`).join(" ")}`;

export function round(number: number): number {
  return Math.round(number * 10) / 10;
}
