// What is open as a link, and what a link opens. history.ts keeps the address and the page together.

import { batch } from "@preact/signals";

import { leavesOf } from "../engine/graph";
import { AGAIN } from "../engine/order-steps";
import { pathOf } from "../engine/why";
import type { Message } from "../engine/types";
import {
  edgeToken,
  findNode,
  findSelection,
  type Link,
  nodeToken,
  pathToken,
  readLink,
  writeLink,
} from "./links";
import { token } from "./server";
import type { Origin, Stage } from "./stage";
import {
  defaultPanel,
  mistake,
  notify,
  openPreset,
  openSource,
  panel,
  place,
  stage,
} from "./studio";
import { traceStage } from "./trace";
import { language, speak } from "./words";

const again = "-"; // in an order: backward is called once more

/** What to open when nothing is named. */
const firstPreset = "neuron";
const untouched = stage.scene.peek();

/** The link to what is on the page now. */
export function currentLink(): Link {
  const found: Link = {};
  if (language.value !== "en") found.lang = language.value;
  if (place.value.kind === "lesson") {
    return { ...found, lesson: place.value.id, at: place.value.at };
  }
  if (place.value.kind === "playground") return { ...found, train: place.value.id };
  if (place.value.kind === "trace") return { ...found, ...traceStage.link() };
  const { origin, given: opened } = stage.scene.value;
  if (origin.kind === "trace" && !origin.session) return found; // no link can hold a recording
  const graph = stage.graph.value;
  const given = leavesOf(stage.scene.value.graph).map((leaf) => opened[leaf]);
  if (origin.kind === "preset") found.preset = origin.id;
  if (origin.kind === "point") {
    const { train, trained, point } = origin;
    return { ...found, train, trained, point, step: stage.position.value || undefined };
  }
  if (origin.kind === "expression") found.source = origin.source;
  const values = stage.numbers.value.values;
  found.set = leavesOf(graph).flatMap((leaf, i): [string, number][] =>
    origin.kind !== "expression" && Object.is(values[leaf], given[i])
      ? []
      : [[nodeToken(graph, leaf), values[leaf]!]],
  );
  found.open = stage.opened.value.map(({ label }) => label);
  // Every walk begins at 0, but in the lab.
  found.step = panel.value === "order" ? stage.position.value : stage.position.value || undefined;
  found.select = selectionToken(stage);
  if (panel.value !== defaultPanel) found.panel = panel.value;
  found.drawing = stage.drawing.value;
  found.order = stage.order.value?.map((node) => (node === AGAIN ? again : nodeToken(graph, node)));
  found.overwrite = stage.overwrite.value;
  return found;
}

export function selectionToken({ selection, graph }: Stage): string | undefined {
  const selected = selection.value;
  if (!selected) return undefined;
  if (selected.kind === "node") return nodeToken(graph.value, selected.node);
  if (selected.kind === "edge") return edgeToken(graph.value, selected.edge);
  return pathToken(graph.value, selected.path.edges);
}

/** Where what is on the page now came from. */
export function originNow(): Origin {
  const traced = place.value.kind === "trace" ? traceStage.document.value : null;
  return (traced ?? stage.scene.value).origin;
}

/** Whether the page lies on this computer: its address opens nothing elsewhere. */
export const isLocal = (): boolean =>
  location.protocol === "file:" || /^(localhost|127\.\d+\.\d+\.\d+|\[::1\])$/.test(location.hostname);

