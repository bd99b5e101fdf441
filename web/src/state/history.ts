// The address of the page follows what is open, and what is open follows the address. Another graph,
// lesson, trace or panel is a new entry of the browser's history; a step is not.

import { batch, effect } from "@preact/signals";

import { currentLink, openLink, originNow } from "./address";
import { boot } from "./boot";
import { readLink, writeLink } from "./links";
import { historyEntry, writeAddress } from "./storage";
import { notify, panel, place, stage } from "./studio";
import { traceStage } from "./trace";

/** A frame shares its history with the page around it: there nothing is added. */
const framed = globalThis.window !== globalThis.parent;

const untouched = stage.scene.peek();

/** What the back button goes back to: a place, and what is open in it. */
function landmark(): unknown[] {
  const { kind, id } = place.value;
  if (kind === "trace") return [kind, traceStage.document.value];
  if (kind === "graph") return [kind, stage.scene.value, panel.value];
  if (kind === "playground") return [kind]; // its settings are no places
  return [kind, id];
}

/** Whether something was there already: what comes first is no place to go back to. */
const isPlace = ([kind, open]: unknown[]): boolean =>
  kind === "trace" ? open !== null : open !== untouched;

const same = (one: unknown[], other: unknown[]): boolean =>
  one.every((part, i) => part === other[i]);

/** A recording has no link: how to show it again. */
function wayBack(): (() => void) | undefined {
  const scene = stage.scene.peek();
  const traced = place.peek().kind === "trace" ? traceStage.document.peek() : null;
  if (traced) {
    return () => {
      if (traceStage.document.peek() !== traced) traceStage.show(traced);
      place.value = { kind: "trace" };
    };
  }
  if (place.peek().kind !== "graph" || scene.origin.kind !== "trace") return undefined;
  return () => {
    if (stage.scene.peek() !== scene) stage.open(scene);
    place.value = { kind: "graph" };
  };
}

/** Keep address and page together; `unnamed` opens something when the address names nothing. */
export function followAddress(unnamed: () => void): void {
  let written = location.hash;
  const recorded = boot.session !== null || boot.document?.kind === "trace";
  const named = /[#&](preset|source|lesson|train)=/.test(written);
  if (/[#&]v=/.test(written) && (named || !recorded)) openLink(written);
  else {
    unnamed();
    notify(...readLink(written).problems);
  }
  const ways = new Map<number | undefined, () => void>();
  let entry = historyEntry();
  let here = landmark();
  let waiting = 0;
  const write = (link: string): void => {
    if (location.hash !== written) return; // a link was followed, and its event is on the way
    const origin = originNow();
    // Loaded again, the page shows this session again.
    const session = origin.kind === "trace" && origin.session;
    const search = session ? `?session=${session}` : location.search;
    const now = landmark();
    const push = !framed && isPlace(here) && !same(here, now) && (link !== written || !!wayBack());
    writeAddress(location.pathname + search + link, push);
    written = location.hash;
    entry = historyEntry();
    here = now;
    const way = wayBack();
    if (way) ways.set(entry, way);
    else ways.delete(entry);
  };
  effect(() => {
    // Steps come quickly, and wait; another place is written at once: the page may be loaded again.
    const delay = same(here, landmark()) ? 150 : 0;
    const link = writeLink(currentLink());
    clearTimeout(waiting);
    waiting = setTimeout(write, delay, link);
  });
  const follow = (): void => {
    if (location.hash === written && historyEntry() === entry) return;
    written = location.hash;
    entry = historyEntry();
    batch(() => {
      ways.get(entry)?.();
      openLink(written);
    });
    here = landmark(); // we came here by the history: it has its entry
  };
  addEventListener("popstate", follow);
  addEventListener("hashchange", follow);
}
