// Where the texts on edges stand: beside their own edge, clear of the other edges, the boxes and
// each other. Each text tries places from its preferred one outwards and takes the cheapest.

export interface Point {
  x: number;
  y: number;
}

export interface Rect extends Point {
  width: number;
  height: number;
}

/** A text to be placed: at one end of an edge, on the preferred side of it if there is room. */
export interface Wanted {
  line: number; // the edge, by its number in the list of curves
  end: "from" | "to";
  width: number;
  height: number;
  side: -1 | 1; // above or left, below or right
}

export interface Placed extends Rect {
  clear: boolean; // touches nothing
}

/** A curve as many short straight pieces, and how wide it is drawn. */
export interface Drawn {
  points: Point[];
  stroke: number;
}

const steps = [10, 6, 18, 28, 40, 54, 70, 88, 108, 130, 160, 200, 250]; // from the end of the edge
const beyond = [0, 5, 11, 18]; // from the edge, besides the least distance
const least = 3.5; // between a text and an edge
const apart = 6; // between two texts in a row
const prices = { edge: 60, box: 400, text: 400, side: 4, step: 0.2, away: 0.7 };
const cell = 64; // things are looked up by where they are:
const cellsHigh = 1 << 20; // a drawing has fewer in a column

/** `down`: edges go down, and texts stand left and right of them. */
export function placed(
  wanted: readonly Wanted[],
  curves: readonly Drawn[],
  boxes: readonly Rect[],
  down: boolean,
): Placed[] {
  const pieces = new Grid<Piece>();
  curves.forEach(({ points, stroke }, line) => {
    for (let i = 1; i < points.length; i++) {
      const piece = { line, one: points[i - 1]!, other: points[i]!, half: stroke / 2 + 1.5 };
      pieces.add(around(piece), piece);
    }
  });
  const solid = new Grid<Rect>();
  for (const box of boxes) solid.add(box, box);
  const texts = new Grid<Rect>();

  /** What it costs to stand there; more than `most` need not be known exactly. */
  const price = (spot: Rect, most: number): number => {
    let sum = 0;
    texts.each(spot, (text) => {
      if (overlap(spot, text)) sum += prices.text;
      return sum < most;
    });
    solid.each(spot, (box) => {
      if (overlap(spot, box)) sum += prices.box;
      return sum < most;
    });
    const edges = new Set<number>();
    pieces.each(spot, (piece) => {
      if (!edges.has(piece.line) && touches(spot, piece)) {
        edges.add(piece.line);
        sum += prices.edge;
      }
      return sum < most;
    });
    return sum;
  };

  return wanted.map((text) => {
    let best: Placed = { x: 0, y: 0, width: text.width, height: text.height, clear: false };
    let lowest = Infinity;
    for (const step of steps) {
      for (const side of [text.side, -text.side as -1 | 1]) {
        for (const more of beyond) {
          const liking =
            prices.step * step + (side === text.side ? 0 : prices.side) + prices.away * more;
          if (liking >= lowest) continue;
          const spot = beside(curves[text.line]!, text, step, side, more, down);
          if (!spot) continue;
          const wish = liking + prices.away * spot.away;
          const cost = price(spot.rect, lowest - wish);
          if (cost + wish >= lowest) continue;
          lowest = cost + wish;
          best = { ...spot.rect, clear: cost < prices.edge };
        }
      }
    }
    texts.add(best, { ...best, x: best.x - apart, width: best.width + 2 * apart });
    return best;
  });
}

