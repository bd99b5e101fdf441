// Formulas as text and as MathML, spelled as Python's printers spell them.

import { edgesInto } from "./graph";
import { general, shortNumber } from "./numbers";
import { attributesOf, namedAttributes, OPS, opOf, type Tree } from "./ops";
import { own } from "./own";
import { tables } from "./tables";
import type { Edge, Graph, Operand } from "./types";

const { around, greek, infix, letters, signs, symbols } = tables;
const ATOM = 9;
const PREFIX = 4;
const POWER = 5;

/** Text, and how tightly its outermost operation binds. */
export type Part = [text: string, binding: number];

type Operation = { op: string; args: Tree[]; attrs: Record<string, [Tree, string]> };

function operation(tree: Tree): Operation | undefined {
  if (!Array.isArray(tree)) return undefined;
  const args = tree.slice(1);
  const last = args.at(-1);
  const attrs = last && typeof last === "object" && !Array.isArray(last) ? last : {};
  if (attrs === last) args.pop();
  return { op: tree[0] as string, args, attrs };
}

// -- trees of a graph --------------------------------------------------------------------------

/** A rule's tree with the attributes of a node filled in; what then is a number becomes one. */
function resolved(tree: Tree, attrs: Record<string, number | null | undefined>): Tree {
  if (typeof tree === "string") return tree in attrs ? (attrs[tree] ?? null) : tree;
  if (!Array.isArray(tree)) return tree;
  if (tree[0] === "number") return Number(String(tree[1]).replace("inf", "Infinity"));
  if (tree[0] === "?") {
    const [, name, value, then, otherwise] = tree;
    return resolved((attrs[name as string] ?? null) === value ? then! : otherwise!, attrs);
  }
  const found = operation(tree)!;
  const args = found.args.map((argument) => resolved(argument, attrs));
  const given = Object.entries(found.attrs);
  const filled = given.map(([name, [value, text]]): [string, [Tree, string]] => {
    const known = resolved(value, attrs);
    return [name, [known, typeof value === "object" && value ? String(known) : text]];
  });
  const op = own(OPS, found.op);
  if (op && args.every((a) => typeof a === "number") && filled.every(([, [v]]) => isPlain(v))) {
    const numbers = Object.fromEntries(filled.map(([name, [v]]) => [name, v as number | null]));
    return op.value(...args, ...attributesOf(op, numbers));
  }
  return [found.op, ...args, ...(filled.length ? [Object.fromEntries(filled)] : [])];
}

const isPlain = (tree: Tree): boolean => tree === null || typeof tree === "number";

function substituted(tree: Tree, names: Record<string, Tree>): Tree {
  if (typeof tree === "string") return names[tree] ?? tree;
  if (!Array.isArray(tree)) return tree;
  return tree.map((part, i) => (i === 0 ? part : substituted(part, names)));
}

const operandTree = (graph: Graph, operand: Operand): Tree =>
  "node" in operand ? graph.nodes[operand.node]!.label : operand.constant;

/** The local derivative of an edge, in the names of the graph; null if it has no formula. */
export function slopeTree(graph: Graph, edge: Edge): Tree {
  const node = graph.nodes[edge.node]!;
  const op = opOf(node);
  const rule = op?.slopes[edge.argument] ?? null;
  if (!op || rule === null) return null;
  const attrs = namedAttributes(op, node.attrs);
  const names = Object.fromEntries(
    op.inputs.map((name, i) => [name, operandTree(graph, node.args[i]!)]),
  );
  return substituted(resolved(rule, attrs), { ...names, out: node.label });
}

const WHOLE = new Set(["exponent", "decimals", "n"]); // Python writes the others as floats: 1.0

/** What a node computes: `["mul", "x1", "w1"]`. */
export function expressionTree(graph: Graph, index: number): Tree {
  const node = graph.nodes[index]!;
  if (!node.op) return node.label;
  const args = node.args.map((operand) => operandTree(graph, operand));
  const attrs = Object.entries(node.attrs).map(([name, value]): [string, [Tree, string]] => {
    const whole = Number.isInteger(value) && !WHOLE.has(name);
    return [name, [value, value == null ? "None" : whole ? `${value}.0` : String(value)]];
  });
  return [node.op, ...args, ...(attrs.length ? [Object.fromEntries(attrs)] : [])];
}

