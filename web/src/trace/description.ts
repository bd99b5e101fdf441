// A trace as docs/trace-file.md describes it. A file may come from anywhere: every index, shape and
// number that the page uses is checked here, so that everything else can rely on it.

import type { Message } from "../engine/types";

export type Shape = number[];
export type SourceLine = [file: string, line: number, text: string, scope: string];

/** Of the finite elements; the others are counted apart. */
export interface Statistics {
  count: number;
  mean: number;
  std: number;
  low: number;
  high: number;
  norm: number;
  zeros: number;
  nans: number;
  infs: number;
  histogram: number[]; // equal steps from low to high
}

/** What was kept of an array: all of it here or elsewhere, or what is known of it. */
export interface Kept {
  shape: Shape;
  dtype: string;
  elements?: number[]; // of a small one
  array?: string; // the name of its elements, wherever they are
  statistics?: Statistics; // of any but a small one
  thumbnail?: { shape: Shape; elements: number[] };
}

export interface Meta {
  shape: Shape;
  dtype: string;
}

/** An operand: the output of another node, or what was given in its place. */
export type TraceArgument = { node: number; output: number } | { constant: Kept | null };

export interface TraceNode {
  op: string; // "" of a leaf
  args: TraceArgument[];
  attrs: Record<string, unknown>; // as in the file: only to be shown
  metas: Meta[]; // of each output
  values: (Kept | null)[];
  label: string;
  note: string; // why no gradient flows through it
  group: number; // -1: in none
  line?: SourceLine;
}

/** One call of a module, or a named scope. */
export interface Group {
  path: string;
  className: string;
  call: number;
  above: number; // the group it lies in, -1 if none
}

/** A backward pass. */
export interface Sweep {
  seeds: { node: number; output: number; seed: Kept | null }[];
  visits: number[];
  grads: Map<number, (Kept | null)[]>; // of each output
  pushed: Map<number, (Kept | null)[]>; // along each argument
}

export interface Trace {
  scalar: boolean;
  nodes: TraceNode[];
  groups: Group[];
  sweeps: Sweep[];
  names: Map<number, string>; // of parameters
  reduced: boolean; // whether there was no room for some of the numbers
}

/** What is wrong with a trace, for the reader of the page. */
export class Fault extends Error {
  readonly told: Message;

  constructor(key: string, values: Message["values"] = {}) {
    super(key);
    this.told = { key, values };
  }
}

const versions = [1, 2];
const mostBins = 256;
const dtypes = /^(?:bool|bfloat16|float(?:16|32|64)|u?int(?:8|16|32|64))$/;

/** Bytes of an element; undefined of a dtype that nobody knows. */
export const itemSize = (dtype: string): number | undefined =>
  dtypes.test(dtype) ? Number(/\d+$/.exec(dtype)?.[0] ?? 8) / 8 : undefined;

// -- the smallest parts ---------------------------------------------------------------------------

type Json = Record<string, unknown>;

/** What is being read, for messages: nodes[5]. A path into the description needs no translation. */
const reading = { part: "", index: 0 };

function wrong(where: string): never {
  const { part, index } = reading;
  throw new Fault("trace.fault.content", { where: part ? `${part}[${index}].${where}` : where });
}

/** Read the entries of a list, each under its own name. */
function each<T>(value: unknown, part: string, read: (entry: unknown, index: number) => T): T[] {
  const found = list(value, part).map((entry, index) => {
    reading.part = part;
    reading.index = index;
    return read(entry, index);
  });
  reading.part = "";
  return found;
}

function object(value: unknown, where: string): Json {
  if (typeof value !== "object" || value === null || Array.isArray(value)) wrong(where);
  return value as Json;
}

/** A list; statistics are written as attributes are, where Python's tuples are marked. */
function list(value: unknown, where: string): unknown[] {
  const found = Array.isArray(value) ? value : (value as { tuple?: unknown } | null)?.tuple;
  return Array.isArray(found) ? found : wrong(where);
}

function whole(value: unknown, where: string, below = Number.MAX_SAFE_INTEGER): number {
  if (!Number.isInteger(value) || (value as number) < 0 || (value as number) >= below) wrong(where);
  return value as number;
}

const text = (value: unknown): string => (typeof value === "string" ? value : String(value ?? ""));

