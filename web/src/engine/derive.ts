// The chain rule for one gradient written out, in symbols, with the rules, then in numbers: from
// the root down, dL/dn = Σ dL/dc × ∂c/∂n over the consumers c of n. Every step uses what the steps
// above it found, so a graph with 2⁶⁰ paths has as many steps as it has nodes.

import {
  inBrackets,
  type Markup,
  mathName,
  mathNumber,
  mathPart,
  mathSign,
  slopeTree,
  textPart,
} from "./formulas";
import { between, carries, edgesInto } from "./graph";
import { shortNumber } from "./numbers";
import type { Tree } from "./ops";
import type { Computed, Edge } from "./types";
import { pathsTo } from "./why";

type Part<T> = [content: T, binding: number];
const ATOM = 9;
const TIMES = 3;
const PLUS = 2;
const AFTER_TIMES = 5; // a factor after the first: a leading minus sign needs brackets there
const FEW_PATHS = 4; // up to so many the product along each is written out as well
const FEW_FACTORS = 12;

/** Text or MathML: how names, formulas, products and sums are written. */
interface Style<T> {
  name: (name: string) => T;
  part: (tree: Tree) => Part<T>;
  number: (value: number) => T;
  brackets: (content: T) => T;
  joined: (parts: T[], sign: "times" | "plus") => T;
}

export const TEXT: Style<string> = {
  name: (name) => name,
  part: (tree) => {
    const [text, binding] = textPart(tree);
    // a × (b / c) is read more easily than a × b / c
    return [text, Array.isArray(tree) && tree[0] === "div" ? PLUS : binding];
  },
  number: shortNumber,
  brackets: (text) => `(${text})`,
  joined: (parts, sign) => parts.join({ times: " × ", plus: " + " }[sign]),
};

export const MATH: Style<Markup[]> = {
  name: (name) => [mathName(name)],
  part: (tree) => mathPart(tree),
  number: (value) => [mathNumber(value)],
  brackets: (content) => [inBrackets(content)],
  joined: (parts, sign) => {
    const between = mathSign({ times: "⋅", plus: "+" }[sign]);
    return parts.flatMap((part, i) => (i ? [between, ...part] : part));
  },
};

/** One line of the derivation: what is asked, and the same in further and further detail. */
export interface Line<T> {
  node: number;
  left: T;
  right: T[]; // symbols, rules, numbers, the result; what repeats is left out
}

export interface Derivation<T> {
  lines: Line<T>[];
  /** The sum over paths, where there are few: with the rules, in numbers, the result; by term. */
  whole: { left: T; right: T[][] } | null;
}

export function derive<T>(computed: Computed, start: number, style: Style<T>): Derivation<T> {
  const { graph } = computed;
  const wanted = between(graph, start);
  const lines: Line<T>[] = [];
  for (let node = graph.root; node >= start; node--) {
    const asked = node !== graph.root || node === start;
    if (wanted[node] && asked) lines.push(lineFor(computed, node, style));
  }
  return { lines, whole: writtenOut(computed, start, style) };
}

const nameOf = ({ graph }: Computed, node: number): string => graph.nodes[node]!.label;

