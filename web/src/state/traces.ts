// Opening traces: files, live sessions of a server, what the page was started with, presets.

import { batch, signal } from "@preact/signals";

import { Fault, type Finding, nodeName, readTrace, type Trace } from "../trace/description";
import { readTraceFile } from "../trace/file";
import { type LiveGraph, liveGraph } from "../trace/scalars";
import {
  type ArraySource,
  type EncodedArray,
  encodedArrays,
  noArrays,
  servedArrays,
} from "../trace/source";
import { openLink, originNow } from "./address";
import { announce } from "./announce";
import { boot, type BootDocument } from "./boot";
import { ask, hasServer, ServerError } from "./server";
import type { Origin } from "./stage";
import { writeAddress } from "./storage";
import { notify, place, stage } from "./studio";
import { measureDrawing, type TraceDocument, traceStage } from "./trace";
import { say } from "./words";

/** A line of GET api/sessions. */
export interface SessionLine {
  id: string;
  title: string;
  scalar: boolean;
  nodes: number;
}

export const sessions = signal<SessionLine[]>([]);
export const opening = signal(false);

/** What was opened last, for exports. */
let latest: Opened | undefined;

const largestUpload = 64 << 20;
const exportBudget = 11 << 20; // of arrays as text: 8 MiB of bytes, as in studio/exporting.py

interface Opened {
  title: string;
  description: unknown;
  origin: Origin;
  arrays: ArraySource;
  session?: string;
  file?: Blob;
}

/** Show a trace: numbers on the stage, where they are live; else where traces are shown. */
export function openDescription(opened: Opened, keep = false): void {
  const trace = readTrace(opened.description);
  latest = opened;
  const live = liveGraph(trace);
  batch(() => {
    if (live) {
      const { graph, given } = live;
      stage.open({ origin: opened.origin, graph, given, assumed: [] });
      place.value = { kind: "graph" };
    } else {
      traceStage.show({ ...opened, trace }, keep);
      place.value = { kind: "trace" };
    }
  });
  announce(say("page.opened", { title: opened.title, count: trace.nodes.length }));
  if (trace.comparison) return; // it has its findings
  if (!live) void askPython(traceStage.document.value!);
  else if (opened.session || opened.file) void askAboutNumbers(opened, trace, live);
}

/** As `openers.trace` of state/studio.ts. */
export function openTrace(title: string, description: unknown, origin: Origin): void {
  const first = boot.document;
  const own = first?.kind === "trace" && first.trace === description;
  const arrays = own ? encodedArrays(first.arrays ?? {}) : noArrays;
  void measured(async () => openDescription({ title, description, origin, arrays }));
}

export async function openFile(file: File): Promise<void> {
  const title = file.name.replace(/\.\w+$/, "");
  await measured(async () => {
    const { description, arrays } = await readTraceFile(file);
    openDescription({ title, description, arrays, file, origin: { kind: "trace", title } });
  });
}

export async function openSession(id: string): Promise<void> {
  await measured(async () => {
    const below = `sessions/${id}/`;
    const [description] = await Promise.all([ask<unknown>(`${below}trace`), listSessions()]);
    const title = sessions.value.find((session) => session.id === id)?.title || id;
    const arrays = servedArrays((path) => ask(below + path));
    const origin: Origin = { kind: "trace", title, session: id };
    openDescription({ title, description, arrays, session: id, origin });
  });
}

/** The session that the page was started with; `otherwise` where it cannot be had. */
export function openFirstSession(id: string, otherwise: () => void): void {
  const link = location.hash; // the address follows what is shown, and that is nothing yet
  place.value = { kind: "trace" };
  void openSession(id).then(() => {
    const origin = originNow();
    if (origin.kind === "trace" && origin.session === id) openLink(link);
    else if (!traceStage.document.value && place.value.kind === "trace") otherwise();
  });
}

export async function listSessions(): Promise<void> {
  if (hasServer) sessions.value = await ask<SessionLine[]>("sessions");
}

/** Do it, tell what went wrong, and note how long it took until it was drawn. */
async function measured(open: () => Promise<void>): Promise<void> {
  const start = performance.now();
  opening.value = true;
  try {
    await open();
    measureDrawing("trace", start);
  } catch (error) {
    tell(error);
  } finally {
    opening.value = false;
  }
}