/** What a node computes: `x1 × w1`. */
export const expressionText = (graph: Graph, node: number): string =>
  textPart(expressionTree(graph, node), true)[0];

/** The same as an equation: name = what it computes. */
export const nodeFormula = (graph: Graph, node: number): Markup[] => [
  mathName(graph.nodes[node]!.label),
  mathSign("="),
  ...mathPart(expressionTree(graph, node), true)[0],
];

/** The local derivative of an edge; null (as text: "") if it has no formula. */
export function localFormula(graph: Graph, edge: Edge): Markup[] | null {
  const tree = slopeTree(graph, edge);
  return tree === null ? null : math(tree);
}

export function localText(graph: Graph, edge: Edge): string {
  const tree = slopeTree(graph, edge);
  return tree === null ? "" : formulaText(tree);
}

/** The op as it is drawn: +, ×, tanh, ^2. */
export function opText(graph: Graph, index: number): string {
  const { op, attrs } = graph.nodes[index]!;
  if (op === "power") return `^${shortNumber(attrs.exponent ?? NaN)}`;
  return own(OPS, op)?.symbol ?? op;
}

const ONE_SIDED = new Set(["sub", "div", "pow"]);

/** What an edge does to what comes along it, the other operands held: `× w1`, `tanh`. */
export function effectText(graph: Graph, edge: Edge): string {
  const node = graph.nodes[edge.node]!;
  const symbol = opText(graph, edge.node);
  const others = node.args
    .filter((_, i) => i !== edge.argument)
    .map((a) => ("node" in a ? graph.nodes[a.node]!.label : shortNumber(a.constant)));
  if (!others.length) return symbol;
  if (own(infix, node.op) !== undefined && others.length === 1) {
    const before = edge.argument === 1 && ONE_SIDED.has(node.op);
    return before ? `${others[0]} ${symbol}` : `${symbol} ${others[0]}`;
  }
  return `${symbol}(…, ${others.join(", ")})`;
}

/** What a node wears: what its gate does to a gradient, and whether several gradients add in it. */
export function gatesOf(graph: Graph, index: number): string[] {
  const gate = opOf(graph.nodes[index]!)?.gate;
  const adder = edgesInto(graph, index).length > 1;
  return [...(gate ? [gate] : []), ...(adder ? ["adder"] : [])];
}

// -- text ----------------------------------------------------------------------------------------

export const formulaText = (tree: Tree): string => textPart(tree)[0];

const numberText = (value: number): string => general(value, 6).replaceAll("-", "−");

/** `asIs`: a product by 1 or −1 is written out. */
export function textPart(tree: Tree, asIs = false): Part {
  const found = operation(tree);
  if (!found) {
    const text = typeof tree === "number" ? numberText(tree) : String(tree ?? "None");
    return [text, typeof tree === "number" && text.startsWith("−") ? PREFIX : ATOM];
  }
  const { op, args, attrs } = found;
  const symbol = own(OPS, op)?.symbol;
  const unit = op === "mul" && !asIs ? byOne(args) : undefined;
  if (unit?.[0] === 1) return textPart(unit[1]);
  if (unit || op === "neg") return [`−${textWrapped(unit?.[1] ?? args[0]!, PREFIX)}`, PREFIX];
  if (own(infix, op) !== undefined) {
    const binding = infix[op]!;
    const left = textWrapped(args[0]!, binding);
    const right = textAfter(args[1]!, binding + (op === "sub" || op === "div" ? 1 : 0));
    return [`${left} ${symbols[op]} ${right}`, binding];
  }
  if (op === "power" || op === "square") {
    return [textWrapped(args[0]!, 6) + raised(attrs.exponent?.[0] ?? 2), POWER];
  }
  if (op === "where") {
    const [condition, chosen, other] = args.map(formulaText);
    return [`${chosen} if ${condition} else ${other}`, 0];
  }
  const listed = args.map(formulaText);
  for (const [name, [, text]] of Object.entries(attrs)) listed.push(`${name}=${text}`);
  return [`${symbol ?? op}(${listed.join(", ")})`, ATOM];
}

