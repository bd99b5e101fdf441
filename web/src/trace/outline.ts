// A trace as boxes in boxes: every call of a module is a scope with items (operations, leaves and
// other scopes) and the wires between them. Made once for a trace; where things stand is worked out
// in layout/nested.ts for the scopes that are open.
//
// A wire carries the value of one node. Where it crosses the border of a scope it goes through a
// port, so that every scope can be laid out by itself.

import type { Edge } from "../engine/types";
import { groupName, type Trace } from "./description";

export type Item = { node: number } | { scope: number };

/** From and to: in-ports first, then items, then out-ports, as numbered by `portsIn.length`. */
export interface Wire {
  from: number;
  to: number;
  source: number; // the node whose value it carries
  edges: Edge[]; // which operands it serves
  // Where an end is a scope: through which of that scope's ports, out of the one, into the other.
  portFrom: number;
  portTo: number;
}

export interface Scope {
  above: number; // -1 of the whole trace
  depth: number;
  group: number; // of the trace; -1 of the whole, and of parts that were made here
  items: Item[];
  wires: Wire[];
  portsIn: number[]; // nodes from outside that are used inside
  portsOut: number[]; // nodes inside that are used outside
  first: number; // the first and the last operation inside, and how many there are
  last: number;
  operations: number;
}

export interface Outline {
  scopes: Scope[]; // 0 is the whole trace
  home: number[]; // by node: the scope it stands in
  consumers: Edge[][]; // by node
  aside: number; // the scope of what no backward pass has to do with; -1 if there is none
}

const deepest = 48; // groups beyond are drawn in the one above them
const mostItems = 240; // of a scope: more are put into parts
const partSize = 100;
const manyItems = 14; // in a scope as large, a leaf stands beside each of its consumers

export function outlineOf(trace: Trace): Outline {
  const { scopes, scopeOfGroup } = scopesOf(trace);
  const home = trace.nodes.map(({ group }) => (group < 0 ? 0 : scopeOfGroup[group]!));
  const consumers = consumersOf(trace);
  const near = connected(trace, consumers);
  const aside = divide(trace, scopes, home, near);
  trace.nodes.forEach(({ op }, leaf) => {
    if (op) return;
    const users = consumers[leaf]!.map(({ node }) => home[node]!);
    // A leaf belongs where it is used: into the innermost scope that has all of its consumers.
    if (users.length) home[leaf] = users.reduce((one, other) => common(scopes, one, other));
    else if (aside > 0 && !near[leaf]) home[leaf] = aside;
    else
      while (home[leaf] && !scopes[home[leaf]!]!.operations)
        home[leaf] = scopes[home[leaf]!]!.above;
  });
  connect(consumers, scopes, home, place(trace, scopes, home, consumers));
  return { scopes, home, consumers, aside };
}

/**
 * By node: whether it hangs together with what a backward pass began from. A program records more:
 * weights being initialised, data being made.
 */
function connected({ nodes, sweeps }: Trace, consumers: Edge[][]): boolean[] {
  const found = nodes.map(() => !sweeps.length);
  const waiting = sweeps.flatMap(({ seeds }) => seeds.map(({ node }) => node));
  for (const node of waiting) {
    if (found[node]) continue;
    found[node] = true;
    for (const arg of nodes[node]!.args) if ("node" in arg) waiting.push(arg.node);
    for (const edge of consumers[node]!) waiting.push(edge.node);
  }
  return found;
}

function newScope(above: number, depth: number, group: number): Scope {
  return {
    above,
    depth,
    group,
    items: [],
    wires: [],
    portsIn: [],
    portsOut: [],
    first: Infinity,
    last: -1,
    operations: 0,
  };
}

function scopesOf(trace: Trace): { scopes: Scope[]; scopeOfGroup: number[] } {
  const scopes = [newScope(-1, 0, -1)];
  const scopeOfGroup = trace.groups.map(() => 0);
  trace.groups.forEach(({ above }, group) => {
    const outer = above < 0 ? 0 : scopeOfGroup[above]!;
    const depth = scopes[outer]!.depth + 1;
    scopeOfGroup[group] = depth > deepest ? outer : scopes.push(newScope(outer, depth, group)) - 1;
  });
  return { scopes, scopeOfGroup };
}

