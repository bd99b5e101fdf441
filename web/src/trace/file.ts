// A trace file is a safetensors file (docs/inspect/trace-file.md): the description is read at once, arrays
// only when they are shown.

import { countOf, Fault, itemSize, readShape } from "./description";
import { type ArraySource, type StoredArray, storedArrays } from "./source";

const longestHeader = 100_000_000; // the format's own limit
const kinds: Record<string, string> = { BF: "bfloat", F: "float", I: "int", U: "uint" };

type Stored = StoredArray & { start: number; stop: number };

/** The description, not yet checked, and where the arrays are; throws a `Fault`. */
export async function readTraceFile(
  file: Blob,
): Promise<{ description: unknown; arrays: ArraySource }> {
  const header = await readHeader(file);
  const { __metadata__: metadata, ...entries } = header.content;
  const arrays = readEntries(file, entries, header.end);
  const text = (metadata as Record<string, unknown> | undefined)?.gradwalk_trace;
  if (typeof text !== "string") throw new Fault("trace.fault.noTrace");
  let description = parsed(text) as { version?: unknown; beside?: unknown };
  if (typeof description?.beside === "string") {
    const beside = arrays.get(description.beside);
    if (!beside) throw new Fault("trace.fault.content", { where: "beside" });
    description = parsed(await beside.slice(0, beside.stop - beside.start)) as typeof description;
  }
  return { description, arrays: storedArrays((name) => arrays.get(name)) };
}

async function readHeader(file: Blob): Promise<{ content: Record<string, unknown>; end: number }> {
  if (file.size < 8) throw new Fault("trace.fault.short", { bytes: file.size });
  const view = new DataView(await file.slice(0, 8).arrayBuffer());
  const length = Number(view.getBigUint64(0, true));
  if (length > longestHeader || length < 2) throw new Fault("trace.fault.foreign");
  if (length > file.size - 8) {
    throw new Fault("trace.fault.cut", { needed: length + 8, bytes: file.size });
  }
  const content = parsed(await file.slice(8, 8 + length).arrayBuffer());
  if (typeof content !== "object" || content === null || Array.isArray(content)) {
    throw new Fault("trace.fault.foreign");
  }
  return { content: content as Record<string, unknown>, end: 8 + length };
}

/** The arrays lie one after the other, with nothing between and nothing after. */
function readEntries(
  file: Blob,
  entries: Record<string, unknown>,
  from: number,
): Map<string, Stored> {
  const found = new Map<string, Stored>();
  for (const [name, entry] of Object.entries(entries)) {
    const where = name.slice(0, 40);
    const { dtype, shape, data_offsets: offsets } = (entry ?? {}) as Record<string, unknown>;
    const [, kind = "", bits = ""] = /^(BF|[FIU])(\d+)$/.exec(String(dtype)) ?? [];
    const known = dtype === "BOOL" ? "bool" : `${kinds[kind]}${bits}`;
    const [start, stop] = (Array.isArray(offsets) ? offsets : []) as number[];
    const sizes = readShape(shape, where);
    // What is no number, or an unknown dtype, makes this NaN, which equals nothing.
    if (stop! - start! !== countOf(sizes) * (itemSize(known) ?? NaN)) {
      throw new Fault("trace.fault.content", { where });
    }
    found.set(name, {
      dtype: known,
      shape: sizes,
      start: start!,
      stop: stop!,
      slice: (first, last) => file.slice(from + start! + first, from + start! + last).arrayBuffer(),
    });
  }
  let end = 0;
  for (const { start, stop } of [...found.values()].sort(
    (a, b) => a.start - b.start || a.stop - b.stop,
  )) {
    if (start !== end) throw new Fault("trace.fault.content", { where: "data_offsets" });
    end = stop;
  }
  if (from + end !== file.size)
    throw new Fault("trace.fault.cut", { needed: from + end, bytes: file.size });
  return found;
}

/** JSON, as text or as its bytes. */
function parsed(content: string | ArrayBuffer): unknown {
  try {
    const text =
      typeof content === "string"
        ? content
        : new TextDecoder("utf-8", { fatal: true }).decode(content);
    return JSON.parse(text);
  } catch {
    throw new Fault("trace.fault.foreign");
  }
}
