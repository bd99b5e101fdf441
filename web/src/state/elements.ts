// One element of an array that is looked at: which others made it, and the sum that it is.

import { computed, signal } from "@preact/signals";

import { textPart } from "../engine/formulas";
import { shortNumber } from "../engine/numbers";
import { OPS } from "../engine/ops";
import { own } from "../engine/own";
import type { Edge } from "../engine/types";
import { blockOf } from "../layout/matrix";
import type { Kept, Shape } from "../trace/description";
import { agrees, type Entry, type Jacobian, jacobianOf, type Values } from "../trace/jacobian";
import { windowFrom } from "../trace/source";
import { traceStage as stage } from "./trace";

export type Part = "value" | "gradient";

export interface Element {
  node: number;
  part: Part;
  index: number;
}

export const sameElement = (one: Element | null, other: Element): boolean =>
  one?.node === other.node && one.part === other.part && one.index === other.index;

/** What the mouse or the arrow keys are at. */
export const looked = signal<Element | null>(null);

const mostTerms = 12;

/** Arrays that were asked for, by what was kept of them. */
const asked = new WeakMap<Kept, ReturnType<typeof signal<readonly number[] | undefined>>>();

/** The numbers of an array that is drawn one by one; read when they lie elsewhere. */
export function numbersOf(kept: Kept | null | undefined): readonly number[] | undefined {
  if (!kept || kept.elements || !kept.array) return kept?.elements;
  if (!blockOf(kept.shape).whole || kept.shape.length > 2) return undefined;
  const known = asked.get(kept) ?? signal<readonly number[] | undefined>(undefined);
  if (!asked.has(kept)) {
    asked.set(kept, known);
    stage.document.peek()!.arrays.read(kept, windowFrom(kept.shape)).then(
      (rows) => (known.value = rows.flat()),
      () => {}, // its statistics are there; the panel says why, if it is asked
    );
  }
  return known.value;
}

export const numbersAt = ({ node, part }: Omit<Element, "index">): readonly number[] | undefined =>
  numbersOf(part === "value" ? stage.node(node).values[0] : stage.gradient(node));

/** The Jacobian of an edge, unless what was recorded says otherwise. */
export function edgeJacobian({ node, argument }: Omit<Edge, "source">): Jacobian | null {
  const values: Values = (at) => numbersAt({ node: at, part: "value" });
  const found = jacobianOf(stage.trace, node, argument, values);
  const g = numbersAt({ node, part: "gradient" });
  const pushed = numbersOf(stage.pushed(node, argument));
  return found && g && pushed && !agrees(found, g, pushed) ? null : found;
}

/** X[0, 1]; of a single number its name. */
export function elementName(node: number, index: number): string {
  const { shape } = stage.node(node).metas[0]!;
  const place = indices(index, shape).join(", ");
  return stage.name(node) + (place && `[${place}]`);
}

function indices(index: number, shape: Shape): number[] {
  const found: number[] = [];
  let rest = index;
  for (const size of [...shape].reverse()) {
    found.unshift(rest % size);
    rest = Math.floor(rest / size);
  }
  return found;
}

/** What an element is made of, for the eye (elements that light up) and in figures. */
export interface Origins {
  from: Element[];
  text: string;
}

export const origins = computed((): Origins | null => {
  const at = looked.value;
  if (!at || !stage.document.value || !stage.trace.nodes[at.node]) return null;
  const shown = at.part === "value" ? stage.isKnown(at.node) : stage.isComplete(at.node);
  const number = numbersAt(at)?.[at.index];
  if (!shown || number === undefined) return null;
  return at.part === "value" ? valueOrigins(at, number) : gradientOrigins(at, number);
});

/** Whether it lights up. */
export const isLit = (element: Element): boolean =>
  origins.value?.from.some((one) => sameElement(one, element)) ?? false;