/** Of a product by 1 or −1: which, and the other factor. */
function byOne([first, second]: Tree[]): [one: number, other: Tree] | undefined {
  if (first === 1 || first === -1) return [first, second!];
  return second === 1 || second === -1 ? [second, first!] : undefined;
}

function textWrapped(tree: Tree, binding: number): string {
  const [text, tightness] = textPart(tree);
  return tightness < binding ? `(${text})` : text;
}

/** After another sign a minus needs brackets, too: a × (−b). */
function textAfter(tree: Tree, binding: number): string {
  return textWrapped(tree, textPart(tree)[1] === PREFIX ? ATOM : binding);
}

const RAISED: Record<string, string> = { "−": "⁻", ".": "·" };

function raised(exponent: Tree): string {
  if (typeof exponent !== "number") return `^${textWrapped(exponent, ATOM)}`;
  const text = numberText(exponent);
  if (/[^\d−.]/.test(text)) return `^${text}`; // inf, 1e+20: nothing to raise
  return [...text].map((c) => RAISED[c] ?? "⁰¹²³⁴⁵⁶⁷⁸⁹"[Number(c)]).join("");
}

// -- MathML --------------------------------------------------------------------------------------

/** An element of MathML: its name, then elements and text. The view makes nodes of it. */
export type Markup = [tag: string, ...content: (Markup | string)[]];

type MathPart = [content: Markup[], binding: number];

/** A formula as the content of a <math> element. */
export const math = (tree: Tree): Markup[] => mathPart(tree)[0];

/** As text, the way Python writes it. */
export const markupText = (content: (Markup | string)[]): string =>
  content
    .map((part) =>
      typeof part === "string"
        ? escaped(part)
        : `<${part[0]}>${markupText(part.slice(1))}</${part[0]}>`,
    )
    .join("");

