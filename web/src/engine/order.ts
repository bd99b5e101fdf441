// The order lab: run backward in any order, and see what is lost and what comes too often.
// got = correct − Σ lost + Σ extra, for every node of every graph and every order.

import { edgesInto } from "./graph";
import { agree } from "./numbers";
import {
  amounts,
  asRun,
  backwardGraph,
  type BackwardGraph,
  counts,
  largest,
  lostAndExtra,
  overAllPaths,
  type Sums,
} from "./order-sums";
import { pathOfWay, type Way } from "./paths";
import { consumersFirst } from "./recipes";
import type { Computed, Message, Path } from "./types";

/** Two nodes visited the wrong way round: an input before a node it goes into. */
export interface Inversion {
  early: number; // visited before its gradient was complete
  late: number; // what still had something for it
  earlyVisit: number; // the number of the visit, from 1
  lateVisit: number;
}

/** What became of one gradient; lost and extra are null if no path was. */
export interface NodeResult {
  node: number;
  got: number;
  correct: number; // times the number of calls of backward
  lost: number | null;
  extra: number | null;
  wrong: boolean;
  firstInversion: Inversion | null; // the first visit that spoiled it
}

export interface OrderResult {
  passes: number[][];
  overwrite: boolean;
  nodes: NodeResult[]; // all that gradient can reach, in computed order
  firstInversion: Inversion | null;
}

/** A path that was lost, or ran too often. */
export interface OrderPath extends Path {
  nodes: number[]; // from the root down
  amount: number; // what it brings, times how often
  times: number;
  reason?: Message; // of a lost one
  pair?: [early: number, late: number];
}

export interface OrderPaths {
  total: bigint; // paths to the node
  lostCount: bigint;
  extraCount: bigint;
  lost: OrderPath[]; // the largest
  extra: OrderPath[];
}

const SPARE = 8; // paths looked at beyond those listed, because some may turn out not to be lost
const ALL = 8; // nodes whose every order is tried

/** Visit the nodes of each pass in turn: a pass is one call of backward, nothing is cleared. */
export function runOrder(computed: Computed, passes: number[][], overwrite = false): OrderResult {
  const graph = backwardGraph(computed);
  const sum = amounts(graph);
  const got = asRun(graph, sum, passes, overwrite);
  const correct = overAllPaths(graph, sum).map((g) => g! * passes.length);
  const [lost, extra] = overwrite
    ? [lostByOverwriting(graph, passes, got, correct), []]
    : lostAndExtra(graph, sum, passes);
  const times = passes.map(visitTimes(passes));
  const spoiled = inversions(graph, times);
  const nodes = graph.reached
    .slice()
    .reverse()
    .map((node): NodeResult => {
      const own = { lost: lost[node] ?? null, extra: extra[node] ?? null };
      const right = correct[node] ?? 0;
      const found = got[node] ?? 0;
      const differs = own.lost !== null || own.extra !== null;
      return {
        node,
        got: found,
        correct: right,
        ...own,
        wrong: differs && !agree(found, right),
        firstInversion: differs ? (spoiled.get(node) ?? null) : null,
      };
    });
  const first = [...spoiled.values()].sort(earlier)[0] ?? null;
  return { passes, overwrite, nodes, firstInversion: first };
}

/** Where arrivals overwrite, what is there at the end is all that did not get lost. */
function lostByOverwriting(
  graph: BackwardGraph,
  passes: number[][],
  got: Sums<number>,
  correct: number[],
): Sums<number> {
  const paths = overAllPaths(graph, counts(graph));
  const kept = asRun(graph, counts(graph), passes, true);
  return correct.map((right, node) => {
    const complete = passes.length === 1 && paths[node] === 1n && kept[node] === 1n;
    return complete ? undefined : right - (got[node] ?? 0);
  });
}

// -- when each node is visited --------------------------------------------------------------------

type Times = Map<number, number[]>;

function visitTimes(passes: number[][]): (visits: number[], pass: number) => Times {
  return (visits, pass) => {
    let clock = passes.slice(0, pass).reduce((sum, before) => sum + before.length, 0);
    const times: Times = new Map();
    for (const node of visits) {
      const own = times.get(node);
      if (own) own.push(++clock);
      else times.set(node, [++clock]);
    }
    return times;
  };
}

