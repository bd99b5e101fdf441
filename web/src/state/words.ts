// Every sentence on the page comes from here: see "Words" in docs/develop/studio-design.md.

import { signal } from "@preact/signals";

import type { Message } from "../engine/types";
import { announced } from "./announce";
import { load } from "./beside";
import { dataBlock } from "./boot";
import { remember } from "./storage";

export type Values = Record<string, string | number>;

type Words = Record<string, string>;

/** English stands in the page itself: every other language falls back to it. */
const inEnglish = dataBlock("words") as Words;

export const language = signal("en");
const words = signal(inEnglish);
const plural = signal(new Intl.PluralRules("en"));

/**
 * The words of a key, with `{name}` filled in. Where `values.count` is given, `key.one` or
 * `key.other` (the language's plural forms) is preferred. A key nobody wrote shows as itself.
 */
export function say(key: string, values: Values = {}): string {
  const forms = "count" in values ? [`${key}.${plural.value.select(Number(values.count))}`] : [];
  const text = find([...forms, key, `${key}.other`]) ?? key;
  return text.replace(/\{(\w+)\}/g, (whole, name: string) =>
    name in values ? String(values[name]) : whole,
  );
}

export function sayMessage(message: Message): string {
  return say(message.key, message.values);
}

/** Whether there are words for a key: for what is optional. */
export function hasWords(key: string): boolean {
  return find([key]) !== undefined;
}

function find(keys: string[]): string | undefined {
  const own = words.value;
  const key = keys.find((k) => Object.hasOwn(own, k));
  if (key !== undefined) return own[key];
  const fallback = keys.find((k) => Object.hasOwn(inEnglish, k));
  return fallback === undefined ? undefined : inEnglish[fallback];
}

let wanted = "en"; // the language asked for last: an answer that comes late is not used

/** Load and use a language. Throws where its words cannot be fetched. */
export async function speak(name: string): Promise<void> {
  wanted = name;
  const address = `lessons/${encodeURIComponent(name)}/strings.json`;
  const found = name === "en" ? inEnglish : ((await (await load(address)).json()) as Words);
  if (wanted === name) use(name, found);
}

function use(name: string, found: Words): void {
  words.value = found;
  language.value = name;
  try {
    plural.value = new Intl.PluralRules(name);
  } catch {
    plural.value = new Intl.PluralRules("en"); // a made-up language
  }
  announced.value = ""; // what was said was said in another language
  document.documentElement.lang = name;
  document.documentElement.dir = say("language.direction");
  remember("language", name);
}