const ENTITIES: Record<string, string> = {
  "&": "amp",
  "<": "lt",
  ">": "gt",
  '"': "quot",
  "'": "#x27",
  "\u00a0": "#160",
};
const escaped = (text: string): string => text.replace(/[&<>"'\u00a0]/g, (c) => `&${ENTITIES[c]};`);

export const mathSign = (text: string): Markup => ["mo", text];
export const inBrackets = (content: Markup[]): Markup => [
  "mrow",
  mathSign("("),
  ...content,
  mathSign(")"),
];
const number = (text: string): Markup => ["mn", text];

export function mathPart(tree: Tree, asIs = false): MathPart {
  const found = operation(tree);
  if (!found) {
    if (typeof tree === "number") {
      return [[mathNumber(tree)], general(tree, 6).startsWith("-") ? PREFIX : ATOM];
    }
    return [[tree === null ? ["mtext", "None"] : mathName(tree as string)], ATOM];
  }
  const { op, args, attrs } = found;
  const unit = op === "mul" && !asIs ? byOne(args) : undefined;
  if (unit?.[0] === 1) return mathPart(unit[1]);
  if (unit || op === "neg") {
    return [[mathSign("−"), mathWrapped(unit?.[1] ?? args[0]!, PREFIX)], PREFIX];
  }
  if (op === "div") return [[["mfrac", row(args[0]!), row(args[1]!)]], ATOM];
  if (op === "power" || op === "square" || op === "pow") {
    const exponent = op === "pow" ? args[1]! : (attrs.exponent?.[0] ?? 2);
    return [[["msup", mathWrapped(args[0]!, 6), row(exponent)]], POWER];
  }
  if (own(infix, op) !== undefined && own(signs, op) !== undefined) {
    const binding = infix[op]!;
    const right = mathAfter(args[1]!, binding + (op === "sub" ? 1 : 0));
    return [[mathWrapped(args[0]!, binding), mathSign(signs[op]!), right], binding];
  }
  if (op === "where") {
    const [condition, chosen, other] = args.map(math);
    const test: Markup = ["mtd", ["mtext", "if\u00a0"], ...condition!];
    const first: Markup = ["mtr", ["mtd", ...chosen!], test];
    const second: Markup = ["mtr", ["mtd", ...other!], ["mtd", ["mtext", "otherwise"]]];
    return [[["mrow", mathSign("{"), ["mtable", first, second]]], ATOM];
  }
  return mathCall(op, args, attrs);
}

function mathCall(op: string, args: Tree[], attrs: Operation["attrs"]): MathPart {
  const listed = args.map(math);
  const inner = listed[0]!;
  if (args.length === 1 && !Object.keys(attrs).length) {
    if (op === "exp") return [[["msup", ["mi", "e"], ["mrow", ...inner]]], POWER];
    const root: Markup = ["msqrt", ...inner];
    if (op === "sqrt") return [[root], ATOM];
    if (op === "rsqrt") return [[["mfrac", number("1"), root]], ATOM];
    if (op === "reciprocal") return [[["mfrac", number("1"), ["mrow", ...inner]]], ATOM];
    const lines = own(around, op);
    if (lines) return [[["mrow", mathSign(lines[0]), ...inner, mathSign(lines[1])]], ATOM];
  }
  for (const [name, [value]] of Object.entries(attrs)) {
    listed.push([["mi", name], mathSign("="), ...math(value)]);
  }
  const between = listed.flatMap((part, i) => (i ? [mathSign(","), ...part] : part));
  return [[["mrow", ["mi", own(letters, op) ?? op], inBrackets(between)]], ATOM];
}

/** Whether it is a single element, of these kinds, with nothing but text in it. */
function isText([only, ...more]: Markup[], tags: RegExp): boolean {
  if (!only || more.length || !tags.test(only[0])) return false;
  return only.every((part) => typeof part === "string");
}

/** As one element, where the markup counts its elements. */
function row(tree: Tree): Markup {
  const found = math(tree);
  return isText(found, /^m[in]$/) ? found[0]! : ["mrow", ...found];
}

function mathWrapped(tree: Tree, binding: number): Markup {
  const [content, tightness] = mathPart(tree);
  if (tightness < binding) return inBrackets(content);
  return isText(content, /^m/) ? content[0]! : ["mrow", ...content];
}

/** After another sign a minus needs brackets, too. */
function mathAfter(tree: Tree, binding: number): Markup {
  return mathWrapped(tree, mathPart(tree)[1] === PREFIX ? ATOM : binding);
}

/** A name and its index: `w12`, `h_1`, `W[0, 3]`. */
function indexed(name: string): [base: string, index: string] | undefined {
  const found = /^(.*?)\[(.*)\]$/.exec(name) ?? /^(\D*?)[_#]?(\d+)$/.exec(name);
  return found?.[1] ? [found[1], found[2]!] : undefined;
}

const SEVERAL = /^(?:\p{L}\d+){2,}$/u; // x1w1: letters, each with its index

/** What stands after the d of a derivative: d(sum), since dsum reads as a product. */
function differential(name: string): Markup {
  const base = indexed(name)?.[0] ?? name;
  const word = [...base].length > 1 && own(greek, base) === undefined;
  return word ? inBrackets([mathName(name)]) : mathName(name);
}

/** A name, with its index below and Greek letters as letters; `dL/da` is a fraction (d upright). */
export function mathName(name: string): Markup {
  const slope = /^([d∂])(.+)\/\1(.+)$/.exec(name);
  if (slope) {
    const half = (part: string): Markup => ["mrow", ["mtext", slope[1]!], differential(part)];
    return ["mfrac", half(slope[2]!), half(slope[3]!)];
  }
  if (SEVERAL.test(name)) return ["mrow", ...name.match(/\D\d+/gu)!.map(mathName)];
  const found = indexed(name);
  if (found) return ["msub", mathName(found[0]), number(found[1])];
  return ["mi", own(greek, name) ?? name];
}

export function mathNumber(value: number): Markup {
  const text = general(value, 6);
  const plain = text.replace(/^-/, "");
  const [mantissa, exponent] = plain.split("e");
  let shown = number(plain);
  if (exponent !== undefined) {
    const power: Markup = ["msup", number("10"), mathNumber(Number(exponent))];
    shown = ["mrow", number(mantissa!), mathSign("⋅"), power];
  }
  return text.startsWith("-") ? ["mrow", mathSign("−"), shown] : shown;
}
