// Where nodes stand: in columns, inputs left and the root right. The same four steps as
// printers/graphs/layout.py, in time about linear in what is drawn:
//
// 1. a column for every node, right of its inputs and close to its consumers;
// 2. a bend in every column that a long edge crosses, so that edges do not run behind nodes;
// 3. an order within each column that keeps crossings few;
// 4. heights: as near to the neighbours as the order and the distances allow, by least squares.

export type Arc = readonly [from: number, to: number];

/** Columns and rows; a row is one node high, and rows need not be whole numbers. */
export interface Layout {
  columns: number[];
  rows: number[];
  routes: { column: number; row: number }[][]; // for each arc its bends
  width: number; // columns
  height: number; // rows
}

/** What is not as usual: nodes of another height (in rows), and those at the very left or right. */
export interface Unusual {
  sizes?: readonly number[];
  ends?: readonly ("first" | "last" | undefined)[];
}

/** Nodes and bends alike. */
interface Places {
  column: number[];
  before: number[][];
  after: number[][];
  columns: number[][];
  row: number[];
  weight: number[];
  size: number[];
  nodes: number;
}

const sweeps = 8;
const mostBends = 20_000; // beyond this long edges are drawn straight
const bendRoom = 0.35; // in rows
const aside = 0.05; // a leaf with one use makes way, so that the main line is straight

/** Place `count` nodes, numbered so that every arc goes from a smaller to a larger number. */
export function layered(count: number, arcs: readonly Arc[], unusual: Unusual = {}): Layout {
  const column = columnsOf(count, arcs, unusual.ends ?? []);
  const { places, chains } = withBends(count, arcs, column);
  places.size = places.column.map((_, i) => (i < count ? (unusual.sizes?.[i] ?? 1) : bendRoom));
  order(places);
  heights(places, unusual.ends ?? []);
  const beyond = (i: number): number => (i < count ? (places.size[i]! - 1) / 2 : 0);
  const top = least(places.row.map((row, i) => row - beyond(i)));
  const rows = places.row.map((row) => row - top);
  return {
    columns: column,
    rows: rows.slice(0, count),
    routes: chains.map((chain) =>
      chain.map((bend) => ({ column: places.column[bend]!, row: rows[bend]! })),
    ),
    width: 1 + column.reduce((most, c) => Math.max(most, c), -1),
    height: 1 + rows.reduce((most, r, i) => Math.max(most, r + beyond(i)), -1),
  };
}

function least(numbers: number[]): number {
  return numbers.length ? numbers.reduce((a, b) => Math.min(a, b)) : 0;
}

function lists(count: number): number[][] {
  return Array.from({ length: count }, () => []);
}

function columnsOf(
  count: number,
  arcs: readonly Arc[],
  ends: NonNullable<Unusual["ends"]>,
): number[] {
  const before = lists(count);
  const after = lists(count);
  for (const [source, target] of arcs) {
    before[target]!.push(source);
    after[source]!.push(target);
  }
  const column = new Array<number>(count).fill(0);
  const inner = ends.includes("first");
  for (let node = 0; node < count; node++) {
    const start = inner && ends[node] !== "first" ? 1 : 0;
    column[node] = before[node]!.reduce((most, i) => Math.max(most, column[i]! + 1), start);
  }
  const last =
    1 + column.reduce((most, c, node) => (ends[node] === "last" ? most : Math.max(most, c)), 0);
  ends.forEach((end, node) => {
    if (end === "last") column[node] = last;
  });
  // A node moves towards its first consumer if that makes edges no longer on the whole. What only
  // it reads moves along with it, and so does not count.
  for (let node = count - 1; node >= 0; node--) {
    const consumers = after[node]!;
    const held = before[node]!.filter((i) => after[i]!.length > 1).length;
    if (consumers.length && held <= consumers.length && !ends[node]) {
      column[node] = least(consumers.map((c) => column[c]!)) - 1;
    }
  }
  const first = least(column);
  return column.map((c) => c - first);
}

/** Edges of one node share their bends, except two that go to the same node. */
function withBends(count: number, arcs: readonly Arc[], column: number[]) {
  const places: Places = {
    column: column.slice(),
    before: lists(count),
    after: lists(count),
    columns: [],
    row: [],
    weight: [],
    size: [],
    nodes: count,
  };
  const join = (one: number, other: number): void => {
    places.after[one]!.push(other);
    places.before[other]!.push(one);
  };
  const shared = new Map<string, number[]>();
  const seen = new Map<string, number>();
  const chains: number[][] = [];
  let total = 0;
  for (const [source, target] of arcs) {
    const again = seen.get(`${source}>${target}`) ?? 0;
    seen.set(`${source}>${target}`, again + 1);
    const key = `${source}#${again}`;
    const chain = shared.get(key) ?? [];
    shared.set(key, chain);
    const needed = column[target]! - column[source]! - 1;
    if (total + needed - chain.length > mostBends) {
      chains.push([]);
      continue;
    }
    while (chain.length < needed) {
      const bend = places.column.length;
      places.column.push(column[source]! + 1 + chain.length);
      places.before.push([]);
      places.after.push([]);
      join(chain.at(-1) ?? source, bend);
      chain.push(bend);
      total++;
    }
    const route = chain.slice(0, needed);
    join(route.at(-1) ?? source, target);
    chains.push(route);
  }
  return { places, chains };
}

// -- order within a column ----------------------------------------------------------------------