function tell(error: unknown): void {
  const values = { error: (error as Error).message };
  notify(error instanceof Fault ? error.told : { key: "trace.fault.other", values });
}

// -- what Python says -----------------------------------------------------------------------------

/** Findings of `health`, where there is a server; a trace that it has not got is sent to it. */
async function findingsOf(opened: Opened): Promise<Finding[]> {
  if (!opened.session) {
    opened.session = await upload(opened);
    if (opened.file && originNow() === opened.origin) {
      Object.assign(originNow(), { session: opened.session });
      writeAddress(`?session=${opened.session}${location.hash}`); // loaded again, it is shown again
    }
  }
  return ask<Finding[]>(`sessions/${opened.session}/health`);
}

async function askPython(document: TraceDocument): Promise<void> {
  if (!hasServer) return;
  const { findings, noFindings } = traceStage;
  const isOpen = (): boolean => traceStage.document.value === document;
  await findingsOf(document).then(
    (found) => {
      document.findings = found;
      if (isOpen()) findings.value = found;
    },
    (error: Error) => isOpen() && (noFindings.value = error.message),
  );
}

/** Numbers are drawn where there is no list of findings: they are told, and the first is shown. */
async function askAboutNumbers(
  opened: Opened,
  trace: Trace,
  { graph, place: at }: LiveGraph,
): Promise<void> {
  if (!hasServer) return;
  const scene = stage.scene.value;
  const found = await findingsOf(opened).catch(() => []); // it can be walked all the same
  if (stage.scene.value !== scene) return;
  for (const { line, nodes, ...values } of found) {
    const node = at.get(nodes[0]!);
    if (node !== undefined) {
      // Without a label it has a name of its own here.
      values.text = values.text.replace(nodeName(trace, nodes[0]!), graph.nodes[node]!.label);
      if (!stage.selection.value) stage.selectNode(node);
    }
    const { title } = opened;
    notify({ key: "trace.found", values: { ...values, title, line: line ? `(${line})` : "" } });
  }
}

async function upload({ file, title, description }: Opened): Promise<string> {
  const sent = file ?? new Blob([JSON.stringify(description)]);
  if (sent.size > largestUpload) throw new ServerError(413, say("trace.tooLarge"));
  return (await ask<{ id: string }>(`sessions?title=${encodeURIComponent(title)}`, sent)).id;
}

/** A question about a node of the trace that is open; throws what the server says. */
export function askAbout<Answer>(
  question: "why" | "element" | "open",
  body: object,
): Promise<Answer> {
  return ask<Answer>(`sessions/${traceStage.document.value!.session}/${question}`, body);
}

/** Open what Python answered, and keep what is open now to go back to. */
export function openAnswer(title: string, description: unknown): void {
  const origin: Origin = { kind: "trace", title };
  const opened: Opened = { title, description, arrays: noArrays, origin };
  void measured(async () => openDescription(opened, true));
}

// -- exports --------------------------------------------------------------------------------------

/** What is open as a page boots from it; of arrays the smallest, as many as there is room for. */
export async function traceDocument(): Promise<BootDocument | null> {
  const found = place.value.kind === "trace" ? traceStage.document.value : latest;
  if (!found) return null;
  const { title, arrays, session } = found;
  if (session) return ask<BootDocument>(`sessions/${session}/document`);
  const trace = structuredClone(found.description);
  const named: { array?: string; statistics: { count: number } }[] = [];
  JSON.stringify(trace, (_key, value: (typeof named)[0] | null) => {
    if (typeof value?.array === "string" && value.statistics) named.push(value);
    return value;
  });
  const kept: Record<string, EncodedArray> = {};
  let room = exportBudget;
  for (const entry of named.sort((a, b) => a.statistics.count - b.statistics.count)) {
    const name = entry.array!;
    if (Object.hasOwn(kept, name)) continue;
    const found = entry.statistics.count > room ? null : await arrays.whole?.(name);
    if (found && found.base64.length <= room) {
      room -= found.base64.length;
      kept[name] = found;
    } else delete entry.array;
  }
  return { kind: "trace", title, trace, arrays: kept };
}
