// Where a gradient's elements come from: the entries of an operation's Jacobian, by families of
// ops. A trace has values and gradients, and no derivatives: what is found here is shown only if it
// gives the recorded gradient.

import { attributesOf, OPS } from "../engine/ops";
import { own } from "../engine/own";
import { countOf, type Shape, type Trace } from "./description";

/** An element of a node's value. */
export interface Place {
  node: number;
  index: number;
}

/** What one element of an input does to one of the output; `from` is the element that says so. */
export interface Entry {
  out: number;
  factor: number;
  from?: Place;
}

/** By element of the input: what is not zero. */
export type Jacobian = Entry[][];

/** The numbers of a node's value, row by row; undefined if they are not here. */
export type Values = (node: number) => readonly number[] | undefined;

const most = 5000; // entries: more are of no use to a reader

/** One operation as its family sees it. */
interface Call {
  op: string;
  attrs: Record<string, unknown>;
  argument: number;
  shapes: Shape[]; // of the operands
  shape: Shape; // of the output
  values: (readonly number[] | undefined)[];
  value?: readonly number[];
  /** An element of an operand as it is named to the reader; constants are no nodes. */
  place: (argument: number, index: number) => Place | undefined;
}

/** The Jacobian of a node's first output by one operand; null where there is none to show. */
export function jacobianOf(
  trace: Trace,
  node: number,
  argument: number,
  values: Values,
): Jacobian | null {
  const { op, args, attrs, metas } = trace.nodes[node]!;
  const operand = args[argument];
  if (!operand || !("node" in operand) || operand.output || metas.length > 1) return null;
  const family = own(families, op) ?? (own(OPS, op) && elementwise);
  if (!family) return null;
  const shapes = args.map((arg) =>
    "node" in arg ? trace.nodes[arg.node]!.metas[arg.output]!.shape : (arg.constant?.shape ?? []),
  );
  return family({
    op,
    attrs,
    argument,
    shapes,
    shape: metas[0]!.shape,
    values: args.map((arg) => ("node" in arg ? values(arg.node) : arg.constant?.elements)),
    value: values(node),
    place: (at, index) => {
      const arg = args[at]!;
      return "node" in arg ? { node: arg.node, index } : undefined;
    },
  });
}

/** What goes back by these entries from the output's gradient. */
export const pulledBack = (entries: Entry[], g: readonly number[]): number =>
  entries.reduce((sum, { out, factor }) => sum + factor * g[out]!, 0);

/** Whether the entries give what was recorded, up to the rounding of float32. */
export function agrees(
  found: Jacobian,
  g: readonly number[],
  recorded: readonly number[],
): boolean {
  return found.every((entries, i) => {
    const size = entries.reduce((sum, { out, factor }) => sum + Math.abs(factor * g[out]!), 0);
    return Math.abs(pulledBack(entries, g) - recorded[i]!) <= 1e-4 * size + 1e-30;
  });
}

// -- families -------------------------------------------------------------------------------------

type Family = (call: Call) => Jacobian | null;

const elementwise: Family = ({ op, attrs, argument, shapes, shape, values, value }) => {
  const known = OPS[op]!;
  const pull = known.pulls[argument];
  const numbers = Object.values(attrs).every((one) => one === null || typeof one === "number");
  if (!pull || !numbers || !value || values.some((part) => !part)) return null;
  if (values.length !== known.inputs.length) return null;
  const more = attributesOf(known, attrs as Record<string, number>);
  const readers = shapes.map((one) => broadcast(one, shape));
  return collected(shapes[argument]!, value.length, (add) => {
    for (let out = 0; out < value.length; out++) {
      const operands = values.map((part, i) => part![readers[i]!(out)]!);
      const factor = pull(1, value[out]!, ...operands, ...more);
      add(readers[argument]!(out), { out, factor });
    }
  });
};