const firstAfter = (times: number[] | undefined, now: number): number | undefined =>
  times?.find((time) => time > now);

const earlier = (one: Inversion, other: Inversion): number =>
  one.earlyVisit - other.earlyVisit || one.early - other.early || one.late - other.late;

/** For each node the first visit that spoils its gradient: one that came before a consumer's. */
function inversions(graph: BackwardGraph, passes: Times[]): Map<number, Inversion> {
  const found = new Map<number, Inversion>();
  for (const times of passes) {
    const early = new Map<number, Inversion>();
    for (const node of graph.reached) {
      const options = [found.get(node)];
      const consumers = edgesInto(graph.computed.graph, node).filter((edge) =>
        graph.edges[edge.node]!.includes(edge),
      );
      for (const { node: consumer } of consumers) {
        options.push(early.get(consumer), found.get(consumer));
      }
      const first = options.filter((option) => option !== undefined).sort(earlier)[0];
      if (first) found.set(node, first);
      const visit = times.get(node)?.[0];
      if (visit === undefined) continue;
      const late = consumers
        .map((edge) => ({ late: edge.node, lateVisit: firstAfter(times.get(edge.node), visit) }))
        .filter((after): after is { late: number; lateVisit: number } => Boolean(after.lateVisit))
        .sort((a, b) => a.lateVisit - b.lateVisit || a.late - b.late)[0];
      if (late) early.set(node, { early: node, earlyVisit: visit, ...late });
    }
  }
  return found;
}

// -- single paths ---------------------------------------------------------------------------------

/** The paths to one node that an order loses, or runs too often. */
export function orderPaths(
  computed: Computed,
  { passes, overwrite }: OrderResult,
  node: number,
  top = 5,
): OrderPaths {
  const graph = backwardGraph(computed);
  const total = overAllPaths(graph, counts(graph))[node] ?? 0n;
  const look = new Looking(computed, passes, top);
  if (overwrite) {
    const kept = asRun(graph, counts(graph), passes, true)[node] ?? 0n;
    const ways = overAllPaths(graph, largest(graph, top + SPARE))[node];
    const lost = look.listed(ways, (path) => passes.length - Number(look.survives(path)));
    const lostCount = BigInt(passes.length) * total - kept;
    return { total, lostCount, extraCount: 0n, lost, extra: [] };
  }
  const [lostCount, extraCount] = lostAndExtra(graph, counts(graph), passes);
  const [lost, extra] = lostAndExtra(graph, largest(graph, top), passes);
  return {
    total,
    lostCount: lostCount[node] ?? 0n,
    extraCount: extraCount[node] ?? 0n,
    lost: look.listed(lost[node], (path) => {
      look.explain(path);
      return passes.length - look.runs(path)[0];
    }),
    extra: look.listed(extra[node], (path) => look.runs(path)[1]),
  };
}

class Looking {
  private readonly times: Times[];

  constructor(
    private readonly computed: Computed,
    private readonly passes: number[][],
    private readonly top: number,
  ) {
    this.times = passes.map(visitTimes(passes));
  }

  listed(ways: Way[] | undefined, times: (path: OrderPath) => number): OrderPath[] {
    const { root } = this.computed.graph;
    const found = (ways ?? []).map((way): OrderPath => {
      const path = pathOfWay(way, this.computed.locals);
      const nodes = [root, ...path.edges.map((edge) => edge.source)];
      return { ...path, nodes, amount: path.product, times: 1 };
    });
    for (const path of found) {
      path.times = times(path);
      path.amount = path.times * path.product;
    }
    return found
      .filter((path) => path.times)
      .sort((one, other) => Math.abs(other.amount) - Math.abs(one.amount))
      .slice(0, this.top);
  }