/**
 * Put operations and scopes into the scopes they lie in; where those are very many, into parts, in
 * order. What is not `near` is put into a scope of its own, which is answered; -1 if there is none.
 */
function divide(trace: Trace, scopes: Scope[], home: number[], near: boolean[]): number {
  const placed = new Set([0]);
  const nearScopes = new Set<number>();
  trace.nodes.forEach(({ op }, node) => {
    if (!op) return;
    scopes[home[node]!]!.items.push({ node });
    for (let scope = home[node]!; scope >= 0; scope = scopes[scope]!.above) {
      if (!placed.has(scope)) scopes[scopes[scope]!.above]!.items.push({ scope });
      placed.add(scope);
      if (near[node]) nearScopes.add(scope);
    }
  });
  const gather = (above: number, items: Item[]): Item => {
    const scope = scopes.push({ ...newScope(above, 0, -1), items }) - 1;
    for (const item of items) {
      if ("node" in item) home[item.node] = scope;
      else scopes[item.scope]!.above = scope;
    }
    return { scope };
  };
  const whole = scopes[0]!;
  const isNear = (item: Item): boolean =>
    "node" in item ? near[item.node]! : nearScopes.has(item.scope);
  const others = whole.items.filter((item) => !isNear(item));
  const aside = others.length && nearScopes.size ? scopes.length : -1;
  if (aside > 0) whole.items = [...whole.items.filter(isNear), gather(0, others)];
  for (let at = 0; at < scopes.length; at++) {
    const scope = scopes[at]!;
    while (scope.items.length > mostItems) {
      const parts: Item[] = [];
      for (let start = 0; start < scope.items.length; start += partSize)
        parts.push(gather(at, scope.items.slice(start, start + partSize)));
      scope.items = parts;
    }
  }
  tally(scopes, 0, 0);
  return aside;
}

/** Note how deep scopes lie, and what operations are in them. */
function tally(scopes: Scope[], at: number, depth: number): Scope {
  const scope = scopes[at]!;
  scope.depth = depth;
  for (const item of scope.items) {
    const { first, last, operations } =
      "node" in item
        ? { first: item.node, last: item.node, operations: 1 }
        : tally(scopes, item.scope, depth + 1);
    scope.first = Math.min(scope.first, first);
    scope.last = Math.max(scope.last, last);
    scope.operations += operations;
  }
  return scope;
}

function consumersOf(trace: Trace): Edge[][] {
  const consumers: Edge[][] = trace.nodes.map(() => []);
  trace.nodes.forEach(({ args }, node) =>
    args.forEach((arg, argument) => {
      if ("node" in arg) consumers[arg.node]!.push({ node, argument, source: arg.node });
    }),
  );
  return consumers;
}

function common(scopes: Scope[], one: number, other: number): number {
  while (one !== other) {
    if (scopes[one]!.depth >= scopes[other]!.depth) one = scopes[one]!.above;
    else other = scopes[other]!.above;
  }
  return one;
}

/** A number for an item: of scopes they are negative. */
export const keyOf = (item: Item): number => ("node" in item ? item.node : ~item.scope);

/** The item of a scope that a node is, or lies in. */
function keyToward(scopes: Scope[], home: number[], scope: number, node: number): number {
  let [key, at] = [node, home[node]!];
  for (; at !== scope; at = scopes[at]!.above) key = ~at;
  return key;
}

/** By scope: where each item is in its list. Copies of a leaf are `leaf:consumer`. */
type Places = Map<number | string, number>[];

function place(trace: Trace, scopes: Scope[], home: number[], consumers: Edge[][]): Places {
  const leaves: number[][] = scopes.map(() => []);
  trace.nodes.forEach(({ op }, node) => {
    if (!op) leaves[home[node]!]!.push(node);
  });
  return scopes.map((scope, at) => {
    const before = new Map<number, Item[]>(); // leaves to be put before an item
    const rest: Item[] = [];
    const copies = new Map<Item, string>();
    for (const node of leaves[at]!) {
      const users = consumers[node]!.map((edge) => keyToward(scopes, home, at, edge.node));
      const different = scope.items.length > manyItems ? [...new Set(users)] : users.slice(0, 1);
      if (!different.length) rest.push({ node });
      for (const user of different) {
        const item = { node };
        if (different.length > 1) copies.set(item, `${node}:${user}`);
        before.set(user, [...(before.get(user) ?? []), item]);
      }
    }
    const items = scope.items.flatMap((item) => [...(before.get(keyOf(item)) ?? []), item]);
    scope.items = [...items, ...rest];
    return new Map(scope.items.map((item, i) => [copies.get(item) ?? keyOf(item), i]));
  });
}

