// Every key of the page, in one table: the handler reads it, and so does the overlay of `?`.

import { signal } from "@preact/signals";

import type { Stage } from "./stage";
import { recall, remember } from "./storage";
import { asTable, helpOpen, place, present, presenting, stage as pageStage } from "./studio";
import { type TraceStage, traceStage } from "./trace";

export interface Binding {
  /** As in KeyboardEvent.key; "Shift+" in front of what has a name ("Shift+ArrowUp"). */
  keys: string[];
  word: string; // key of what it does
  group: string; // "walk", "view", "panels", "page": words "keys.<group>"
  place?: string; // where it works, in one or more places: else where the page's own graph is
  run: () => void;
}

/** In a lesson: the graph that has the focus, which the keys of walking act on. */
export const underHand = signal<Stage | null>(null);

const on = (act: (stage: Stage) => void) => (): void => act(underHand.value ?? pageStage);

const shown = "graph trace"; // both have a walk and a selection

/** A key that acts on whatever is walked here. */
function walking(
  key: string,
  word: string,
  act: (walker: Stage | TraceStage) => void,
  group = "walk",
): Binding {
  const walker = (): Stage | TraceStage =>
    underHand.value ?? (place.value.kind === "trace" ? traceStage : pageStage);
  return { group, keys: [key], word, place: shown, run: () => act(walker()) };
}

/** Whether a key does anything where we are. */
export function applies({ group, place: where = "graph" }: Binding): boolean {
  if (group === "page" || where.split(" ").includes(place.value.kind)) return true;
  return underHand.value !== null && (group === "walk" || group === "view");
}

const space = " ";

/** Single letters as keys disturb whoever dictates to the computer: they can be switched off. */
export const letterKeys = signal(recall<boolean>("letterKeys") ?? true);

export function setLetterKeys(on: boolean): void {
  letterKeys.value = on;
  remember("letterKeys", on);
}

export const bindings = signal<Binding[]>([
  walking("ArrowRight", "walk.doStep", (walker) => walker.step()),
  walking("ArrowLeft", "walk.doUndo", (walker) => walker.undo()),
  walking(space, "keys.play", (walker) => walker.togglePlay()),
  walking("Home", "walk.toStart", (walker) => walker.jump(0)),
  walking("End", "walk.toEnd", (walker) => walker.jump(Infinity)),
  walking("]", "walk.toPhaseEnd", (walker) => walker.endOfPhase()),
  walking("[", "walk.toPhaseStart", (walker) => walker.startOfPhase()),
  {
    group: "view",
    keys: ["e"],
    word: "keys.drawing",
    run: on((stage) => {
      stage.drawing.value = stage.drawing.value === "nodes" ? "edges" : "nodes";
    }),
  },
  {
    group: "view",
    keys: ["v"],
    word: "keys.table",
    place: shown,
    run: () => {
      asTable.value = !asTable.value;
    },
  },
  {
    group: "view",
    keys: ["p"],
    word: "present.start",
    run: () => present(!presenting.value),
  },
  walking(
    "Escape",
    "keys.unselect",
    (walker) => (presenting.value ? present(false) : walker.select(null)),
    "view",
  ),
  {
    group: "page",
    keys: ["?"],
    word: "keys.help",
    run: () => {
      helpOpen.value = !helpOpen.value;
    },
  },
]);

export function addBindings(...more: Binding[]): void {
  bindings.value = [...bindings.value, ...more];
}

export function removeBindings(...some: Binding[]): void {
  bindings.value = bindings.value.filter((binding) => !some.includes(binding));
}

/** Whether an element needs a key for itself. */
function keeps(target: EventTarget | null, key: string): boolean {
  if (!(target instanceof Element)) return false;
  if (target.closest("input:not([type=checkbox]), textarea, select, [contenteditable]"))
    return true;
  if (key === space || key === "Enter") {
    return target.closest("button, a, summary, input, [role=button], [role=tab]") !== null;
  }
  return (
    key.startsWith("Arrow") && target.closest("[role=tab], [role=menu], [data-arrows]") !== null
  );
}

export function handleKey(event: KeyboardEvent): void {
  if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey) return;
  const named = event.key.length > 1 && event.shiftKey;
  const key = named ? `Shift+${event.key}` : event.key;
  if (keeps(event.target, event.key)) return;
  if (!letterKeys.value && key.length === 1 && key !== space && key !== "?") return;
  if (document.querySelector("dialog[open]") && key !== "?") return; // a dialog has its own keys
  const found = bindings.value.find((binding) => binding.keys.includes(key) && applies(binding));
  if (!found) return;
  event.preventDefault();
  found.run();
}
