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
}

const deepest = 48; // groups beyond are drawn in the one above them
const mostItems = 240; // of a scope: more are put into parts
const partSize = 100;
const manyItems = 14; // in a scope as large, a leaf stands beside each of its consumers

export function outlineOf(trace: Trace): Outline {
  const { scopes, scopeOfGroup } = scopesOf(trace);
  const home = trace.nodes.map(({ group }) => (group < 0 ? 0 : scopeOfGroup[group]!));
  divide(trace, scopes, home);
  const consumers = consumersOf(trace);
  bringLeavesDown(trace, scopes, home, consumers);
  const places = place(trace, scopes, home, consumers);
  connect(trace, scopes, home, places);
  return { scopes, home, consumers };
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

/** Count operations, and put the items of a scope with very many into parts of it, in order. */
function divide(trace: Trace, scopes: Scope[], home: number[]): void {
  const inside: Item[][] = scopes.map(() => []);
  trace.nodes.forEach(({ op }, node) => {
    if (!op) return;
    for (let at = home[node]!; at >= 0; at = scopes[at]!.above) {
      const scope = scopes[at]!;
      if (scope.operations === 0 && scope.above >= 0) inside[scope.above]!.push({ scope: at });
      scope.operations++;
      scope.first = Math.min(scope.first, node);
      scope.last = node;
    }
    inside[home[node]!]!.push({ node });
  });
  for (let at = 0; at < scopes.length; at++) {
    const items = inside[at]!;
    while (items.length > mostItems) {
      const parts: Item[] = [];
      for (let start = 0; start < items.length; start += partSize) {
        const part = newScope(at, scopes[at]!.depth + 1, -1);
        const scope = scopes.push(part) - 1;
        inside.push(items.slice(start, start + partSize));
        for (const item of inside[scope]!) {
          if ("node" in item) home[item.node] = scope;
          else scopes[item.scope]!.above = scope;
          const [first, last] =
            "node" in item
              ? [item.node, item.node]
              : [scopes[item.scope]!.first, scopes[item.scope]!.last];
          part.first = Math.min(part.first, first);
          part.last = Math.max(part.last, last);
          part.operations += "node" in item ? 1 : scopes[item.scope]!.operations;
        }
        parts.push({ scope });
      }
      items.splice(0, items.length, ...parts);
    }
    scopes[at]!.items = items;
  }
  const deepen = (at: number, depth: number): void => {
    scopes[at]!.depth = depth;
    for (const item of scopes[at]!.items) if ("scope" in item) deepen(item.scope, depth + 1);
  };
  deepen(0, 0);
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

/** A leaf belongs where it is used: into the innermost scope that has all of its consumers. */
function bringLeavesDown(trace: Trace, scopes: Scope[], home: number[], consumers: Edge[][]): void {
  trace.nodes.forEach(({ op }, node) => {
    if (op) return;
    if (!consumers[node]!.length) {
      while (!scopes[home[node]!]!.operations && home[node])
        home[node] = scopes[home[node]!]!.above;
      return;
    }
    home[node] = consumers[node]!.map((edge) => home[edge.node]!).reduce((a, b) =>
      common(scopes, a, b),
    );
  });
}

function common(scopes: Scope[], one: number, other: number): number {
  while (one !== other) {
    if (scopes[one]!.depth >= scopes[other]!.depth) one = scopes[one]!.above;
    else other = scopes[other]!.above;
  }
  return one;
}

/** The scope right inside `scope` that `inner` lies in, or is. */
function innerToward(scopes: Scope[], scope: number, inner: number): number {
  while (scopes[inner]!.above !== scope) inner = scopes[inner]!.above;
  return inner;
}

/** By scope: where each item is in its list. Copies of a leaf are `leaf:consumer`. */
type Places = Map<string, number>[];

function place(trace: Trace, scopes: Scope[], home: number[], consumers: Edge[][]): Places {
  const leaves: number[][] = scopes.map(() => []);
  trace.nodes.forEach(({ op }, node) => {
    if (!op) leaves[home[node]!]!.push(node);
  });
  return scopes.map((scope, at) => {
    const before = new Map<string, Item[]>(); // leaves to be put before an item
    const rest: Item[] = [];
    const keys = new Map<Item, string>();
    const copies = scope.items.length > manyItems;
    for (const leaf of leaves[at]!) {
      const users = consumers[leaf]!.map((edge) => keyToward(scopes, home, at, edge.node));
      const different = [...new Set(users)];
      if (!different.length) rest.push({ node: leaf });
      for (const user of copies ? different : different.slice(0, 1)) {
        const item = { node: leaf };
        keys.set(item, copies && different.length > 1 ? `${leaf}:${user}` : `n${leaf}`);
        before.set(user, [...(before.get(user) ?? []), item]);
      }
    }
    const items = scope.items.flatMap((item) => [...(before.get(keyOf(item)) ?? []), item]);
    scope.items = [...items, ...rest];
    return new Map(scope.items.map((item, i) => [keys.get(item) ?? keyOf(item), i]));
  });
}

const keyOf = (item: Item): string => ("node" in item ? `n${item.node}` : `s${item.scope}`);

/** The item of a scope that a node is, or lies in. */
function keyToward(scopes: Scope[], home: number[], scope: number, node: number): string {
  return home[node] === scope ? `n${node}` : `s${innerToward(scopes, scope, home[node]!)}`;
}

function connect(trace: Trace, scopes: Scope[], home: number[], places: Places): void {
  const ports = scopes.map(() => ({
    in: new Map<number, number>(),
    out: new Map<number, number>(),
  }));
  const wires = scopes.map(() => new Map<string, Wire>());
  const port = (list: number[], known: Map<number, number>, node: number): number => {
    if (!known.has(node)) known.set(node, list.push(node) - 1);
    return known.get(node)!;
  };
  // Ports are numbered once all are known: until then in-ports are -1, -2, ..., out-ports from 1e9.
  const beyond = 1e9;
  const add = (at: number, from: number, to: number, edge: Edge, apart = false): void => {
    const key = `${from}>${to}>${edge.source}${apart ? `.${edge.argument}` : ""}`;
    const wire = wires[at]!.get(key);
    if (wire) wire.edges.push(edge);
    else
      wires[at]!.set(key, {
        from,
        to,
        source: edge.source,
        edges: [edge],
        portFrom: -1,
        portTo: -1,
      });
  };
  const itemOf = (at: number, key: string, consumer?: string): number =>
    places[at]!.get(`${key.slice(1)}:${consumer}`) ?? places[at]!.get(key)!;
  trace.nodes.forEach(({ args }, node) =>
    args.forEach((arg, argument) => {
      if (!("node" in arg)) return;
      const edge = { node, argument, source: arg.node };
      const meet = common(scopes, home[arg.node]!, home[node]!);
      let from = `n${arg.node}`;
      for (let at = home[arg.node]!; at !== meet; at = scopes[at]!.above) {
        const out = beyond + port(scopes[at]!.portsOut, ports[at]!.out, arg.node);
        add(at, itemOf(at, from), out, edge);
        from = `s${at}`;
      }
      let to = `n${node}`;
      for (let at = home[node]!; at !== meet; at = scopes[at]!.above) {
        const entry = -1 - port(scopes[at]!.portsIn, ports[at]!.in, arg.node);
        add(at, entry, itemOf(at, to), edge, to.startsWith("n"));
        to = `s${at}`;
      }
      add(meet, itemOf(meet, from, to), itemOf(meet, to), edge, to.startsWith("n"));
    }),
  );
  scopes.forEach((scope, at) => {
    const before = scope.portsIn.length;
    const number = (end: number): number => {
      if (end < 0) return -1 - end;
      return end >= beyond ? before + scope.items.length + end - beyond : before + end;
    };
    const portOf = (end: number, way: "in" | "out", source: number): number => {
      const item = scope.items[end];
      return item && "scope" in item ? ports[item.scope]![way].get(source)! : -1;
    };
    scope.wires = [...wires[at]!.values()].map((wire) => ({
      ...wire,
      portFrom: portOf(wire.from, "out", wire.source),
      portTo: portOf(wire.to, "in", wire.source),
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
