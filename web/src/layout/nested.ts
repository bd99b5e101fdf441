// Where everything stands in a trace whose scopes are open or closed. Every open scope is laid out
// by itself, in columns; one that looks like another (as the blocks of a transformer do) only once.

import { around, type Item, keyOf, type Outline, type Scope } from "../trace/outline";
import { type Arc, layered } from "./layered";
import { bow, round, spread } from "./sheet";

export const box = { width: 150, height: 48 };
const gap = { x: 66, y: 18, port: 26 }; // what is handed back along a wire is written in x
export const frame = { head: 30, side: 12, foot: 14 };

export interface Size {
  width: number;
  height: number;
}

/** How large the box of a node is, where it is not as large as any. */
export type SizeOf = (node: number) => Size;

export interface Spot extends Size {
  x: number;
  y: number;
}

/** A wire on paper; it lies within `spot`, and ends at `to`. */
export interface Run {
  curve: string;
  to: { x: number; y: number };
  spot: Spot;
}

/** One scope on paper: all within its own frame. */
export interface Plan {
  width: number;
  height: number;
  spots: Spot[]; // of its items
  runs: Run[]; // of its wires
  portsIn: number[]; // heights at which they enter at the left, and leave at the right
  portsOut: number[];
  inner: (Plan | undefined)[]; // of the items that are open scopes
  look: number; // the same plan, the same number
}

/** Plans by what they depend on: kept as long as the trace is. */
export type Plans = Map<string, Plan>;

/** The plan of an open scope. */
export function planOf(
  outline: Outline,
  at: number,
  open: ReadonlySet<number>,
  plans: Plans,
  sizeOf?: SizeOf,
): Plan {
  const scope = outline.scopes[at]!;
  const inner = scope.items.map((item) =>
    "scope" in item && open.has(item.scope)
      ? planOf(outline, item.scope, open, plans, sizeOf)
      : undefined,
  );
  const sizes = scope.items.map(
    (item, i): Size => inner[i] ?? ("node" in item ? sizeOf?.(item.node) : undefined) ?? box,
  );
  // What a plan depends on: the wires, the sizes, and the looks of what is open inside.
  const looks = inner.map(
    (plan, i) => plan?.look ?? (sizeOf && [sizes[i]!.width, sizes[i]!.height]),
  );
  const ends = scope.wires.map(({ from, to, portFrom, portTo }) => [from, to, portFrom, portTo]);
  const key = JSON.stringify([at === 0, scope.portsIn.length, looks, ends]);
  const plan = plans.get(key) ?? { ...draw(scope, inner, sizes, at === 0), look: plans.size };
  plans.set(key, plan);
  return plan;
}

function draw(
  scope: Scope,
  inner: Plan["inner"],
  sizes: Size[],
  whole: boolean,
): Omit<Plan, "look"> {
  const before = scope.portsIn.length;
  const after = before + scope.items.length;
  const count = after + scope.portsOut.length;
  const isPort = (i: number): boolean => i < before || i >= after;
  const planAt = (i: number): Plan | undefined => inner[i - before];
  const width = (i: number): number => (isPort(i) ? 0 : sizes[i - before]!.width);
  const height = (i: number): number => (isPort(i) ? 0 : sizes[i - before]!.height);
  const row = box.height + gap.y;
  const numbers = Array.from({ length: count }, (_, i) => i);
  // Calls that overlap in time can use each other's results: such a wire is drawn backwards.
  const arcs = scope.wires.map(({ from, to }): Arc => (from < to ? [from, to] : [to, from]));
  const places = layered(count, arcs, {
    sizes: numbers.map((i) => (isPort(i) ? 0.5 : (height(i) + gap.y) / row)),
    ends: numbers.map((i) => (i < before ? "first" : i >= after ? "last" : undefined)),
  });

  // Columns are as wide as their widest item.
  const widths = new Array<number>(places.width).fill(0);
  for (const i of numbers)
    widths[places.columns[i]!] = Math.max(widths[places.columns[i]!]!, width(i));
  const lefts: number[] = [];
  let x = whole || before ? 0 : frame.side;
  widths.forEach((wide, column) => {
    lefts.push(x);
    x += wide + (widths[column + 1] === 0 ? gap.port : gap.x);
  });
  const lastWide = widths.at(-1) ?? 0;
  const right = x - gap.x + (whole || lastWide === 0 ? 0 : frame.side);
  const top = whole ? 0 : frame.head;
  const middle = (at: number): number => top + at * row + box.height / 2;
  const spots = numbers.map((i): Spot => {
    const [wide, high] = [width(i), height(i)];
    const column = places.columns[i]!;
    const left = lefts[column]! + (i < before ? 0 : (widths[column]! - wide) / 2);
    return { x: left, y: middle(places.rows[i]!) - high / 2, width: wide, height: high };
  });

  // At an open scope a wire arrives where the scope's port is, else where there is room.
  const beyond = (i: number, last: boolean): number => {
    const bend = last ? places.routes[i]!.at(-1) : places.routes[i]![0];
    return bend?.row ?? places.rows[arcs[i]![last ? 0 : 1]]!;
  };
  const arrive = spread(
    arcs,
    ([, to]) => to,
    (i) => beyond(i, true),
    1,
  );
  const leave = spread(
    arcs,
    ([from]) => from,
    (i) => beyond(i, false),
    0.55,
  );
  const end = (i: number, wire: number, out: boolean): { x: number; y: number } => {
    const spot = spots[i]!;
    const plan = planAt(i);
    const { portFrom, portTo } = scope.wires[wire]!;
    const port = out ? plan?.portsOut[portFrom] : plan?.portsIn[portTo];
    const y = spot.y + (port ?? spot.height * (out ? leave : arrive)[wire]!);
    return { x: out ? spot.x + spot.width : spot.x, y };
  };
  const runs = scope.wires.map(({ from, to }, i): Run => {
    const start = end(from, i, true);
    const goal = end(to, i, false);
    let curve = `M${round(start.x)} ${round(start.y)}`;
    let at = start;
    let [highest, lowest] = [Math.min(start.y, goal.y), Math.max(start.y, goal.y)];
    for (const bend of from < to ? places.routes[i]! : []) {
      const y = middle(bend.row);
      const left = lefts[bend.column]!;
      curve += bow(at, { x: left, y }) + `H${round(left + widths[bend.column]!)}`;
      at = { x: left + widths[bend.column]!, y };
      highest = Math.min(highest, y);
      lowest = Math.max(lowest, y);
    }
    const x = Math.min(start.x, goal.x);
    const spot = { x, y: highest, width: Math.abs(goal.x - start.x), height: lowest - highest };
    return { curve: curve + bow(at, goal), to: goal, spot };
  });
  const heights = spots.map((spot) => spot.y + spot.height / 2);
  return {
    width: right,
    height: top + places.height * row - gap.y + (whole ? 0 : frame.foot),
    spots: spots.slice(before, after),
    runs,
    portsIn: heights.slice(0, before),
    portsOut: heights.slice(after),
    inner,
  };
}

