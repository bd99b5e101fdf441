// The largest paths from the root, kept node by node: there may be 2⁶⁰ of them, but what an input
// can make of a way to its consumer depends on the way's product alone, so k ways are enough.

import type { Edge, Path } from "./types";

/** A way from the root down: the product so far, and what it goes on from. */
export interface Way {
  product: number;
  power: number; // product × 2^power, so that long chains neither vanish nor overflow
  size: number; // for comparing: the logarithm of the size
  edge: Edge | null; // the last edge; null at the root
  before: Way | null;
  next: Map<Edge, Way>; // made once: the same path is the same object
}

export const rootWay = (): Way => ({
  product: 1,
  power: 0,
  size: 0,
  edge: null,
  before: null,
  next: new Map(),
});

const FAR = 2 ** 400;

/** A way, one edge longer. */
export function longer(way: Way, edge: Edge, local: number): Way {
  const known = way.next.get(edge);
  if (known) return known;
  let product = way.product * local;
  let power = way.power;
  const size = Math.abs(product);
  if (size > FAR) [product, power] = [product / FAR, power + 400];
  else if (size && size < 1 / FAR) [product, power] = [product * FAR, power - 400];
  // NaN first: it must be seen.
  const rank = product !== product ? Infinity : Math.log2(Math.abs(product)) + power;
  const made = { product, power, size: rank, edge, before: way, next: new Map() };
  way.next.set(edge, made);
  return made;
}

/** Two lists of ways in one: the largest first, at most `count`, none twice. */
export function merged(one: Way[], other: Way[], count: number): Way[] {
  if (!one.length) return other.length > count ? other.slice(0, count) : other;
  const found: Way[] = [];
  const seen = new Set<Way>();
  let i = 0;
  let j = 0;
  while (found.length < count && (i < one.length || j < other.length)) {
    const first = j >= other.length || (i < one.length && one[i]!.size >= other[j]!.size);
    const way = first ? one[i++]! : other[j++]!;
    if (!seen.has(way)) found.push(way);
    seen.add(way);
  }
  return found;
}

/** A way written out. */
export function pathOfWay(way: Way, locals: number[][]): Path {
  const edges: Edge[] = [];
  for (let at: Way | null = way; at?.edge; at = at.before) edges.push(at.edge);
  edges.reverse();
  const factors = edges.map((edge) => locals[edge.node]![edge.argument]!);
  return { edges, factors, product: scaled(way) };
}

/** The product itself. */
function scaled({ product, power }: Way): number {
  let found = product;
  for (let left = power; left && found && Number.isFinite(found);) {
    const part = Math.max(-400, Math.min(400, left));
    found *= 2 ** part;
    left -= part;
  }
  return found;
}
