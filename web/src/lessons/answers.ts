// Whether an answer is right, and if not, which known mistake it comes from.

import { agree, readNumber } from "../engine/numbers";
import type { Computed, Message } from "../engine/types";
import { quantity } from "./quantities";
import type { Block, Inline } from "./reader";

export interface Judgement {
  verdict: "right" | "wrong" | "unread";
  says?: Inline[]; // the lesson's own words
  message?: Message; // the page's, where the lesson has none
}

const ROUNDED = 5e-3; // two or three digits are enough
const WHOLE = 1e-4; // there is nothing to round

/** Whether a typed number is meant to be this one. */
export function meets(typed: number, number: number): boolean {
  const whole = agree(number, Math.round(number));
  return agree(typed, whole ? Math.round(number) : number, whole ? WHOLE : ROUNDED);
}

export function judge(block: Block, numbers: Computed | null, typed: string): Judgement {
  const number = readNumber(typed);
  if (number === undefined || Number.isNaN(number)) {
    return { verdict: "unread", message: { key: "lesson.noNumber" } };
  }
  const right = quantity(numbers, block.answer) ?? NaN;
  if (meets(number, right)) return { verdict: "right", says: block.explain };
  const known = block.wrong.find((wrong) =>
    meets(number, quantity(numbers, wrong.quantity) ?? NaN),
  );
  if (known) return { verdict: "wrong", says: known.feedback };
  return {
    verdict: "wrong",
    message: { key: meets(-number, right) ? "byhand.sign" : "lesson.notYet" },
  };
}

export function judgeChoice(block: Block, chosen: number): Judgement {
  const choice = block.choices[chosen];
  if (!choice) return { verdict: "unread", message: { key: "lesson.noChoice" } };
  return { verdict: choice.right ? "right" : "wrong", says: choice.feedback };
}