function number(value: unknown, where: string): number {
  if (typeof value === "number") return value;
  if (typeof value === "boolean") return Number(value);
  const written = object(value, where);
  if (typeof written.float === "string") {
    const known: Json = { nan: NaN, inf: Infinity, "-inf": -Infinity };
    if (Object.hasOwn(known, written.float)) return known[written.float] as number;
  }
  if (typeof written.integer === "string") return Number(written.integer);
  return wrong(where);
}

export function countOf(shape: Shape): number {
  return shape.reduce((product, size) => product * size, 1);
}

export function readShape(value: unknown, where: string): Shape {
  const shape = list(value, where).map((size) => whole(size, where));
  return shape.length <= 64 && countOf(shape) < Number.MAX_SAFE_INTEGER ? shape : wrong(where);
}

export function sameShape(one: Shape, other: Shape): boolean {
  return one.length === other.length && one.every((size, i) => size === other[i]);
}

// -- numbers --------------------------------------------------------------------------------------

function readSmall(value: Json, where: string): { shape: Shape; elements: number[] } {
  const shape = readShape(value.shape, where);
  const elements = list(value.small, where).map((item) => number(item, where));
  return elements.length === countOf(shape) ? { shape, elements } : wrong(where);
}

function readStatistics(value: unknown, where: string): Statistics {
  const found = object(value, where);
  const real = (name: string): number => number(found[name], name);
  const count = (name: string): number => whole(found[name], name);
  const histogram = list(found.histogram, "histogram").map((bin) => whole(bin, "histogram"));
  return {
    count: count("count"),
    mean: real("mean"),
    std: real("std"),
    low: real("low"),
    high: real("high"),
    norm: real("norm"),
    zeros: count("zeros"),
    nans: count("nans"),
    infs: count("infs"),
    histogram: histogram.length <= mostBins ? histogram : wrong("histogram"),
  };
}

function readKept(value: unknown, where: string): Kept | null {
  if (value === null || value === undefined) return null;
  if (typeof value !== "object" || "float" in value || "integer" in value) {
    return { shape: [], dtype: "float", elements: [number(value, where)] };
  }
  const found = value as Json;
  if ("small" in found) return { ...readSmall(found, where), dtype: text(found.dtype) };
  if (!("statistics" in found)) wrong(where);
  const known = object(found.statistics, where);
  const kept: Kept = {
    shape: readShape(known.shape, where),
    dtype: text(known.dtype),
    statistics: readStatistics(known, where),
  };
  if (found.array !== undefined) kept.array = text(found.array);
  if (found.thumbnail !== undefined)
    kept.thumbnail = readSmall(object(found.thumbnail, where), where);
  return kept;
}

/** Values or gradients of the shapes they must have. */
function readParts(parts: unknown, where: string, shapes: (Shape | null)[]): (Kept | null)[] {
  const found = list(parts, where).map((part) => readKept(part, where));
  if (found.length !== shapes.length) wrong(where);
  found.forEach((kept, i) => {
    const shape = shapes[i];
    if (kept && shape && !sameShape(kept.shape, shape)) wrong(where);
  });
  return found;
}

// -- the whole ------------------------------------------------------------------------------------

/** Read a description; throws a `Fault` if it does not hold together. */
export function readTrace(description: unknown): Trace {
  const all = object(description, "{}");
  if (!versions.includes(all.version as number)) {
    throw new Fault("trace.fault.version", { version: shortText(all.version) });
  }
  const groups = each(all.groups, "groups", readGroup);
  const nodes: TraceNode[] = [];
  each(all.nodes, "nodes", (node) => nodes.push(readNode(node, nodes, groups.length)));
  if (!nodes.length) throw new Fault("trace.fault.empty");
  const names = Object.entries(object(all.names ?? {}, "names")).map(
    ([index, name]): [number, string] => [whole(Number(index), "names", nodes.length), text(name)],
  );
  return {
    scalar: all.scalar === true,
    nodes,
    groups,
    sweeps: each(all.sweeps, "sweeps", (sweep) => readSweep(sweep, nodes)),
    names: new Map(names),
    reduced: Object.keys(object(all.reduced ?? {}, "reduced")).length > 0,
  };
}

const shortText = (value: unknown): string => text(value).slice(0, 40);

function readGroup(value: unknown, index: number): Group {
  const group = object(value, "");
  return {
    path: text(group.path),
    className: text(group.class),
    call: whole(group.call, "call"),
    above: group.above === null ? -1 : whole(group.above, "above", index),
  };
}