/** The whole address of what is on the page now, for sharing; and what must be said of it. */
export function currentAddress(): { address: string; note?: Message } {
  const link = writeLink(currentLink());
  const page = location.href.replace(/#.*$/, "");
  const origin = originNow();
  if (place.value.kind === "lesson" || origin.kind !== "trace") return { address: page + link };
  if (!origin.session) return { address: page + link, note: { key: "share.recording" } };
  // Only who has the token may see a session.
  const address = `${page}#token=${token}${link.replace("#", "&")}`;
  return { address, note: { key: "share.session" } };
}

/** Show what a link names. What cannot be shown is told; the rest is. */
export function openLink(fragment: string): void {
  const { link, problems } = readLink(fragment);
  batch(() => {
    notify(...problems);
    if (link.panel) panel.value = link.panel; // in a lesson too: of the graph behind it
    if (link.lang) {
      const wanted = link.lang;
      speak(wanted).catch(() => notify({ key: "page.noLanguage", values: { name: wanted } }));
    }
    if (link.lesson) {
      if (stage.scene.peek() === untouched) openPreset(firstPreset); // what lies behind the lesson
      place.value = { kind: "lesson", id: link.lesson, at: link.at };
      return;
    }
    if (link.train !== undefined) {
      if (stage.scene.peek() === untouched) openPreset(firstPreset);
      const at = [link.trained ?? 0, link.point, link.step].filter((part) => part !== undefined);
      const named = link.trained !== undefined || link.point !== undefined;
      place.value = { kind: "playground", id: link.train, at: named ? at.join(".") : undefined };
      return;
    }
    openGraph(link);
  });
}

function openGraph(link: Link): void {
  const set = Object.fromEntries(link.set ?? []);
  // A recording has no name in a link: what a link says without one is about what is open.
  if (originNow().kind === "trace" && !link.preset && link.source === undefined) {
    for (const [name, value] of link.set ?? []) setByName(name, value);
  } else if (link.source !== undefined) {
    if (!openSource(link.source, set)) {
      const wrong = mistake.value; // shown where it would have been typed
      openPreset(firstPreset);
      mistake.value = wrong;
      panel.value = "type";
      return;
    }
    const labels = new Set(stage.graph.value.nodes.map((node) => (node.op ? "" : node.label)));
    for (const [name] of link.set ?? []) {
      if (!labels.has(name)) notify({ key: "link.noLeaf", values: { name } });
    }
  } else {
    const preset = link.preset ?? firstPreset;
    if (!openPreset(preset)) {
      notify({ key: "link.noPreset", values: { name: preset } });
      openPreset(firstPreset);
    }
    for (const [name, value] of link.set ?? []) setByName(name, value);
    stage.forgetChange();
  }
  if (place.value.kind === "trace" && !traceStage.follow(link)) {
    notify({ key: "link.noNode", values: { name: link.select! } });
  }
  if (place.value.kind !== "graph") return;
  panel.value = link.panel ?? defaultPanel;
  stage.drawing.value = link.drawing ?? "nodes";
  for (const name of link.open ?? []) stage.openNode(name);
  stage.overwrite.value = link.overwrite ?? false;
  openOrder(link.order);
  stage.lab.value = link.panel === "order";
  // The lab begins where values are known; an order is shown with its outcome.
  const start = stage.lab.value ? (link.order ? Infinity : stage.turn) : 0;
  stage.position.value = Math.min(link.step ?? start, stage.steps.value.length);
  if (link.select) openSelection(link.select);
}

function setByName(name: string, value: number): void {
  const leaf = findNode(stage.graph.value, name);
  if (leaf === undefined || stage.graph.value.nodes[leaf]!.op) {
    notify({ key: "link.noLeaf", values: { name } });
  } else stage.setLeaf(leaf, value);
}

function openOrder(names: string[] | undefined): void {
  const nodes = names?.map((name) => (name === again ? AGAIN : findNode(stage.graph.value, name)));
  if (nodes?.some((node) => node === undefined)) {
    notify({ key: "link.noNode", values: { name: (names ?? []).join(", ") } });
  } else stage.order.value = (nodes as number[] | undefined) ?? null;
}

export function openSelection(text: string): void {
  const found = findSelection(stage.graph.value, text);
  if (!found) notify({ key: "link.noNode", values: { name: text } });
  else if ("node" in found) stage.selectNode(found.node);
  else if ("edge" in found) stage.selectEdge(found.edge);
  else stage.selectPath(pathOf(stage.numbers.value, found.edges));
}
