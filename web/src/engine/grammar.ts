// Reading an expression from left to right: docs/inspect/expressions.md. At any place either an operand or
// an operator may follow, and a stack remembers the open brackets; so the first token that does not
// fit is found where it stands. The same few rules are Python's (inspect/expression/parser.py).

import { countText } from "./numbers";
import { own } from "./own";
import { tables } from "./tables";
import type { Message, Mistake } from "./types";

export const LONGEST = 10_000; // characters
export const MOST_TOKENS = 2_000;
export const DEEPEST = 50; // brackets, signs and powers in one another
export const LONGEST_NAME = 40;

export interface Token {
  kind: "name" | "number" | "function" | "sign";
  text: string; // signs in one spelling: ^ * -
  start: number;
  end: number;
}

export interface Sentence {
  name: Token | null; // what stands left of =
  body: Token[];
}

interface Bracket {
  token: Token;
  called: Token | null;
  count: number;
  nested: number; // signs and powers before it that wait for its end
}

/** Thrown inside the reader, caught by parse(): what is wrong, and where. */
export class Wrong extends Error {
  constructor(readonly mistake: Mistake) {
    super(mistake.key);
  }
}

const NUMBER = /(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?/y;
const LETTERS = "A-Za-zÀ-ÖØ-öø-\u024F\u1E00-\u1EFFΑ-Ωα-ω";
const LOW_DIGITS = "₀₁₂₃₄₅₆₇₈₉";
const NAME = new RegExp(`[${LETTERS}][${LETTERS}\\u0300-\\u036f${LOW_DIGITS}0-9_]*`, "y");
const SIGN = /\*\*|[-+*/^()=,;\n−×·⋅]/y;
const SAME: Record<string, string> = { "**": "^", "−": "-", "×": "*", "·": "*", "⋅": "*" };
const BLANK = " \t\r";
/** One spelling of a name: x₁ is x1, and ŷ is one letter if there is one for it. */
export const plainName = (name: string): string =>
  name.normalize("NFC").replace(/[₀-₉]/g, (digit) => String(LOW_DIGITS.indexOf(digit)));

const isFunction = (name: string): boolean => Object.hasOwn(tables.functions, name);
const isConstant = (name: string): boolean => Object.hasOwn(tables.constants, name);

export class Reader {
  private readonly found: Sentence[] = [];
  private readonly assigned = new Set<string>();
  private readonly used = new Set<string>();
  private readonly characters: string[];
  private name: Token | null = null;
  private body: Token[] = [];
  private open: Bracket[] = [];
  private nested = 0;
  private levels = 0; // of everything that is open
  private wantsOperand = true;

  constructor(private readonly source: string) {
    this.characters = Array.from(source); // code points
  }

  read(): Sentence[] {
    if (this.characters.length > LONGEST) throw this.wrong("tooLong", LONGEST, { most: countText(BigInt(LONGEST)) });
    let after = 0; // where the last token ended
    let count = 0;
    for (const token of this.tokens()) {
      if (++count > MOST_TOKENS) throw this.wrong("tokens", token.start, { most: countText(BigInt(MOST_TOKENS)) });
      if (token.text === "\n") {
        if (!this.open.length) this.endStatement(after);
        continue;
      }
      if (token.text === ";" && !this.open.length) this.endStatement(after);
      else if (this.wantsOperand) this.operand(token);
      else this.operator(token);
      after = token.end;
    }
    this.endStatement(after);
    if (!this.found.length) throw this.wrong("empty", 0, {}, { key: "parse.hint.empty" });
    return this.found;
  }

  /** A mistake at a place; before any place that is read there are only characters of one unit. */
  private wrong(
    key: string,
    place: number,
    values: Record<string, string | number> = {},
    hint?: Message,
  ): Wrong {
    const before = this.characters.slice(0, place);
    const line = before.filter((c) => c === "\n").length + 1;
    const column = place - (before.lastIndexOf("\n") + 1) + 1;
    return new Wrong({ key: `parse.${key}`, values, line, column, ...(hint && { hint }) });
  }

  private *tokens(): Generator<Token> {
    let place = 0;
    while (place < this.source.length) {
      if (BLANK.includes(this.source[place]!)) {
        place++;
        continue;
      }
      const kinds = [
        ["number", NUMBER],
        ["name", NAME],
        ["sign", SIGN],
      ] as const;
      let found: Token | undefined;
      for (const [kind, form] of kinds) {
        form.lastIndex = place;
        const text = form.exec(this.source)?.[0];
        if (text === undefined) continue;
        const plain = kind === "name" ? plainName(text) : (own(SAME, text) ?? text);
        found = { kind, text: plain, start: place, end: place + text.length };
        break;
      }
      if (!found) throw this.unknown(place);
      yield found;
      place = found.end;
    }
  }

  private unknown(place: number): Wrong {
    const sign = this.characters[place]!;
    const code = `U+${sign.codePointAt(0)!.toString(16).toUpperCase().padStart(4, "0")}`;
    const shown = /[\p{C}\p{Z}]/u.test(sign) ? code : `'${sign}'`;
    const up = "⁰¹²³⁴⁵⁶⁷⁸⁹".indexOf(sign);
    const down = LOW_DIGITS.indexOf(sign);
    const instead = own(tables.instead, sign);
    let hint: Message | undefined;
    if (up >= 0) hint = { key: "parse.hint.raised", values: { digit: up } };
    else if (down >= 0) hint = { key: "parse.hint.lowered", values: { digit: down } };
    else if (instead) hint = { key: `parse.hint.${instead}` };
    return this.wrong("character", place, { sign: shown }, hint);
  }

  // -- where an operand may stand ----------------------------------------------------------------

  private operand(token: Token): void {
    const last = this.found.at(-1);
    if (last && !last.name && !this.body.length && !this.name) {
      throw this.wrong("unused", last.body[0]!.start, {}, { key: "parse.hint.unused" });
    }
    if (token.kind === "number") {
      this.body.push(token);
      this.wantsOperand = false;
    } else if (token.kind === "name") this.word(token);
    else if (token.text === "(") {
      const before = this.body.at(-1);
      this.deeper(token);
      this.body.push(token);
      const called = before?.kind === "function" ? before : null;
      this.open.push({ token, called, count: 1, nested: this.nested - 1 });
      this.nested = 0;
    } else if (token.text === "+" || token.text === "-") {
      this.deeper(token);
      this.body.push(token);
    } else throw this.wrong("operand", token.start, { found: token.text });
  }

  private word(token: Token): void {
    const name = token.text;
    if (name.length > LONGEST_NAME) {
      throw this.wrong("longName", token.start, { most: LONGEST_NAME });
    }
    const blank = this.open.length ? /^[ \t\r\n]*\(/ : /^[ \t\r]*\(/; // a line may end in brackets
    const called = blank.test(this.source.slice(token.end));
    if (called && isFunction(name)) {
      this.body.push({ ...token, kind: "function" });
    } else if (called) throw this.wrong("noFunction", token.start, { name }, meant(name));
    else if (isFunction(name)) {
      const hint = { key: "parse.hint.function", values: { name } };
      throw this.wrong("function", token.start, { name }, hint);
    } else {
      if (name === this.name?.text) throw this.wrong("own", token.start, { name });
      this.body.push(isConstant(name) ? { ...token, kind: "number" } : token);
      this.wantsOperand = false;
    }
  }

  private deeper(token: Token): void {
    this.nested++;
    if (++this.levels > DEEPEST) throw this.wrong("deep", token.start, { most: DEEPEST });
  }

  /** An operand is complete: the signs and powers before it wait no longer. */
  private shallower(): void {
    this.levels -= this.nested;
    this.nested = 0;
  }

  // -- where an operator may stand ---------------------------------------------------------------

  private operator(token: Token): void {
    const { text } = token;
    if (text === "=") return this.assign(token);
    if (text === ")") return this.close(token);
    if (text === ";") throw this.wrong("unclosed", this.open.at(-1)!.token.start);
    if (text === ",") {
      const bracket = this.open.at(-1);
      if (!bracket?.called) {
        const typed = /^([0-9]+),([0-9]+)/.exec(this.source.slice(this.body.at(-1)!.start));
        const hint = typed
          ? { key: "parse.hint.write", values: { text: `${typed[1]}.${typed[2]}` } }
          : { key: "parse.hint.comma" };
        throw this.wrong("comma", token.start, {}, hint);
      }
      this.shallower();
      bracket.count++;
    } else if (text === "^") this.deeper(token);
    else if ("+-*/".includes(text)) this.shallower();
    else throw this.missingOperator(token);
    this.body.push(token);
    this.wantsOperand = true;
  }

  private assign(token: Token): void {
    const first = this.body[0]!;
    const name = first.text;
    if (this.name) throw this.wrong("secondAssign", token.start, {}, { key: "parse.hint.oneName" });
    if (this.body.length !== 1 || (first.kind !== "name" && !isConstant(name))) {
      throw this.wrong("left", token.start);
    }
    if (isConstant(name)) throw this.wrong("constant", first.start, { name });
    if (this.assigned.has(name)) {
      throw this.wrong("twice", first.start, { name }, { key: "parse.hint.newName" });
    }
    if (this.used.has(name)) {
      throw this.wrong("late", first.start, { name }, { key: "parse.hint.earlier" });
    }
    this.name = first;
    this.body = [];
    this.wantsOperand = true;
  }

  private close(token: Token): void {
    const bracket = this.open.pop();
    if (!bracket) throw this.wrong("closes", token.start);
    this.shallower();
    this.levels--;
    if (bracket.called) {
      const { text: name, start } = bracket.called;
      const wanted = tables.functions[name]![1];
      if (bracket.count !== wanted) {
        throw this.wrong("count", start, { name, count: wanted, found: bracket.count });
      }
    }
    this.nested = bracket.nested;
    this.body.push(token);
  }

  private missingOperator(token: Token): Wrong {
    const before = this.body.at(-1)!;
    const text = `${before.text}*${token.text}${token.text === "(" ? "...)" : ""}`;
    const kind = before.kind === "sign" ? "bracket" : before.kind;
    return this.wrong(
      `operator.${kind}`,
      token.start,
      { found: token.text },
      aboutWord(token.text) ??
        aboutWord(before.text) ?? { key: "parse.hint.write", values: { text } },
    );
  }

  private endStatement(after: number): void {
    if (this.wantsOperand) {
      if (!this.body.length && !this.name) return; // nothing between two separators
      throw this.wrong("soon", after);
    }
    if (this.open.length) throw this.wrong("unclosed", this.open.at(-1)!.token.start);
    if (this.name) this.assigned.add(this.name.text);
    for (const token of this.body) if (token.kind === "name") this.used.add(token.text);
    this.found.push({ name: this.name, body: this.body });
    this.name = null;
    this.body = [];
    this.open = [];
    this.nested = this.levels = 0;
    this.wantsOperand = true;
  }
}

/** What to say of a word of another notation. */
function aboutWord(name: string): Message | undefined {
  const about = own(tables.otherWords, name) ?? own(tables.otherWords, name.toLowerCase());
  return about === undefined ? undefined : { key: `parse.hint.${about}` };
}

/** What someone who calls an unknown function may have wanted. */
function meant(name: string): Message {
  const lower = name.toLowerCase();
  const text = own(tables.write, name) ?? own(tables.write, lower);
  if (text !== undefined) return { key: "parse.hint.write", values: { text } };
  const about = aboutWord(name);
  if (about) return about;
  const near = Object.keys(tables.functions)
    .map((other): [number, string] => [distance(lower, other), other])
    .sort(([a], [b]) => a - b)[0]!;
  if (lower.length > 1 && near[0] <= Math.max(1, Math.floor(lower.length / 4))) {
    return { key: "parse.hint.meant", values: { name: near[1] } };
  }
  return { key: "parse.hint.productOf", values: { name } };
}

/** How many letters must be put in, left out or changed. */
function distance(one: string, other: string): number {
  let row = Array.from({ length: other.length + 1 }, (_, i) => i);
  for (let i = 1; i <= one.length; i++) {
    const next = [i];
    for (let j = 1; j <= other.length; j++) {
      const changed = row[j - 1]! + (one[i - 1] === other[j - 1] ? 0 : 1);
      next.push(Math.min(changed, row[j]! + 1, next[j - 1]! + 1));
    }
    row = next;
  }
  return row[other.length]!;
}