function valueOrigins({ node, index }: Element, number: number): Origins {
  const { op, args, attrs } = stage.node(node);
  const name = elementName(node, index);
  const from: Element[] = [];
  const columns = args.map((arg, argument): [index: number, entry: Entry][] => {
    if (!("node" in arg)) return [];
    const found = edgeJacobian({ node, argument });
    return (found ?? []).flatMap((entries, i) =>
      entries.filter(({ out }) => out === index).map((entry) => [i, entry] as [number, Entry]),
    );
  });
  columns.forEach((column, argument) => {
    const arg = args[argument]!;
    if ("node" in arg)
      from.push(...column.map(([i]): Element => ({ node: arg.node, part: "value", index: i })));
  });
  const [first = []] = columns;
  const one = args[0];
  const operands = args.map((arg, argument) => {
    const [at] = columns[argument]![0] ?? [0];
    return "node" in arg
      ? numbersAt({ node: arg.node, part: "value" })?.[at]
      : arg.constant?.elements?.[0];
  });
  let terms = "";
  if (own(OPS, op)) {
    const given = Object.entries(attrs).map(([key, value]) => [key, [value, String(value)]]);
    const more = given.length ? [Object.fromEntries(given)] : [];
    if (operands.every((value) => value !== undefined))
      terms = textPart([op, ...operands.map(rounded), ...more], true)[0];
  } else if (sums.has(op) && one && "node" in one) {
    const numbers = numbersAt({ node: one.node, part: "value" });
    const bias = op === "linear" && operands[2] !== undefined ? [shortNumber(operands[2])] : [];
    if (numbers)
      terms = written([...first.map(([i, entry]) => product(numbers[i]!, entry)), ...bias]);
  }
  return { from, text: equation([name, terms, shortNumber(number)]) };
}

/** Ops whose output is the sum of what the first operand's entries say. */
const sums = new Set(["matmul", "linear", "sum", "mean", "permute", "reshape", "expand"]);

function gradientOrigins({ node, index }: Element, number: number): Origins {
  const from: Element[] = [];
  const terms: string[] = [];
  const seeds = stage.sweep.value?.seeds ?? [];
  for (const seed of seeds.filter((one) => one.node === node))
    terms.push(shortNumber(seed.seed?.elements?.[index] ?? 1));
  for (const { node: consumer, argument } of stage.outline.consumers[node]!) {
    const pushed = numbersOf(stage.pushed(consumer, argument));
    if (!pushed) continue;
    const entries = edgeJacobian({ node: consumer, argument })?.[index];
    const g = numbersAt({ node: consumer, part: "gradient" });
    if (!entries || !g) {
      terms.push(shortNumber(pushed[index]!));
      continue;
    }
    for (const entry of entries) {
      const { out, from: place } = entry;
      from.push({ node: consumer, part: "gradient", index: out });
      if (place) from.push({ ...place, part: "value" });
      terms.push(product(g[out]!, entry));
    }
  }
  const root = seeds[0] ? stage.name(seeds[0].node) : "L";
  const name = `∂${root}/∂${elementName(node, index)}`;
  return { from, text: equation([name, written(terms), shortNumber(number)]) };
}

const rounded = (value: number | undefined): number => Number(Number(value).toPrecision(5));

const inBrackets = (value: number): string =>
  value < 0 ? `(${shortNumber(value)})` : shortNumber(value);

/** A 1 that is an element is a factor like the others; a sum has none to write. */
const product = (one: number, { factor, from }: Entry): string =>
  factor === 1 && !from ? inBrackets(one) : `${inBrackets(one)} × ${inBrackets(factor)}`;

function written(terms: string[]): string {
  const shown = terms.length > mostTerms ? [...terms.slice(0, mostTerms - 1), "…"] : terms;
  return shown.join(" + ");
}

/** What repeats is left out. */
const equation = (parts: string[]): string =>
  parts.filter((part, i) => part && part !== parts[i - 1]).join(" = ");
