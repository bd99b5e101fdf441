// In a notebook the page stands in a frame, and the notebook keeps what Python reads and sets:
// where the walk is, what is selected, the leaves' numbers. A sandboxed frame can reach nothing
// around it, so they are told by messages; widget.ts is the other end. Nothing is told before it is
// asked for: where no widget is around the frame, the page is by itself.

import { batch, effect } from "@preact/signals";

import { leavesOf } from "../engine/graph";
import { openSelection, selectionToken } from "./address";
import { boot } from "./boot";
import { findNode } from "./links";
import { notify, place, stage, theme, type Theme } from "./studio";
import { traceStage } from "./trace";

/** A number that JSON cannot write is its name. */
type Written = number | string;

export interface Kept {
  position: number;
  steps: number;
  selection: string; // as in links
  values: Record<string, Written>;
}

/** What the page sends: what is otherwise than the notebook has it. */
export type Told = { gradwalk: "is" } & Partial<Kept>;

/** What the notebook sends: what it has kept, or what Python has changed. */
export type Wanted = { gradwalk: "set"; theme?: Theme } & Partial<Kept>;

export function followNotebook(): void {
  if (boot.mode !== "widget") return;
  document.documentElement.dataset.mode = boot.mode; // its style is denser
  if (parent === window) return;
  // What the notebook has, as far as we know. Only what differs is told: so what Python changes in
  // the meantime is not undone, and two views of one widget do not answer each other.
  let known: Partial<Kept> = {};
  const tell = (): void => {
    const now = keptNow();
    const news = Object.entries(now).filter(
      ([name, value]) => JSON.stringify(value) !== JSON.stringify(known[name as keyof Kept]),
    );
    if (news.length) parent.postMessage({ gradwalk: "is", ...Object.fromEntries(news) }, "*");
    known = now;
  };
  let following = false;
  addEventListener("message", ({ source, data }: MessageEvent<Wanted | null>) => {
    if (source !== parent || data?.gradwalk !== "set") return;
    batch(() => {
      known = { ...known, ...data };
      show(data);
    });
    if (following)
      tell(); // where what was wanted cannot be, what is
    else effect(tell);
    following = true;
  });
}

function keptNow(): Kept {
  const traced = place.value.kind === "trace";
  const walker = traced ? traceStage : stage;
  return {
    position: walker.position.value,
    steps: walker.steps.value.length,
    selection: (traced ? tracedToken() : selectionToken(stage)) ?? "",
    values: traced
      ? {}
      : Object.fromEntries(leaves().map(({ name, value }) => [name, written(value)])),
  };
}

function show({ position, selection, values, theme: wanted }: Wanted): void {
  if (wanted) theme.value = wanted;
  const traced = place.value.kind === "trace";
  if (values && !traced) setLeaves(values);
  const walker = traced ? traceStage : stage;
  if (position !== undefined && position !== walker.position.value) walker.jump(position);
  if (selection === undefined || selection === keptNow().selection) return;
  if (traced) selectTraced(selection);
  else if (selection) openSelection(selection);
  else stage.select(null);
}

function setLeaves(values: Record<string, Written>): void {
  const known = new Map(leaves().map((leaf) => [leaf.name, leaf]));
  const changed = Object.entries(values).filter(([name, to]) => {
    const leaf = known.get(name);
    if (!leaf) notify({ key: "notebook.noLeaf", values: { name } });
    return leaf && !equal(leaf.value, Number(to));
  });
  for (const [name, to] of changed) {
    stage.settle();
    stage.setLeaf(known.get(name)!.leaf, Number(to));
  }
  // What one change did is shown; of several at once there is no one prediction.
  if (changed.length > 1) stage.forgetChange();
  stage.settle();
}

/** The leaves by name; one that shares its name is ~ and its number, as in links. */
function leaves(): { name: string; leaf: number; value: number }[] {
  const { graph, values } = stage.numbers.value;
  return leavesOf(graph).map((leaf) => {
    const { label } = graph.nodes[leaf]!;
    const name = findNode(graph, label) === leaf ? label : `~${leaf}`;
    return { name, leaf, value: values[leaf]! };
  });
}

function tracedToken(): string | undefined {
  const selected = traceStage.selection.value;
  return selected?.kind === "node" ? tracedName(selected.node) : undefined;
}

function tracedName(node: number): string {
  const name = traceStage.name(node);
  const first = traceStage.trace.nodes.findIndex((_, other) => traceStage.name(other) === name);
  return first === node ? name : `~${node}`;
}

function selectTraced(token: string): void {
  if (!token) return traceStage.select(null);
  const node = traceStage.trace.nodes.findIndex((_, other) => tracedName(other) === token);
  if (node < 0) notify({ key: "notebook.noNode", values: { name: token } });
  else traceStage.reveal({ node });
}

const written = (value: number): Written => (Number.isFinite(value) ? value : String(value));

/** JSON knows one zero. */
const equal = (one: number, other: number): boolean =>
  one === other || (Number.isNaN(one) && Number.isNaN(other));