/** A place beside an edge, so far from its end that the text as a whole is clear of the edge. */
function beside(
  { points, stroke }: Drawn,
  { end, width, height }: Wanted,
  step: number,
  side: -1 | 1,
  more: number,
  down: boolean,
): { rect: Rect; away: number } | undefined {
  const main = (p: Point): number => (down ? p.y : p.x);
  const cross = (p: Point): number => (down ? p.x : p.y);
  const [length, depth] = down ? [height, width] : [width, height];
  const start = main(points[0]!);
  const stop = main(points.at(-1)!);
  const low = end === "from" ? start + step : stop - step - length;
  if (low < start + 4 || low + length > stop - 4) return undefined;
  let [highest, lowest] = [Infinity, -Infinity];
  const heights: number[] = [];
  const meet = (at: number): void => {
    highest = Math.min(highest, at);
    lowest = Math.max(lowest, at);
    heights.push(at);
  };
  for (let i = 1; i < points.length; i++) {
    const [one, other] = [points[i - 1]!, points[i]!];
    const [a, b] = [main(one), main(other)];
    if (b < low || a > low + length) continue;
    for (const edge of [Math.max(a, low), Math.min(b, low + length)]) {
      meet(cross(one) + (b > a ? (edge - a) / (b - a) : 0) * (cross(other) - cross(one)));
    }
  }
  const off = least + stroke / 2 + more;
  const at = side < 0 ? highest - off - depth : lowest + off;
  // How far it is from the edge at its own end of the edge.
  const near = heights.at(end === "from" ? 0 : -1)!;
  return {
    rect: down ? { x: at, y: low, width, height } : { x: low, y: at, width, height },
    away: side < 0 ? near - highest : lowest - near,
  };
}

interface Piece {
  line: number;
  one: Point;
  other: Point;
  half: number;
}

const around = ({ one, other, half }: Piece): Rect => ({
  x: Math.min(one.x, other.x) - half,
  y: Math.min(one.y, other.y) - half,
  width: Math.abs(one.x - other.x) + 2 * half,
  height: Math.abs(one.y - other.y) + 2 * half,
});

export const overlap = (one: Rect, other: Rect): boolean =>
  one.x < other.x + other.width &&
  other.x < one.x + one.width &&
  one.y < other.y + other.height &&
  other.y < one.y + one.height;

/** What all of them lie in. */
export function boundsOf(points: readonly Point[]): Rect {
  const [x, y] = [Math.min(...points.map((p) => p.x)), Math.min(...points.map((p) => p.y))];
  const right = Math.max(...points.map((p) => p.x));
  const bottom = Math.max(...points.map((p) => p.y));
  return { x, y, width: right - x, height: bottom - y };
}

/** What both lie in. */
export function joined(one: Rect, other: Rect): Rect {
  const [x, y] = [Math.min(one.x, other.x), Math.min(one.y, other.y)];
  return {
    x,
    y,
    width: Math.max(one.x + one.width, other.x + other.width) - x,
    height: Math.max(one.y + one.height, other.y + other.height) - y,
  };
}

/** Whether a straight piece of an edge passes through a rectangle. */
function touches(spot: Rect, { one, other, half }: Piece): boolean {
  let [from, to] = [0, 1];
  const clip = (at: number, by: number, low: number, high: number): boolean => {
    if (by === 0) return at >= low && at <= high;
    const [first, second] = [(low - at) / by, (high - at) / by];
    from = Math.max(from, Math.min(first, second));
    to = Math.min(to, Math.max(first, second));
    return from <= to;
  };
  return (
    clip(one.x, other.x - one.x, spot.x - half, spot.x + spot.width + half) &&
    clip(one.y, other.y - one.y, spot.y - half, spot.y + spot.height + half)
  );
}

/** Finds what is near a place without looking at everything. */
class Grid<T> {
  private readonly cells = new Map<number, T[]>();

  add(spot: Rect, item: T): void {
    overCells(spot, (key) => {
      const list = this.cells.get(key);
      if (list) list.push(item);
      else this.cells.set(key, [item]);
      return true;
    });
  }

  /**
   * Each item in the cells that a place lies in, while `see` says to go on; of some cells an item
   * comes more than once.
   */
  each(spot: Rect, see: (item: T) => boolean): void {
    overCells(spot, (key) => this.cells.get(key)?.every(see) ?? true);
  }
}

function overCells({ x, y, width, height }: Rect, visit: (key: number) => boolean): void {
  const lowest = Math.floor((y + height) / cell);
  for (let column = Math.floor(x / cell); column <= Math.floor((x + width) / cell); column++) {
    for (let row = Math.floor(y / cell); row <= lowest; row++)
      if (!visit(column * cellsHigh + row)) return;
  }
}
