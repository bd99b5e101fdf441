// The page as a whole: what is open, how it looks, and what it has to tell.

import { batch, effect, signal } from "@preact/signals";

import { notesOf, parse } from "../engine/expressions";
import { tables } from "../engine/tables";
import type { Message, Mistake } from "../engine/types";
import { announce } from "./announce";
import { type Origin, Stage } from "./stage";
import { recall, remember } from "./storage";
import { say } from "./words";

/** What fills the page: the stage, a trace of tensors, the lessons. See view/places.ts. */
export interface Place {
  kind: string; // "graph" is the stage
  id?: string; // of a lesson, a session, ...
  at?: string; // where in it
}

export type Theme = "auto" | "light" | "dark";

export const stage = new Stage();
export const place = signal<Place>({ kind: "graph" });
/** The panel beside the graph: a name of view/panels.ts. */
export const defaultPanel = "inspect";
export const panel = signal(defaultPanel);
export const theme = signal<Theme>(recall<Theme>("theme") ?? "auto");
/** Graph as a drawing or as a table. */
export const asTable = signal(false);
export const helpOpen = signal(false);
/** The graph alone fills the screen, with large type. */
export const presenting = signal(false);
/** What must be told and does not go away by itself. */
export const notices = signal<Message[]>([]);
/** What is wrong with what was typed, and the text it is about. */
export const mistake = signal<{ source: string; mistake: Mistake } | null>(null);

/** What its author may not have meant, of the expression that is open. */
export const remarks = signal<Message[]>([]);

effect(() => {
  const root = globalThis.document?.documentElement;
  if (!root) return;
  if (theme.value === "auto") delete root.dataset.theme;
  else root.dataset.theme = theme.value;
});

/** Show the graph alone, on the whole screen where the browser lets us; or the page again. */
export function present(wanted: boolean): void {
  presenting.value = wanted;
  document.documentElement.toggleAttribute("data-presenting", wanted);
  if (wanted) document.documentElement.requestFullscreen?.().catch(() => undefined);
  else if (document.fullscreenElement) void document.exitFullscreen();
}

export function setTheme(wanted: Theme): void {
  theme.value = wanted;
  remember("theme", wanted);
}

export function notify(...messages: Message[]): void {
  notices.value = [...notices.value, ...messages];
}

export function dismissNotices(): void {
  notices.value = [];
}

/** Open a preset on the stage; says whether there is one. */
export function openPreset(id: string): boolean {
  const preset = tables.presets.find((p) => p.id === id);
  if (!preset) return false;
  if (preset.kind === "expression") {
    return openSource(preset.source, preset.values, { kind: "preset", id });
  }
  openers.trace(say(`preset.${id}.title`), preset.trace, { kind: "preset", id });
  return true;
}

/**
 * Open what was typed; where it is wrong, `mistake` says so and what is open stays. Of `values` the
 * leaves' are used; with `typed` only of leaves that the source gives no number.
 */
export function openSource(
  source: string,
  values: Record<string, number> = {},
  origin: Origin = { kind: "expression", source },
  typed = false,
): boolean {
  const found = parse(source, values, typed);
  if ("mistake" in found) {
    mistake.value = { source, mistake: found.mistake };
    return false;
  }
  const { graph, values: given, assumed } = found;
  batch(() => {
    mistake.value = null;
    remarks.value = origin.kind === "expression" ? notesOf(found) : [];
    place.value = { kind: "graph" };
    stage.open({ origin, graph, given, assumed });
  });
  announce(say("page.opened", { title: titleOf(origin), count: graph.nodes.length }));
  return true;
}

/** How other kinds of document are opened; the parts that can do it put themselves here. */
export const openers = {
  trace: (_title: string, _description: unknown, _origin: Origin): void => {
    notify({ key: "page.noTraces" });
  },
};

export function titleOf(origin: Origin): string {
  if (origin.kind === "preset") return say(`preset.${origin.id}.title`);
  if (origin.kind === "trace" || origin.kind === "point") return origin.title;
  return (origin.kind === "expression" && origin.title) || say("page.ownGraph");
}