/** Every element goes to one place, as it is or times a number that depends on the place. */
const moved =
  (target: (call: Call) => (index: number) => number): Family =>
  (call) => {
    const to = target(call);
    const count = countOf(call.shapes[0]!);
    return collected(call.shapes[0]!, count, (add) => {
      for (let i = 0; i < count; i++) add(i, { out: to(i), factor: 1 });
    });
  };

const same = moved(() => (index) => index);

const expand: Family = ({ shapes, shape }) => {
  const read = broadcast(shapes[0]!, shape);
  return collected(shapes[0]!, countOf(shape), (add) => {
    for (let out = 0; out < countOf(shape); out++) add(read(out), { out, factor: 1 });
  });
};

const permute = moved(({ shapes, shape, attrs }) => {
  const axes = listOf(attrs.axes);
  return (index) => {
    const at = unravel(index, shapes[0]!);
    return ravel(
      axes.map((axis) => at[axis]!),
      shape,
    );
  };
});

const sum: Family = (call) => moved(({ shapes, attrs }) => dropped(shapes[0]!, attrs.axis))(call);

const mean: Family = (call) => {
  const each = countOf(call.shape) / countOf(call.shapes[0]!);
  return sum(call)?.map((entries) => entries.map((one) => ({ ...one, factor: each }))) ?? null;
};

/** The largest gets all of it; equals share. */
const extreme: Family = (call) => {
  const { values, value } = call;
  if (!values[0] || !value) return null;
  const found = sum(call);
  const chosen = found?.map((entries, i) =>
    entries.filter(({ out }) => values[0]![i] === value[out]),
  );
  const sharing = new Map<number, number>();
  for (const { out } of chosen?.flat() ?? []) sharing.set(out, (sharing.get(out) ?? 0) + 1);
  return (
    chosen?.map((entries) =>
      entries.map((one) => ({ ...one, factor: 1 / sharing.get(one.out)! })),
    ) ?? null
  );
};

const matmul: Family = ({ argument, shapes, shape, values, place }) => {
  const [left, right] = shapes as [Shape, Shape];
  const other = values[1 - argument];
  if (!other || !left.length || !right.length) return null;
  // A vector is one row on the left, one column on the right.
  const [rows, inner] = left.length > 1 ? left.slice(-2) : [1, left[0]!];
  const columns = right.length > 1 ? right.at(-1)! : 1;
  const batch = shape.slice(0, shape.length - Number(left.length > 1) - Number(right.length > 1));
  const [leftOf, rightOf] = [left, right].map((one) => broadcast(one.slice(0, -2), batch));
  const count = countOf(shape) * inner!;
  return collected(shapes[argument]!, count, (add) => {
    for (let out = 0; out < countOf(shape); out++) {
      const column = out % columns;
      const row = Math.floor(out / columns) % rows!;
      const matrix = Math.floor(out / (columns * rows!));
      for (let k = 0; k < inner!; k++) {
        const a = (leftOf!(matrix) * rows! + row) * inner! + k;
        const b = (rightOf!(matrix) * inner! + k) * columns + column;
        const [into, at] = argument ? [b, a] : [a, b];
        add(into, { out, factor: other[at]!, from: place(1 - argument, at) });
      }
    }
  });
};

const linear: Family = ({ argument, shapes, shape, values, place }) => {
  const [features, inner] = shapes[1]! as [number, number];
  const count = countOf(shape);
  const [x, weight] = values;
  if (!x || !weight) return null;
  return collected(shapes[argument]!, argument === 2 ? count : count * inner, (add) => {
    for (let out = 0; out < count; out++) {
      const [row, feature] = [Math.floor(out / features), out % features];
      if (argument === 2) {
        add(feature, { out, factor: 1 });
        continue;
      }
      for (let k = 0; k < inner; k++) {
        const [a, b] = [row * inner + k, feature * inner + k];
        if (argument) add(b, { out, factor: x[a]!, from: place(0, a) });
        else add(a, { out, factor: weight[b]!, from: place(1, b) });
      }
    }
  });
};