function connect(consumers: Edge[][], scopes: Scope[], home: number[], places: Places): void {
  // By scope: the nodes that come in and go out, numbered.
  const ports = scopes.map(() => [new Map<number, number>(), new Map<number, number>()] as const);
  const wires = scopes.map(() => new Map<string, Wire>());
  const port = (known: Map<number, number>, node: number): number => {
    if (!known.has(node)) known.set(node, known.size);
    return known.get(node)!;
  };
  // Ports are numbered once all are known: until then in-ports are -1, -2, ..., out-ports from 1e9.
  const beyond = 1e9;
  const add = (at: number, from: number, to: number, edge: Edge, apart = false): void => {
    const { source, argument } = edge;
    const key = [from, to, source, apart && argument].join();
    const wire = wires[at]!.get(key);
    if (wire) wire.edges.push(edge);
    else wires[at]!.set(key, { from, to, source, edges: [edge], portFrom: -1, portTo: -1 });
  };
  const itemOf = (at: number, key: number, consumer?: number): number =>
    places[at]!.get(`${key}:${consumer}`) ?? places[at]!.get(key)!;
  for (const edge of consumers.flat()) {
    let [from, to] = [edge.source, edge.node];
    const meet = common(scopes, home[from]!, home[to]!);
    for (let at = home[from]!; at !== meet; at = scopes[at]!.above) {
      add(at, itemOf(at, from), beyond + port(ports[at]![1], edge.source), edge);
      from = ~at;
    }
    for (let at = home[to]!; at !== meet; at = scopes[at]!.above) {
      add(at, -1 - port(ports[at]![0], edge.source), itemOf(at, to), edge, to >= 0);
      to = ~at;
    }
    add(meet, itemOf(meet, from, to), itemOf(meet, to), edge, to >= 0);
  }
  scopes.forEach((scope, at) => {
    [scope.portsIn, scope.portsOut] = ports[at]!.map((known) => [...known.keys()]) as [
      number[],
      number[],
    ];
    const before = scope.portsIn.length;
    const number = (end: number): number => {
      if (end < 0) return -1 - end;
      return end >= beyond ? before + scope.items.length + end - beyond : before + end;
    };
    const portOf = (end: number, way: 0 | 1, source: number): number => {
      const item = scope.items[end];
      return item && "scope" in item ? ports[item.scope]![way].get(source)! : -1;
    };
    scope.wires = [...wires[at]!.values()].map((wire) => ({
      ...wire,
      portFrom: portOf(wire.from, 1, wire.source),
      portTo: portOf(wire.to, 0, wire.source),
      from: number(wire.from),
      to: number(wire.to),
    }));
  });
}

// -- names and ways -------------------------------------------------------------------------------

/** What a scope is called, without what its outer scopes are called already. */
export function scopeName(trace: Trace, outline: Outline, scope: number): string {
  const { group, above, first, last } = outline.scopes[scope]!;
  if (group < 0) return `${first}–${last}`;
  let outer = above;
  while (outer > 0 && outline.scopes[outer]!.group < 0) outer = outline.scopes[outer]!.above;
  const name = groupName(trace.groups[group]!);
  const path = outer > 0 ? trace.groups[outline.scopes[outer]!.group]!.path : "";
  return path && name.startsWith(`${path}.`) ? name.slice(path.length + 1) : name;
}

/** The scopes around a scope, the outermost first, and itself. */
export function wayTo(outline: Outline, scope: number): number[] {
  const way: number[] = [];
  for (let at = scope; at >= 0; at = outline.scopes[at]!.above) way.unshift(at);
  return way;
}

/** The scopes around an item that must be open for it to be seen, the outermost first. */
export const around = (outline: Outline, item: Item): number[] =>
  wayTo(
    outline,
    "node" in item ? outline.home[item.node]! : outline.scopes[item.scope]!.above,
  ).filter(Boolean);