  /** In how many passes a path runs, and how often it runs besides: lostAndExtra on one path. */
  runs({ nodes }: OrderPath): [through: number, extra: number] {
    const last = nodes.length - 1;
    if (!last) return [1, 0]; // the root itself, which every pass sets again
    const fresh = nodes.map(() => 0);
    const stale = nodes.map(() => 0);
    let through = 0;
    let extra = 0;
    for (const times of this.times) {
      nodes.forEach((_, i) => {
        [fresh[i], stale[i]] = i ? [0, stale[i]! + fresh[i]!] : [1, 0];
      });
      const visits = nodes
        .slice(0, -1)
        .flatMap((node, i) => (times.get(node) ?? []).map((time): [number, number] => [time, i]))
        .sort(([one], [other]) => one - other);
      for (const [, i] of visits) {
        if (i === last - 1) {
          through += fresh[i]!;
          extra += stale[i]!;
        } else {
          fresh[i + 1]! += fresh[i]!;
          stale[i + 1]! += stale[i]!;
        }
        [fresh[i], stale[i]] = [0, stale[i]! + fresh[i]!];
      }
    }
    return [through, extra];
  }

  /** Say at which pair of nodes a lost path breaks off, in the first pass that loses it. */
  explain(path: OrderPath): void {
    for (const times of this.times) {
      let now = 0;
      let above: number | undefined;
      for (const node of path.nodes.slice(0, -1)) {
        const later = firstAfter(times.get(node), now);
        if (later === undefined) {
          if (!times.has(node)) path.reason = this.because("notVisited", node);
          else if (above !== undefined) {
            path.pair = [node, above];
            path.reason = this.because("before", node, above);
          }
          return;
        }
        [now, above] = [later, node];
      }
    }
    path.reason = { key: "order.setAgain" };
  }

  private because(key: string, node: number, other?: number): Message {
    const label = (i: number): string => this.computed.graph.nodes[i]!.label;
    const values = { name: label(node), ...(other !== undefined && { other: label(other) }) };
    return { key: `order.${key}`, values };
  }

  /** Whether a path is still there at the end if arrivals overwrite; if not, say why. */
  survives(path: OrderPath): boolean {
    const graph = backwardGraph(this.computed);
    const { nodes, edges } = path;
    const last = nodes.length - 1;
    const at = new Map(nodes.map((node, i) => [node, i]));
    const holds = nodes.map(() => false);
    const wasThere = nodes.map(() => false);
    const visitedSince = nodes.map(() => false);
    const by = nodes.map(() => -1); // who overwrote it
    for (const visits of this.passes) {
      holds[0] = wasThere[0] = true;
      for (const node of visits) {
        const own = at.get(node);
        if (own !== undefined && own < last && wasThere[own]) visitedSince[own] = true;
        for (const edge of graph.edges[node]!) {
          const i = at.get(edge.source);
          if (i === undefined) continue;
          const arrives = i > 0 && edge === edges[i - 1] && holds[i - 1]!;
          if (holds[i] && !arrives) by[i] = node;
          holds[i] = arrives;
          wasThere[i] ||= arrives;
        }
      }
    }
    if (holds[last]) return true;
    const stop = Math.max(0, wasThere.lastIndexOf(true));
    if (by[stop]! >= 0 && (stop === last || visitedSince[stop])) {
      path.reason = this.because("overwritten", nodes[stop]!, by[stop]);
    } else this.explain(path);
    const broken = by.findIndex((node) => node >= 0);
    if (!path.reason && broken >= 0) {
      path.reason = this.because("overwritten", nodes[broken]!, by[broken]);
    }
    return false;
  }
}

// -- every order ----------------------------------------------------------------------------------

export interface Outcome {
  got: number;
  orders: number[][];
}

/** What every order of some nodes (else all that have inputs) makes of one gradient. */
export function everyOrder(computed: Computed, node: number, chosen?: number[]): Outcome[] | null {
  const graph = backwardGraph(computed);
  const nodes = chosen ?? consumersFirst(graph);
  if (nodes.length > ALL) return null;
  const sum = amounts(graph);
  const right = overAllPaths(graph, sum)[node] ?? 0;
  const found = new Map<number, number[][]>();
  for (const order of permutations(nodes)) {
    const got = Number((asRun(graph, sum, [order], false)[node] ?? 0).toPrecision(12));
    const same = found.get(got);
    if (same) same.push(order);
    else found.set(got, [order]);
  }
  return [...found]
    .map(([got, orders]) => ({ got, orders }))
    .sort((one, other) => Math.abs(one.got - right) - Math.abs(other.got - right));
}

function permutations(items: number[]): number[][] {
  if (items.length < 2) return [items];
  return items.flatMap((first, i) =>
    permutations([...items.slice(0, i), ...items.slice(i + 1)]).map((rest) => [first, ...rest]),
  );
}