/** ∂out_j/∂x_i of all pairs in one row along the axis. */
const alongAxis =
  (slope: (out: readonly number[], i: number, j: number) => number): Family =>
  ({ shapes, attrs, value }) => {
    const shape = shapes[0]!;
    if (!value || typeof attrs.axis !== "number") return null;
    const group = dropped(shape, attrs.axis);
    const members = new Map<number, number[]>();
    value.forEach((_, i) => members.set(group(i), [...(members.get(group(i)) ?? []), i]));
    const length = shape.at(attrs.axis) ?? 1;
    return collected(shape, value.length * length, (add) => {
      for (const row of members.values())
        for (const i of row) for (const j of row) add(i, { out: j, factor: slope(value, i, j) });
    });
  };

const softmax = alongAxis((p, i, j) => p[j]! * (Number(i === j) - p[i]!));
const logSoftmax = alongAxis((out, i, j) => Number(i === j) - Math.exp(out[i]!));

const crossEntropy: Family = ({ argument, shapes, values }) => {
  const [logits, targets] = values;
  const classes = shapes[0]!.at(-1);
  if (argument || !logits || !targets || !classes || shapes[0]!.length > 2) return null;
  return collected(shapes[0]!, logits.length, (add) => {
    targets.forEach((target, out) => {
      const row = logits.slice(out * classes, (out + 1) * classes);
      const top = Math.max(...row);
      const all = row.reduce((total, logit) => total + Math.exp(logit - top), 0);
      row.forEach((logit, i) => {
        const factor = Math.exp(logit - top) / all - Number(i === target);
        add(out * classes + i, { out, factor });
      });
    });
  });
};

const families: Record<string, Family> = {
  alias: same,
  amax: extreme,
  amin: extreme,
  clone: same,
  cross_entropy: crossEntropy,
  expand,
  linear,
  log_softmax: logSoftmax,
  matmul,
  mean,
  permute,
  reshape: same,
  softmax,
  sum,
};

// -- indices --------------------------------------------------------------------------------------

function collected(
  shape: Shape,
  count: number,
  fill: (add: (index: number, entry: Entry) => void) => void,
): Jacobian | null {
  if (count > most || countOf(shape) > most) return null;
  const found: Jacobian = Array.from({ length: countOf(shape) }, () => []);
  fill((index, entry) => found[index]!.push(entry));
  return found;
}

/** An attribute as the file has it: Python's tuples are marked. */
function listOf(value: unknown): number[] {
  const found = (value as { tuple?: unknown } | null)?.tuple ?? value;
  return (Array.isArray(found) ? found : []).filter((one) => typeof one === "number");
}

function unravel(index: number, shape: Shape): number[] {
  const at = shape.map(() => 0);
  for (let axis = shape.length - 1, rest = index; axis >= 0; axis--) {
    at[axis] = rest % shape[axis]!;
    rest = Math.floor(rest / shape[axis]!);
  }
  return at;
}

const ravel = (at: number[], shape: Shape): number =>
  at.reduce((sum, place, axis) => sum * shape[axis]! + place, 0);

/** Which element of `from` stands at an element of `to`. */
function broadcast(from: Shape, to: Shape): (out: number) => number {
  const missing = to.length - from.length;
  return (out) =>
    ravel(
      unravel(out, to)
        .slice(missing)
        .map((place, axis) => (from[axis] === 1 ? 0 : place)),
      from,
    );
}

/** Where an element goes if the axes are reduced; all of them if none is named. */
function dropped(shape: Shape, axis: unknown): (index: number) => number {
  const named = typeof axis === "number" ? [axis] : listOf(axis);
  const axes = new Set(named.map((one) => (one < 0 ? one + shape.length : one)));
  const stays = (_: unknown, at: number): boolean => axes.size > 0 && !axes.has(at);
  return (index) => ravel(unravel(index, shape).filter(stays), shape.filter(stays));
}
