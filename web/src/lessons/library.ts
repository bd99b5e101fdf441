// Which lessons there are, and the one that is open: files beside the page.

import { batch, computed, effect, signal } from "@preact/signals";

import { load } from "../state/beside";
import { boot } from "../state/boot";
import { recall, remember } from "../state/storage";
import { place } from "../state/studio";
import { language } from "../state/words";
import { type Lesson, readLesson } from "./reader";

export interface Entry {
  id: string;
  title: string;
  minutes: number;
  order: number;
  tasks: number;
  language: string; // English, where there is no translation
}

interface Index {
  languages: Record<string, { lessons: Omit<Entry, "language">[] }>;
}

/** A page in one file, or in a notebook, has no files beside it. */
export const offered = boot.mode === "site" || boot.mode === "server";

/** What a link calls the list of all lessons. */
export const list = "index";

export const startOfLessons = `#v=1&lesson=${list}`;

/** Who comes for the first time begins with the lessons, who comes again where they were. */
export const startsWithLessons = (): boolean => offered && recall("start") !== "graph";

const index = signal<Index | null>(null);
export const failed = signal(false);

/** The lessons in their order; null while they are not known. */
export const entries = computed<Entry[] | null>(() => {
  if (!index.value) return null;
  const found = new Map<string, Entry>();
  for (const code of ["en", language.value]) {
    for (const entry of index.value.languages[code]?.lessons ?? []) {
      found.set(entry.id, { ...entry, language: code });
    }
  }
  return [...found.values()].sort((a, b) => a.order - b.order);
});

/** The lesson on the page. */
export const opened = signal<{ entry: Entry; lesson: Lesson } | null>(null);

export function openLesson(id: string): void {
  place.value = { kind: "lesson", id };
}

const wanted = computed(() =>
  place.value.kind === "lesson" && offered ? (place.value.id ?? list) : null,
);

/** Fetch what the place asks for, whenever that changes. */
export function followPlace(): void {
  effect(() => {
    const { kind } = place.value;
    if (offered) remember("start", kind === "lesson" ? kind : "graph");
  });
  effect(() => {
    if (wanted.value !== null && !index.value && !failed.value) {
      get("lessons/index.json", (text) => (index.value = JSON.parse(text) as Index));
    }
  });
  effect(() => {
    const entry = entries.value?.find(({ id }) => id === wanted.value);
    const shown = opened.peek();
    if (failed.value) return;
    if (!entry) opened.value = null;
    else if (shown?.entry.id !== entry.id || shown.entry.language !== entry.language) {
      if (shown?.entry.id !== entry.id) opened.value = null;
      get(`lessons/${entry.language}/${entry.id}.md`, (text) => {
        if (wanted.peek() === entry.id && entries.peek()?.includes(entry)) {
          opened.value = { entry, lesson: readLesson(text) };
        }
      });
    }
  });
}

function get(address: string, use: (text: string) => void): void {
  load(address)
    .then((answer) => answer.text())
    .then((text) =>
      batch(() => {
        failed.value = false;
        use(text);
      }),
    )
    .catch(() => (failed.value = true));
}