function readNode(value: unknown, before: TraceNode[], groups: number): TraceNode {
  const node = object(value, "");
  const metas = list(node.metas, "metas").map((meta): Meta => {
    const [shape, dtype] = list(meta, "metas");
    return { shape: readShape(shape, "metas"), dtype: text(dtype) };
  });
  if (!metas.length) wrong("metas");
  const found: TraceNode = {
    op: text(node.op),
    args: list(node.args, "args").map((arg) => readArgument(arg, before)),
    attrs: object(node.attrs ?? {}, "attrs"),
    metas,
    values: readParts(
      node.values,
      "values",
      metas.map(({ shape }) => shape),
    ),
    label: text(node.label),
    note: text(node.note),
    group:
      node.group === undefined || node.group === null ? -1 : whole(node.group, "group", groups),
  };
  if (node.line) {
    const [file, line, source, scope] = list(node.line, "line");
    found.line = [text(file), whole(line, "line"), text(source), text(scope)];
  }
  return found;
}

function readArgument(value: unknown, before: TraceNode[]): TraceArgument {
  const where = "args";
  if (!Array.isArray(value)) {
    const given = object(value, where).constant;
    const plain = typeof given === "number" || (typeof given === "object" && given !== null);
    // What is no number (a text, a flag) is of no use here.
    return { constant: plain && isKept(given) ? readKept(given, where) : null };
  }
  const node = whole(value[0], where, before.length);
  return { node, output: whole(value[1], where, before[node]!.metas.length) };
}

function isKept(value: unknown): boolean {
  const forms = ["float", "integer", "small", "statistics"];
  return typeof value === "number" || forms.some((form) => Object.hasOwn(value as object, form));
}

function readSweep(value: unknown, nodes: TraceNode[]): Sweep {
  const sweep = object(value, "");
  const node = (index: unknown, part: string): number => whole(index, part, nodes.length);
  const seeds = list(sweep.seeds, "seeds").map((seed) => {
    const [index, output, amount] = list(seed, "seeds");
    const at = node(index, "seeds");
    return {
      node: at,
      output: whole(output, "seeds", nodes[at]!.metas.length),
      seed: readKept(amount, "seeds"),
    };
  });
  const visits = list(sweep.visits, "visits").map((index) => node(index, "visits"));
  if (!seeds.length || new Set(visits).size !== visits.length) wrong("visits");
  const by = (part: "grads" | "pushed", shapes: (at: TraceNode) => (Shape | null)[]) =>
    new Map(
      list(sweep[part], part).map((entry) => {
        const [index, parts] = list(entry, part);
        const at = node(index, part);
        // Nothing at all was pushed: a write through a view, whose operands are not its inputs.
        const wanted =
          part === "pushed" && list(parts, part).length === 0 ? [] : shapes(nodes[at]!);
        return [at, readParts(parts, part, wanted)] as const;
      }),
    );
  return {
    seeds,
    visits,
    grads: by("grads", ({ metas }) => metas.map(({ shape }) => shape)),
    pushed: by("pushed", ({ args }) =>
      args.map((arg) => ("node" in arg ? nodes[arg.node]!.metas[arg.output]!.shape : null)),
    ),
  };
}

// -- what can be said of it -----------------------------------------------------------------------

/** What to call a node, as Python does: its label, its parameter's name, or op and index. */
export function nodeName(trace: Trace, index: number): string {
  const node = trace.nodes[index]!;
  return node.label || trace.names.get(index) || `${node.op || "leaf"}#${index}`;
}

export function groupName({ path, call }: Group): string {
  return call > 1 ? `${path} (${call})` : path;
}

export function shapeText(shape: Shape): string {
  return shape.join("×");
}

/** An attribute as Python would write it, roughly. */
export function attributeText(value: unknown, depth = 0): string {
  if (depth > 4) return "…";
  if (Array.isArray(value)) {
    const parts = value.slice(0, 12).map((part) => attributeText(part, depth + 1));
    return `[${parts.join(", ")}${value.length > 12 ? ", …" : ""}]`;
  }
  if (typeof value !== "object" || value === null) return text(value ?? "None").slice(0, 80);
  const [kind, content] = Object.entries(value)[0] ?? ["", ""];
  if (kind === "tuple") return attributeText(content, depth + 1).replace(/^\[(.*)\]$/, "($1)");
  if (kind === "ellipsis") return "...";
  if (kind === "slice")
    return list(content, "")
      .map((part) => (part === null ? "" : attributeText(part, 4)))
      .join(":");
  return attributeText(kind === "small" || kind === "dict" ? content : text(content), depth + 1);
}