// -- what is in sight -----------------------------------------------------------------------------

/** An open scope, and what of it is in sight: items and wires by their numbers. */
export interface Sight {
  scope: number;
  plan: Plan;
  x: number;
  y: number;
  items: number[];
  wires: number[];
  folded: boolean; // drawn as a box: it is too small, or there is no room for what is in it
}

const mostBoxes = 60;
const leastWidth = 90; // on the screen, for what is in a scope to be worth drawing

/** The outermost scopes come first; so few items that a page can hold them all. */
export function inSight(outline: Outline, plan: Plan, region: Spot, zoom: number): Sight[] {
  const found: Sight[] = [];
  const queue = [{ scope: 0, plan, x: 0, y: 0 }];
  let room = mostBoxes;
  for (const { scope, plan: inner, x, y } of queue) {
    const seen = { ...region, x: region.x - x, y: region.y - y };
    const items = numbersOf(inner.spots, (spot) => overlap(spot, seen));
    const folded = scope > 0 && (items.length > room || inner.width * zoom < leastWidth);
    const wires = folded ? [] : numbersOf(inner.runs, (run) => overlap(run.spot, seen));
    found.push({ scope, plan: inner, x, y, items: folded ? [] : items, wires, folded });
    if (folded) continue;
    room -= items.length;
    for (const i of items) {
      const item = outline.scopes[scope]!.items[i]!;
      const open = inner.inner[i];
      const spot = inner.spots[i]!;
      if (open && "scope" in item)
        queue.push({ scope: item.scope, plan: open, x: x + spot.x, y: y + spot.y });
    }
  }
  return found;
}

function numbersOf<T>(list: T[], holds: (one: T) => boolean): number[] {
  return list.flatMap((one, i) => (holds(one) ? [i] : []));
}

function overlap(one: Spot, other: Spot): boolean {
  return (
    one.x <= other.x + other.width &&
    other.x <= one.x + one.width &&
    one.y <= other.y + other.height &&
    other.y <= one.y + one.height
  );
}

/** Where an item stands, all told; undefined if a scope around it is closed. */
export function spotOf(outline: Outline, plan: Plan, item: Item): Spot | undefined {
  let spot: Spot | undefined = { x: 0, y: 0, width: plan.width, height: plan.height };
  let [at, scope]: [Plan | undefined, number] = [plan, 0];
  const way = around(outline, item).map((inner): Item => ({ scope: inner }));
  for (const next of keyOf(item) === keyOf({ scope: 0 }) ? [] : [...way, item]) {
    const i = outline.scopes[scope]!.items.findIndex((one) => keyOf(one) === keyOf(next));
    const found: Spot | undefined = at?.spots[i];
    if (!found) return undefined;
    spot = { ...found, x: spot.x + found.x, y: spot.y + found.y };
    at = at!.inner[i];
    if ("scope" in next) scope = next.scope;
  }
  return spot;
}
