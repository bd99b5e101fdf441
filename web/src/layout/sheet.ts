// A small graph on paper: boxes, and edges as curves with places for the text on them.

import { edgeListsOf } from "../engine/graph";
import type { Edge, Graph } from "../engine/types";
import { type Arc, layered } from "./layered";

export interface Box {
  node: number;
  x: number; // upper left corner
  y: number;
}

export interface Line {
  edge: Edge;
  curve: string; // of an SVG path, from the input to the consumer
  from: { x: number; y: number };
  to: { x: number; y: number };
  // On which side of its end a text stands clear of the edges beside it.
  textAtFrom: "above" | "below";
  textAtTo: "above" | "below";
  crowded: boolean; // more edges leave the input than texts have room
}

export interface Sheet {
  boxes: Box[];
  lines: Line[];
  boxWidth: number;
  boxHeight: number;
  width: number;
  height: number;
}

export interface Measures {
  boxWidth: number;
  boxHeight: number;
  gap: number; // between columns: the text on edges stands there
  down: number; // between rows
}

const mostTexts = 3;

export function sheetOf(graph: Graph, measures: Measures): Sheet {
  const { boxWidth, boxHeight, gap, down } = measures;
  const edges = edgeListsOf(graph).flat();
  const arcs = edges.map((edge): Arc => [edge.source, edge.node]);
  const places = layered(graph.nodes.length, arcs);
  const x = (column: number): number => column * (boxWidth + gap);
  const y = (row: number): number => row * (boxHeight + down);
  const boxes = graph.nodes.map((_, node) => ({
    node,
    x: x(places.columns[node]!),
    y: y(places.rows[node]!),
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
    1,
  );
  const leave = spread(
    edges,
    (e) => e.source,
    (i) => beyond(i, false),
    0.55,
  );
  const uses = graph.nodes.map(() => 0);
  for (const edge of edges) uses[edge.source]! += 1;
  const lines = edges.map((edge, i): Line => {
    const from = {
      x: boxes[edge.source]!.x + boxWidth,
      y: boxes[edge.source]!.y + boxHeight * leave[i]!,
    };
    const to = { x: boxes[edge.node]!.x, y: boxes[edge.node]!.y + boxHeight * arrive[i]! };
    let curve = `M${round(from.x)} ${round(from.y)}`;
    let at = from;
    for (const bend of places.routes[i]!) {
      const reached = { x: x(bend.column), y: y(bend.row) + boxHeight / 2 };
      curve += bow(at, reached) + `H${round(reached.x + boxWidth)}`;
      at = { x: reached.x + boxWidth, y: reached.y };
    }
    return {
      edge,
      curve: curve + bow(at, to),
      from,
      to,
      textAtFrom: leave[i]! < 0.5 ? "above" : "below",
      textAtTo: arrive[i]! > 0.5 ? "below" : "above",
      crowded: uses[edge.source]! > mostTexts,
    };
  });
  return {
    boxes,
    lines,
    boxWidth,
    boxHeight,
    width: Math.max(1, places.width) * (boxWidth + gap) - gap,
    height: Math.max(1, places.height) * (boxHeight + down) - down,
  };
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

export function bow(from: { x: number; y: number }, to: { x: number; y: number }): string {
  const half = (to.x - from.x) / 2;
  return (
    `C${round(from.x + half)} ${round(from.y)} ${round(to.x - half)} ${round(to.y)} ` +
    `${round(to.x)} ${round(to.y)}`
  );
}

export function round(number: number): number {
  return Math.round(number * 10) / 10;
}