function lineFor<T>(computed: Computed, node: number, style: Style<T>): Line<T> {
  const { graph, grads, locals, reached } = computed;
  const loss = nameOf(computed, graph.root);
  const symbols: Part<T>[] = [];
  const rules: Part<T>[] = [];
  const numbers: Part<T>[] = [];
  if (node === graph.root) {
    for (const list of [symbols, rules, numbers]) list.push([style.number(1), ATOM]);
  }
  const byConsumer = new Map<number, Edge[]>();
  for (const edge of edgesInto(graph, node)) {
    if (!reached[edge.node] || !carries(graph, edge)) continue;
    byConsumer.set(edge.node, [...(byConsumer.get(edge.node) ?? []), edge]);
  }
  for (const [consumer, edges] of byConsumer) {
    const g = grads[consumer]!;
    const plain = consumer === graph.root && g === 1;
    const above: Part<T> = [style.name(`d${loss}/d${nameOf(computed, consumer)}`), ATOM];
    const partial: Part<T> = [
      style.name(`∂${nameOf(computed, consumer)}/∂${nameOf(computed, node)}`),
      ATOM,
    ];
    const rule = total(
      edges.map((edge) => localPart(computed, edge, style)),
      style,
    );
    const slope = total(
      edges.map((e) => signed(locals[consumer]![e.argument]!, style)),
      style,
    );
    symbols.push(plain ? partial : product([above, partial], style));
    rules.push(plain ? rule : product([above, rule], style));
    numbers.push(plain ? slope : product([signed(g, style), slope], style));
  }
  const right = [symbols, rules, numbers].map((parts) => total(parts, style)[0]);
  return {
    node,
    left: style.name(`d${loss}/d${nameOf(computed, node)}`),
    right: distinct([...right, style.number(grads[node]!)]),
  };
}

function writtenOut<T>(
  computed: Computed,
  start: number,
  style: Style<T>,
): Derivation<T>["whole"] {
  const { paths, count } = pathsTo(computed, start, FEW_PATHS);
  if (!count || count > FEW_PATHS || start === computed.graph.root) return null;
  if (paths.some((path) => path.factors.length > FEW_FACTORS)) return null;
  const rules = paths.map((path) =>
    product(
      path.edges.map((edge) => localPart(computed, edge, style)),
      style,
    ),
  );
  const numbers = paths.map((path) =>
    product(
      path.factors.map((factor) => signed(factor, style)),
      style,
    ),
  );
  const loss = nameOf(computed, computed.graph.root);
  return {
    left: style.name(`d${loss}/d${nameOf(computed, start)}`),
    right: distinct([terms(rules, style), terms(numbers, style), [style.number(computed.grads[start]!)]]),
  };
}

/** The terms of a sum, each as it stands in it. */
const terms = <T>(parts: Part<T>[], style: Style<T>): T[] =>
  parts.length === 1 ? [parts[0]![0]] : parts.map((part) => bracketed(part, PLUS, style));

function localPart<T>(computed: Computed, edge: Edge, style: Style<T>): Part<T> {
  const { graph } = computed;
  const tree = slopeTree(graph, edge);
  const partial = `∂${nameOf(computed, edge.node)}/∂${nameOf(computed, edge.source)}`;
  return tree === null ? [style.name(partial), ATOM] : style.part(tree);
}

/** A number as a factor: a negative one is put in brackets. */
function signed<T>(value: number, style: Style<T>): Part<T> {
  const text = style.number(value);
  return [value < 0 ? style.brackets(text) : text, ATOM];
}

function product<T>(parts: Part<T>[], style: Style<T>): Part<T> {
  if (parts.length === 1) return parts[0]!;
  const wrapped = parts.map((part, i) => bracketed(part, i ? AFTER_TIMES : TIMES, style));
  return [style.joined(wrapped, "times"), TIMES];
}

function total<T>(parts: Part<T>[], style: Style<T>): Part<T> {
  if (parts.length === 1) return parts[0]!;
  return [style.joined(terms(parts, style), "plus"), PLUS];
}

function bracketed<T>([content, tightness]: Part<T>, binding: number, style: Style<T>): T {
  const loose = tightness < binding && !(tightness === TIMES && binding === AFTER_TIMES);
  return loose ? style.brackets(content) : content;
}

function distinct<T>(things: T[]): T[] {
  const seen = new Map(things.map((thing) => [JSON.stringify(thing), thing]));
  return [...seen.values()];
}

/** The derivation as text, for the tests and for copying. */
export const deriveText = (computed: Computed, start: number): Derivation<string> =>
  derive(computed, start, TEXT);
/** The derivation as MathML. */
export const deriveMath = (computed: Computed, start: number): Derivation<Markup[]> =>
  derive(computed, start, MATH);
