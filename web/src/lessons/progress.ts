// What a learner has done, kept in the browser: by lesson and block, whatever the language.

import { signal } from "@preact/signals";

import { recall, remember, whenKeptElsewhere } from "../state/storage";

type Done = Record<string, string[]>; // by lesson: the ids of its blocks

const name = "lessons";

export const done = signal<Done>(kept());
whenKeptElsewhere(name, () => (done.value = kept()));

/** As it is in the browser now: another window may have added to it. */
function kept(): Done {
  const found = recall<Done>(name);
  return found && Object.values(found).every(Array.isArray) ? found : {};
}

// What is done in another window counts here at once.
globalThis.addEventListener?.("storage", () => (done.value = kept()));

function keep(lesson: string, ids: string[]): void {
  done.value = { ...done.value, ...kept(), [lesson]: ids };
  remember(name, done.value);
  dispatchEvent(new CustomEvent("gradwalk:progress", { detail: done.value })); // for scorm.ts
}

export function finish(lesson: string, id: string): void {
  const ids = new Set([...(done.value[lesson] ?? []), ...(kept()[lesson] ?? [])]);
  keep(lesson, [...ids.add(id)]);
}

export const isDone = (lesson: string, id: string): boolean =>
  done.value[lesson]?.includes(id) ?? false;

export const forget = (lesson: string): void => keep(lesson, []);

/** How many of so many; `tasks` are the ids there are, or their number. */
export function doneOf(lesson: string, tasks: string[] | number): number {
  const ids = done.value[lesson] ?? [];
  return typeof tasks === "number"
    ? Math.min(ids.length, tasks)
    : tasks.filter((id) => ids.includes(id)).length;
}