function order(places: Places): void {
  const width = 1 + places.column.reduce((most, c) => Math.max(most, c), -1);
  places.columns = lists(width);
  for (const place of depthFirst(places)) places.columns[places.column[place]!]!.push(place);
  let best = places.columns.map((column) => column.slice());
  let fewest = crossings(places);
  for (let sweep = 0; sweep < sweeps && fewest; sweep++) {
    const rightwards = sweep % 2 === 0;
    const index = indices(places);
    const neighbours = rightwards ? places.before : places.after;
    for (let at = 0; at < width; at++) {
      const column = places.columns[rightwards ? at : width - 1 - at]!;
      const middle = new Map(
        column.map((place, i) => {
          const beside = neighbours[place]!;
          const sum = beside.reduce((total, n) => total + index[n]!, 0);
          return [place, beside.length ? sum / beside.length : i];
        }),
      );
      column.sort((a, b) => middle.get(a)! - middle.get(b)!); // equal ones keep their order
      column.forEach((place, i) => (index[place] = i));
    }
    const found = crossings(places);
    if (found < fewest) {
      best = places.columns.map((column) => column.slice());
      fewest = found;
    }
  }
  places.columns = best;
}

function indices(places: Places): number[] {
  const index = new Array<number>(places.column.length).fill(0);
  for (const column of places.columns) column.forEach((place, i) => (index[place] = i));
  return index;
}

/** From the roots through the operands in order: a tree comes out uncrossed. */
function depthFirst(places: Places): number[] {
  const seen = new Array<boolean>(places.column.length).fill(false);
  const found: number[] = [];
  const stack = places.after.flatMap((after, place) => (after.length ? [] : [place]));
  while (stack.length) {
    const place = stack.pop()!;
    if (seen[place]) continue;
    seen[place] = true;
    found.push(place);
    const inputs = places.before[place]!;
    for (let i = inputs.length - 1; i >= 0; i--) if (!seen[inputs[i]!]) stack.push(inputs[i]!);
  }
  return found;
}

/** Pairs of edges that cross, by counting inversions column by column. */
function crossings(places: Places): number {
  const index = indices(places);
  let total = 0;
  for (let at = 0; at + 1 < places.columns.length; at++) {
    const ends = places.columns[at]!.flatMap((place) =>
      places.after[place]!.filter((target) => places.column[target] === at + 1)
        .map((target) => index[target]!)
        .sort((a, b) => a - b),
    );
    total += inversions(ends, places.columns[at + 1]!.length);
  }
  return total;
}

function inversions(ends: number[], size: number): number {
  const counts = new Array<number>(size + 1).fill(0);
  let total = 0;
  ends.forEach((end, seen) => {
    let before = 0;
    for (let at = end + 1; at; at &= at - 1) before += counts[at]!;
    total += seen - before;
    for (let at = end + 1; at <= size; at += at & -at) counts[at]!++;
  });
  return total;
}

// -- heights ------------------------------------------------------------------------------------

function heights(places: Places, ends: NonNullable<Unusual["ends"]>): void {
  places.row = new Array<number>(places.column.length).fill(0);
  places.weight = places.column.map((_, place) => {
    if (place >= places.nodes) return 2; // a bend in a line shows most
    const single = !places.before[place]!.length && places.after[place]!.length < 2;
    return single && !ends[place] ? aside : 1;
  });
  for (const column of places.columns) {
    let row = 0;
    column.forEach((place, i) => {
      if (i) row += gap(places, column[i - 1]!, place);
      places.row[place] = row;
    });
  }
  const width = places.columns.length;
  for (let sweep = 0; sweep < sweeps - 1; sweep++) {
    // The last one goes right: a node stands amid its inputs.
    const rightwards = sweep % 2 === 0;
    for (let at = 0; at < width; at++) {
      settle(places, places.columns[rightwards ? at : width - 1 - at]!, rightwards);
    }
  }
}

/** The least distance of two neighbours in a column. */
function gap(places: Places, one: number, other: number): number {
  return (places.size[one]! + places.size[other]!) / 2;
}

/**
 * Move a column to where its neighbours are, in its order, no closer than allowed. With the least
 * distances taken off, the wanted rows must only not decrease; the nearest such rows are found by
 * joining neighbours that are out of order into blocks at their mean.
 */
function settle(places: Places, column: number[], rightwards: boolean): void {
  const blocks: { weight: number; total: number; size: number }[] = [];
  const offsets: number[] = [];
  let offset = 0;
  column.forEach((place, i) => {
    if (i) offset += gap(places, column[i - 1]!, place);
    offsets.push(offset);
    const [here, there] = rightwards
      ? [places.before[place]!, places.after[place]!]
      : [places.after[place]!, places.before[place]!];
    const beside = here.length ? here : there;
    const weights = beside.reduce((sum, n) => sum + places.weight[n]!, 0);
    const rows = beside.reduce((sum, n) => sum + places.weight[n]! * places.row[n]!, 0);
    const wanted = beside.length ? rows / weights : places.row[place]!;
    const weight = places.weight[place]!;
    blocks.push({ weight, total: weight * (wanted - offset), size: 1 });
    for (;;) {
      const last = blocks.at(-1)!;
      const above = blocks.at(-2);
      if (!above || above.total * last.weight <= last.total * above.weight) break;
      blocks.pop();
      above.weight += last.weight;
      above.total += last.total;
      above.size += last.size;
    }
  });
  let at = 0;
  for (const { weight, total, size } of blocks) {
    for (let i = 0; i < size; i++, at++) places.row[column[at]!] = total / weight + offsets[at]!;
  }
}
