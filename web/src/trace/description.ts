// A trace as docs/inspect/trace-file.md describes it. A file may come from anywhere: every index, shape and
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

/** Of two traces in one (`gradwalk diff`): how far a node is from its counterpart. */
export interface Counterpart {
  other: number; // -1: it has none
  own: number; // NaN: not known
  accumulated: number;
  verdict: string; // "": in line
}

/** What Python found: `health` of a session, or `gradwalk diff`. */
export interface Finding {
  kind: string;
  layer: string;
  nodes: number[];
  text: string;
  line: string | null; // of the program
  chain: string;
  fix: string;
}

export interface Comparison {
  nodes: Map<number, Counterpart>;
  findings: Finding[];
}

export interface Trace {
  scalar: boolean;
  nodes: TraceNode[];
  groups: Group[];
  sweeps: Sweep[];
  names: Map<number, string>; // of parameters
  reduced: boolean; // whether there was no room for some of the numbers
  comparison?: Comparison; // it is two traces
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

/** What is being read, for messages: nodes[5].args. A path into the description is no word. */
const reading = { part: "", key: "" };

function wrong(): never {
  throw new Fault("trace.fault.content", { where: reading.part + reading.key });
}

/** What an object has by a name, read. */
function from<T>(owner: Json, key: string, read: (value: unknown) => T): T {
  const before = reading.key;
  reading.key = key;
  const found = read(owner[key]);
  reading.key = before;
  return found;
}

/** Read the entries of a list, each under its own name. */
function each<T>(all: Json, part: string, read: (entry: Json, index: number) => T): T[] {
  const found = from(all, part, list).map((entry, index) => {
    reading.part = `${part}[${index}].`;
    return read(object(entry), index);
  });
  reading.part = "";
  return found;
}

function object(value: unknown = {}): Json {
  return typeof value === "object" && value !== null && !Array.isArray(value)
    ? (value as Json)
    : wrong();
}

/** A list; statistics are written as attributes are, where Python's tuples are marked. */
function list(value: unknown): unknown[] {
  const found = Array.isArray(value) ? value : (value as { tuple?: unknown } | null)?.tuple;
  return Array.isArray(found) ? found : wrong();
}

/** A whole number, 0 or larger; of an index, below the number of what it counts. */
function whole(value: unknown, below = Number.MAX_SAFE_INTEGER): number {
  const number = value as number;
  return Number.isInteger(value) && number >= 0 && number < below ? number : wrong();
}

const text = (value: unknown): string => (typeof value === "string" ? value : String(value ?? ""));

function number(value: unknown): number {
  if (typeof value === "number") return value;
  if (typeof value === "boolean") return Number(value);
  const { float, integer } = object(value);
  if (float === "nan") return NaN;
  if (float === "inf") return Infinity;
  if (float === "-inf") return -Infinity;
  return typeof integer === "string" ? Number(integer) : wrong();
}

export function countOf(shape: Shape): number {
  return shape.reduce((product, size) => product * size, 1);
}

/** Of an array in a file, `where` is its name. */
export function readShape(value: unknown, where = reading.key): Shape {
  reading.key = where;
  const shape = list(value).map((size) => whole(size));
  return shape.length <= 64 && countOf(shape) < Number.MAX_SAFE_INTEGER ? shape : wrong();
}

export function sameShape(one: Shape, other: Shape): boolean {
  return one.length === other.length && one.every((size, i) => size === other[i]);
}

// -- numbers --------------------------------------------------------------------------------------

function readSmall(found: Json): { shape: Shape; elements: number[] } {
  const shape = readShape(found.shape);
  const elements = list(found.small).map(number);
  return elements.length === countOf(shape) ? { shape, elements } : wrong();
}

function readStatistics(found: Json): Statistics {
  const all = <K extends string>(names: K[], read: (value: unknown) => number) =>
    Object.fromEntries(names.map((name) => [name, from(found, name, read)])) as Record<K, number>;
  const histogram = list(found.histogram).map((bin) => whole(bin));
  return {
    ...all(["mean", "std", "low", "high", "norm"], number),
    ...all(["count", "zeros", "nans", "infs"], whole),
    histogram: histogram.length <= mostBins ? histogram : wrong(),
  };
}

function readKept(value: unknown): Kept | null {
  if (value == null) return null;
  if (typeof value !== "object" || "float" in value || "integer" in value) {
    return { shape: [], dtype: "float", elements: [number(value)] };
  }
  const { small, statistics, dtype, array, thumbnail } = value as Json;
  if (small) return { ...readSmall(value as Json), dtype: text(dtype) };
  const known = statistics ? object(statistics) : wrong();
  const kept: Kept = {
    shape: readShape(known.shape),
    dtype: text(known.dtype),
    statistics: readStatistics(known),
  };
  if (array !== undefined) kept.array = text(array);
  if (thumbnail !== undefined) kept.thumbnail = readSmall(object(thumbnail));
  return kept;
}

/** Values or gradients of the shapes they must have. */
function readParts(parts: unknown, shapes: (Shape | null)[]): (Kept | null)[] {
  const found = list(parts).map(readKept);
  const fit = found.every((kept, i) => !kept || !shapes[i] || sameShape(kept.shape, shapes[i]));
  return fit && found.length === shapes.length ? found : wrong();
}

// -- the whole ------------------------------------------------------------------------------------

/** Read a description; throws a `Fault` if it does not hold together. */
export function readTrace(description: unknown): Trace {
  Object.assign(reading, { part: "", key: "{}" });
  const all = object(description);
  if (!versions.includes(all.version as number)) {
    throw new Fault("trace.fault.version", { version: text(all.version).slice(0, 40) });
  }
  const groups = each(all, "groups", readGroup);
  const nodes: TraceNode[] = [];
  each(all, "nodes", (node) => nodes.push(readNode(node, nodes, groups.length)));
  if (!nodes.length) throw new Fault("trace.fault.empty");
  const names = Object.entries(from(all, "names", object)).map(([index, name]) => {
    reading.key = "names";
    return [whole(Number(index), nodes.length), text(name)] as const;
  });
  const comparison =
    all.counterparts === undefined
      ? {}
      : { comparison: readComparison(from(all, "counterparts", object), nodes.length) };
  return {
    ...comparison,
    scalar: all.scalar === true,
    nodes,
    groups,
    sweeps: each(all, "sweeps", (sweep) => readSweep(sweep, nodes)),
    names: new Map(names),
    reduced: Object.keys(from(all, "reduced", object)).length > 0,
  };
}

function readComparison(found: Json, count: number): Comparison {
  const known = (value: unknown): number => (value == null ? NaN : number(value));
  const nodes = from(found, "nodes", list).map((entry) => {
    const [node, other, own, accumulated, verdict] = list(entry);
    const counterpart: Counterpart = {
      other: other == null ? -1 : whole(other, count),
      own: known(own),
      accumulated: known(accumulated),
      verdict: text(verdict),
    };
    return [whole(node, count), counterpart] as const;
  });
  const findings = from(found, "findings", list).map((entry): Finding => {
    const one = object(entry);
    return {
      kind: text(one.kind),
      layer: text(one.layer),
      nodes: from(one, "nodes", list).map((node) => whole(node, count)),
      text: text(one.text),
      line: text(one.line),
      chain: text(one.chain),
      fix: text(one.fix),
    };
  });
  return { nodes: new Map(nodes), findings };
}

function readGroup(group: Json, index: number): Group {
  return {
    path: text(group.path),
    className: text(group.class),
    call: from(group, "call", whole),
    above: from(group, "above", (above) => (above === null ? -1 : whole(above, index))),
  };
}

function readNode(node: Json, before: TraceNode[], groups: number): TraceNode {
  const metas = from(node, "metas", (found) =>
    list(found).map((meta): Meta => {
      const [shape, dtype] = list(meta);
      return { shape: readShape(shape), dtype: text(dtype) };
    }),
  );
  const found: TraceNode = {
    op: text(node.op),
    args: from(node, "args", (args) => list(args).map((arg) => readArgument(arg, before))),
    attrs: from(node, "attrs", object),
    metas: metas.length ? metas : wrong(),
    values: from(node, "values", (values) => readParts(values, shapesOf({ metas }))),
    label: text(node.label),
    note: text(node.note),
    group: from(node, "group", (group) => (group == null ? -1 : whole(group, groups))),
  };
  if (node.line) {
    const [file, line, source, scope] = from(node, "line", list);
    found.line = [text(file), whole(line), text(source), text(scope)];
  }
  return found;
}

const shapesOf = ({ metas }: Pick<TraceNode, "metas">): Shape[] =>
  metas.map(({ shape }) => shape);

function readArgument(value: unknown, before: TraceNode[]): TraceArgument {
  if (!Array.isArray(value)) {
    const given = object(value).constant;
    return { constant: isKept(given) ? readKept(given) : null };
  }
  const node = whole(value[0], before.length);
  return { node, output: whole(value[1], before[node]!.metas.length) };
}

/** What is no number (a text, a flag, a list) is of no use here. */
function isKept(value: unknown): boolean {
  const forms = ["float", "integer", "small", "statistics"];
  return typeof value === "number" || forms.some((form) => Object.hasOwn(Object(value), form));
}

function readSweep(sweep: Json, nodes: TraceNode[]): Sweep {
  const index = (value: unknown): number => whole(value, nodes.length);
  const seeds = from(sweep, "seeds", (found) =>
    list(found).map((entry) => {
      const [at, output, seed] = list(entry);
      const node = index(at);
      return { node, output: whole(output, nodes[node]!.metas.length), seed: readKept(seed) };
    }),
  );
  const visits = from(sweep, "visits", (found) => {
    const nodes = list(found).map(index);
    return seeds.length && new Set(nodes).size === nodes.length ? nodes : wrong();
  });
  const by = (part: string, shapes: (at: TraceNode, found: unknown[]) => (Shape | null)[]) =>
    from(
      sweep,
      part,
      (found) =>
        new Map(
          list(found).map((entry) => {
            const [at, parts] = list(entry);
            const node = nodes[index(at)]!;
            return [at as number, readParts(parts, shapes(node, list(parts)))] as const;
          }),
        ),
    );
  return {
    seeds,
    visits,
    grads: by("grads", shapesOf),
    // Nothing at all was pushed: a write through a view, whose operands are not its inputs.
    pushed: by("pushed", ({ args }, found) =>
      found.length
        ? args.map((arg) => ("node" in arg ? nodes[arg.node]!.metas[arg.output]!.shape : null))
        : [],
    ),
  };
}

// -- what can be said of it -----------------------------------------------------------------------

/** What to call a node, as Python does: its label, its parameter's name, or op and index. */
export function nodeName(trace: Trace, index: number): string {
  const node = trace.nodes[index]!;
  return node.label || trace.names.get(index) || `${node.op || "leaf"}#${index}`;
}

/**
 * A parameter has a node for each of its states (initialised, updated), and different layers may
 * call theirs the same: there are as many as names, or as a backward pass knows apart.
 */
export const parameterCount = ({ names, sweeps }: Trace): number =>
  Math.max(
    new Set(names.values()).size,
    ...sweeps.map(({ grads }) => [...names.keys()].filter((node) => grads.has(node)).length),
  );

export function groupName({ path, call }: Group): string {
  return call > 1 ? `${path} (${call})` : path;
}

export function shapeText(shape: Shape): string {
  return shape.join("×");
}

/** Where a line of a program stands: the file's name without its folders. */
export const lineText = ([file, line]: SourceLine): string =>
  `${file.split(/[\\/]/).at(-1)}:${line}`;

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
    return list(content)
      .map((part) => (part === null ? "" : attributeText(part, 4)))
      .join(":");
  return attributeText(kind === "small" || kind === "dict" ? content : text(content), depth + 1);
}
