// Opening traces: files, live sessions of a server, what the page was started with, presets.

import { batch, signal } from "@preact/signals";

import { Fault, readTrace } from "../trace/description";
import { readTraceFile } from "../trace/file";
import { liveGraph } from "../trace/scalars";
import {
  type ArraySource,
  encoded,
  type EncodedArray,
  encodedArrays,
  noArrays,
  servedArrays,
} from "../trace/source";
import { announce } from "./announce";
import { boot, type BootDocument } from "./boot";
import { ask, hasServer, ServerError } from "./server";
import type { Origin } from "./stage";
import { notify, place, stage } from "./studio";
import { type Finding, type TraceDocument, traceStage } from "./trace";
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
const exportBudget = 8 << 20; // bytes of arrays, as in studio/export.py

interface Opened {
  title: string;
  description: unknown;
  origin: Origin;
  arrays: ArraySource;
  session?: string;
  file?: Blob;
}

/** Show a trace: numbers on the stage, where they are live; anything else where traces are shown. */
export function openDescription(opened: Opened, keep = false): void {
  const trace = readTrace(opened.description);
  latest = opened;
  const live = liveGraph(trace);
  batch(() => {
    if (live) {
      stage.open({ origin: opened.origin, ...live, assumed: [] });
      place.value = { kind: "graph" };
    } else {
      traceStage.show({ session: "", ...opened, trace }, keep);
      place.value = { kind: "trace" };
    }
  });
  announce(say("page.opened", { title: opened.title, count: trace.nodes.length }));
  if (!live) void askPython(traceStage.document.value!);
}

/** As `openers.trace` of state/studio.ts. */
export function openTrace(title: string, description: unknown, origin: Origin): void {
  const first = boot.document;
  const own = first?.kind === "trace" && first.trace === description;
  const arrays = own ? encodedArrays(first.arrays ?? {}) : noArrays;
  told(() => openDescription({ title, description, origin, arrays }));
}

export async function openFile(file: File): Promise<void> {
  const title = file.name.replace(/\.\w+$/, "");
  await measured("gradwalk.trace", async () => {
    const { description, arrays } = await readTraceFile(file);
    openDescription({ title, description, arrays, file, origin: { kind: "trace", title } });
  });
}

export async function openSession(id: string): Promise<void> {
  await measured("gradwalk.trace", async () => {
    const below = `sessions/${encodeURIComponent(id)}/`;
    const [description] = await Promise.all([ask<unknown>(`${below}trace`), listSessions()]);
    const title = sessions.value.find((session) => session.id === id)?.title || id;
    const arrays = servedArrays((path) => ask(below + path));
    openDescription({ title, description, arrays, session: id, origin: { kind: "trace", title } });
    try {
      history.replaceState(null, "", `?session=${encodeURIComponent(id)}${location.hash}`);
    } catch {
      // In a frame: loaded again, it shows what was shown last.
    }
  });
}

/** The session that the page was started with; `otherwise` where it cannot be had. */
export function openFirstSession(id: string, otherwise: () => void): void {
  place.value = { kind: "trace" };
  void openSession(id).then(() => {
    if (!traceStage.document.value && place.value.kind === "trace") otherwise();
  });
}

export async function listSessions(): Promise<void> {
  if (hasServer) sessions.value = await ask<SessionLine[]>("sessions");
}

/** Do it, tell what went wrong, and note how long it took until it was drawn. */
async function measured(name: string, open: () => Promise<void>): Promise<void> {
  const start = performance.now();
  opening.value = true;
  try {
    await open();
    requestAnimationFrame(() => setTimeout(() => performance.measure(name, { start })));
  } catch (error) {
    tell(error);
  } finally {
    opening.value = false;
  }
}

function told(open: () => void): void {
  try {
    open();
  } catch (error) {
    tell(error);
  }
}

function tell(error: unknown): void {
  if (error instanceof Fault) notify(error.told);
  else
    notify({
      key: "trace.fault.other",
      values: { error: String((error as Error).message ?? error) },
    });
}

// -- what Python says -----------------------------------------------------------------------------

/** Findings of `health`, where there is a server; a trace that it has not got is sent to it. */
async function askPython(document: TraceDocument): Promise<void> {
  if (!hasServer) return;
  try {
    if (!document.session) document.session = await upload(document);
    const found = await ask<Finding[]>(`sessions/${document.session}/health`);
    if (traceStage.document.value === document) traceStage.findings.value = found;
  } catch (error) {
    if (traceStage.document.value === document)
      traceStage.noFindings.value = (error as Error).message;
  }
}

async function upload(document: TraceDocument): Promise<string> {
  const file = document.file ?? asFile(document.description);
  if (file.size > largestUpload) throw new ServerError(413, say("trace.tooLarge"));
  return (await ask<{ id: string }>("sessions", file)).id;
}

/** A description whose numbers all stand in it, as a trace file. */
function asFile(description: unknown): Blob {
  const header = { __metadata__: { gradwalk_trace: JSON.stringify(description) } };
  const text = new TextEncoder().encode(JSON.stringify(header));
  const length = new DataView(new ArrayBuffer(8));
  length.setBigUint64(0, BigInt(text.length), true);
  return new Blob([length.buffer, text]);
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
  told(() =>
    openDescription(
      { title, description, arrays: noArrays, origin: { kind: "trace", title } },
      true,
    ),
  );
}

// -- exports --------------------------------------------------------------------------------------

/** What is open as a page boots from it; of arrays the smallest, as many as there is room for. */
export async function traceDocument(): Promise<BootDocument | null> {
  const found = place.value.kind === "trace" ? traceStage.document.value : latest;
  if (!found) return null;
  const { title, description, arrays } = found;
  const kept: Record<string, EncodedArray> = {};
  let room = exportBudget;
  const named = [...arrayNames(description)].sort((a, b) => a[1] - b[1]);
  for (const [name, count] of named) {
    const found = count > room ? null : await arrays.bytes(name);
    if (!found || found.bytes.length > room) continue;
    room -= found.bytes.length;
    kept[name] = { dtype: found.dtype, shape: found.shape, base64: encoded(found.bytes) };
  }
  const known = (_key: string, value: unknown): unknown => {
    const { array, ...rest } = (value ?? {}) as { array?: unknown };
    return typeof array === "string" && "statistics" in rest && !(array in kept) ? rest : value;
  };
  return {
    kind: "trace",
    title,
    trace: JSON.parse(JSON.stringify(description, known)),
    arrays: kept,
  };
}

/** The arrays that a description names, and how many elements each has. */
function arrayNames(description: unknown): Map<string, number> {
  const found = new Map<string, number>();
  JSON.stringify(description, (_key, value: unknown) => {
    const { array, statistics } = (value ?? {}) as {
      array?: unknown;
      statistics?: { count: number };
    };
    if (typeof array === "string" && statistics) found.set(array, statistics.count);
    return value;
  });
  return found;
}
