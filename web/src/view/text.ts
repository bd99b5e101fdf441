// Numbers, names and operations in little room.

import { opText } from "../engine/formulas";
import { shortNumber } from "../engine/numbers";
import type { Graph } from "../engine/types";

/** A gradient or what is added to one: its sign is always written. */
export function signed(number: number): string {
  return number > 0 ? `+${shortNumber(number)}` : shortNumber(number);
}

/** After another sign a negative number stands in brackets. */
export function inBrackets(number: number): string {
  return number < 0 ? `(${shortNumber(number)})` : shortNumber(number);
}

/** A class for colour; the sign itself is always written too. */
export function signOf(number: number): "positive" | "negative" | "zero" | "broken" {
  if (!Number.isFinite(number)) return "broken";
  return number > 0 ? "positive" : number < 0 ? "negative" : "zero";
}

/** Those that hold. */
export const classNames = (names: Record<string, boolean>): string =>
  Object.keys(names)
    .filter((name) => names[name])
    .join(" ");

/** For names and formulas in SVG and MathML: no words. (In HTML: translate={false}.) */
export const asIs = { translate: "no" } as object;

/** Of a long name the beginning and the end say most. */
export function shortened(text: string, room: number): string {
  if (text.length <= room) return text;
  const left = Math.max(room - 1, 3);
  return `${text.slice(0, Math.ceil(left / 2))}…${text.slice(text.length - Math.floor(left / 2))}`;
}

/**
 * A name with its numbers as subscripts: `x1w1` has the parts x, 1, w, 1, and `w1_2` has w and 1,2;
 * every second is one.
 */
export const nameParts = (name: string): string[] =>
  /^[\p{L}′']+(_?\d+[\p{L}′']*)+$/u.test(name)
    ? name.split(/_?(\d+(?:_\d+)*)/).map((part) => part.replaceAll("_", ","))
    : [name];

/** Of a text in SVG, with letters of this width: it is drawn no wider than there is room. */
export const within = (text: string, room: number, letter: number): object =>
  text.length * letter > room ? { textLength: room, lengthAdjust: "spacingAndGlyphs" } : {};

/** The op of a node as it is drawn, with a constant operand: ×, + 1, ^3, tanh, 1 /. */
export function drawnOp(graph: Graph, index: number): string {
  const { op, args } = graph.nodes[index]!;
  const sign = opText(graph, index);
  const at = args.findIndex((operand) => "constant" in operand);
  if (at < 0 || args.length !== 2) return sign;
  const number = shortNumber((args[at] as { constant: number }).constant);
  return at === 0 && ["sub", "div", "pow"].includes(op) ? `${number} ${sign}` : `${sign} ${number}`;
}
