// Numbers to text as Python's printers write them, and text to numbers as people type them.

import { own } from "./own";

const stripped = (text: string): string => (text.includes(".") ? text.replace(/\.?0+$/, "") : text);

/**
 * JavaScript rounds an exact half up, Python to the even neighbour: 0.03125 has the four decimals
 * 0.0312. `digits` writes the number with so many digits; with 30 more an exact half shows.
 */
function halfToEven(digits: (count: number) => string, count: number): string {
  const text = digits(count);
  const longer = digits(Math.min(count + 30, 100)).replace(/e.*/, "");
  const shorter = text.replace(/e.*/, "");
  const rest = longer.slice(longer.indexOf(".") + 1 + count);
  if (!/^50*$/.test(rest) || !/[13579]$/.test(shorter)) return text;
  const cut = longer.slice(0, longer.indexOf(".") + 1 + count).replace(/\.$/, "");
  return cut + text.slice(shorter.length);
}

const fixed = (value: number, count: number): string => halfToEven((n) => value.toFixed(n), count);

/** Python's `{value:.4g}`. */
export function general(value: number, digits = 4): string {
  if (Number.isNaN(value)) return "nan";
  if (!Number.isFinite(value)) return value > 0 ? "inf" : "-inf";
  if (value === 0) return Object.is(value, -0) ? "-0" : "0";
  const text = halfToEven((n) => value.toExponential(n), digits - 1);
  const [mantissa = "", power = ""] = text.split("e");
  const exponent = Number(power);
  if (exponent < -4 || exponent >= digits) {
    const size = String(Math.abs(exponent)).padStart(2, "0");
    return `${stripped(mantissa)}e${exponent < 0 ? "-" : "+"}${size}`;
  }
  return stripped(fixed(value, digits - 1 - exponent));
}

/** All digits, as links have it. */
export const exactNumber = (value: number): string =>
  Number.isFinite(value) ? String(value) : general(value);

/**
 * A number in at most four decimals, with a real minus sign, as drawings show it. Of a small one
 * four digits are shown: small gradients are multiplied, and are not none.
 */
export function shortNumber(value: number): string {
  if (!Number.isFinite(value)) return general(value).replace("-", "−");
  const size = Math.abs(value);
  const extreme = (size > 0 && size < 0.01) || size >= 1e6;
  const text = extreme ? general(value) : stripped(fixed(value, 4));
  return text === "-0" ? "0" : text.replaceAll("-", "−");
}

/** A whole number of any size: its digits in threes, of a long one the first and the power. */
export function countText(count: bigint): string {
  const digits = count.toString();
  if (digits.length <= 12) return digits.replace(/\B(?=(\d{3})+$)/g, ",");
  return `${digits[0]}.${digits.slice(1, 3)}e${digits.length - 1}`;
}

const PLAIN = /^(?![1-9]\d?\d?,\d{3}$)(\d+[.,]?\d*|[.,]\d+)(e[+-]?\d+)?$/i;

/**
 * A typed answer: 1.5, 3/2, 1,5, −1.5, 1e-3, and inf or nan; undefined if it is nothing such. A
 * comma is a decimal comma; 1,500 may also be meant as a thousand and more, so it is neither. The
 * same in Python: `read_number` of gradwalk.course.quiz.quantities.
 */
export function readNumber(text: string): number | undefined {
  const plain = text.trim().replaceAll("−", "-").replaceAll("–", "-");
  const [above = "", below, more] = plain.split("/").map((part) => part.trim());
  if (more !== undefined) return undefined;
  const top = readPlain(above);
  if (below === undefined || top === undefined) return top;
  const bottom = readPlain(below);
  return bottom === undefined ? undefined : top / bottom;
}

function readPlain(text: string): number | undefined {
  const words: Record<string, number> = { inf: Infinity, "∞": Infinity, nan: NaN };
  const [, sign, size = ""] = /^([+-]?)\s*(.*)$/.exec(text) ?? [];
  const number = PLAIN.test(size) ? Number(size.replace(",", ".")) : own(words, size.toLowerCase());
  return sign === "-" && number !== undefined ? -number : number;
}

/** Whether two numbers are the same but for rounding; an answer may be given in four digits. */
export function agree(one: number, other: number, tolerance = 1e-9): boolean {
  if (Object.is(one, other) || one === other) return true;
  if (!Number.isFinite(one) || !Number.isFinite(other)) return false;
  return Math.abs(one - other) <= tolerance * Math.max(Math.abs(one), Math.abs(other));
}
