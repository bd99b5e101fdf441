// Where the elements of arrays come from. Of a large one only the window that is shown is read.

import { countOf, Fault, itemSize, type Kept, sameShape, type Shape } from "./description";

/** Rows and columns of the last two dimensions, at an index of the others. */
export interface Window {
  at: number[];
  rows: [start: number, stop: number];
  columns: [start: number, stop: number];
}

export interface ArraySource {
  /** The elements of an array, row by row; what cannot be had throws. */
  read(kept: Kept, window: Window): Promise<number[][]>;
  /** All of an array, for an export; a server makes exports itself. */
  whole?(name: string): Promise<EncodedArray>;
}

export const mostAtOnce = 128; // rows or columns

/** The last two dimensions; a vector is one row, a number one row of one. */
export function grid(shape: Shape): [rows: number, columns: number] {
  return [shape.at(-2) ?? 1, shape.at(-1) ?? 1];
}

/** What is shown from a place on: indices of the outer dimensions, row and column; else 0. */
export function windowFrom(shape: Shape, place: number[] = []): Window {
  const at = shape.slice(0, -2).map((_, i) => place[i] ?? 0);
  const [rows, columns] = grid(shape).map((size, i): [number, number] => {
    const start = Math.max(0, Math.min(place[at.length + i] ?? 0, size - mostAtOnce));
    return [start, Math.min(size, start + mostAtOnce)];
  });
  return { at, rows: rows!, columns: columns! };
}

/** Where the matrix of an index begins, counted in elements. */
function offsetOf(shape: Shape, at: number[]): number {
  const [rows, columns] = grid(shape);
  return shape.slice(0, -2).reduce((sum, size, i) => sum * size + (at[i] ?? 0), 0) * rows * columns;
}

/** Of an array that is all here. */
export function smallWindow(
  { shape, elements = [] }: Pick<Kept, "shape" | "elements">,
  window: Window,
): number[][] {
  const columns = grid(shape)[1];
  const start = offsetOf(shape, window.at);
  return range(window.rows).map((row) =>
    range(window.columns).map((column) => elements[start + row * columns + column]!),
  );
}

const range = ([start, stop]: [number, number]): number[] =>
  Array.from({ length: stop - start }, (_, i) => start + i);

// -- bytes ----------------------------------------------------------------------------------------

export interface StoredArray {
  dtype: string;
  shape: Shape;
  /** Some of its bytes. */
  slice(start: number, stop: number): Promise<ArrayBuffer>;
}

/** Arrays whose bytes lie somewhere, in C order, the smallest first. */
export function storedArrays(find: (name: string) => StoredArray | undefined): ArraySource {
  const stored = (name: string): StoredArray => {
    const found = find(name);
    if (!found) throw new Error(name);
    return found;
  };
  return {
    async read(kept, { at, rows, columns }) {
      const { dtype, shape, slice } = stored(kept.array!);
      if (!sameShape(shape, kept.shape))
        throw new Fault("trace.fault.content", { where: kept.array! });
      const size = itemSize(dtype)!;
      const width = grid(shape)[1];
      const start = offsetOf(shape, at);
      const row = async (index: number): Promise<number[]> => {
        const first = start + index * width;
        const bytes = await slice((first + columns[0]) * size, (first + columns[1]) * size);
        return numbersOf(dtype, bytes);
      };
      return Promise.all(range(rows).map(row));
    },
    async whole(name) {
      const { dtype, shape, slice } = stored(name);
      const bytes = await slice(0, countOf(shape) * itemSize(dtype)!);
      return { dtype, shape, base64: encoded(bytes) };
    },
  };
}

/** How a DataView reads a dtype: getFloat32, getBigInt64. */
type Getter = "getFloat32" | "getBigInt64";

function numbersOf(dtype: string, bytes: ArrayBuffer): number[] {
  const size = itemSize(dtype)!;
  const view = new DataView(bytes);
  const short = dtype.endsWith("float16");
  const plain = dtype === "bool" ? "uint8" : short ? "uint16" : dtype;
  const big = plain.endsWith("int64") ? "Big" : "";
  const getter = `get${big}${plain[0]!.toUpperCase()}${plain.slice(1)}`;
  return Array.from({ length: bytes.byteLength / size }, (_, i) => {
    const number = Number(view[getter as Getter](i * size, true));
    return !short ? number : dtype === "float16" ? half(number) : upper(number);
  });
}

function half(bits: number): number {
  const sign = bits & 0x8000 ? -1 : 1;
  const exponent = (bits >> 10) & 31;
  const rest = bits & 1023;
  if (exponent === 31) return rest ? NaN : sign * Infinity;
  return exponent ? sign * (1 + rest / 1024) * 2 ** (exponent - 15) : sign * rest * 2 ** -24;
}

/** A bfloat16 is the upper half of a float32. */
const upper = (bits: number): number =>
  new Float32Array(new Uint32Array([bits << 16]).buffer)[0]!;

// -- base64 ---------------------------------------------------------------------------------------

export interface EncodedArray {
  dtype: string;
  shape: number[];
  base64: string;
}

/** Arrays inside the page itself: of an export. */
export function encodedArrays(arrays: Record<string, EncodedArray>): ArraySource {
  const decoded = new Map<string, StoredArray>();
  return storedArrays((name) => {
    const known = decoded.get(name);
    if (known || !Object.hasOwn(arrays, name)) return known;
    const { dtype, shape, base64 } = arrays[name]!;
    const bytes = Uint8Array.from(atob(base64), (sign) => sign.charCodeAt(0)).buffer;
    const found = {
      dtype,
      shape,
      slice: async (start: number, stop: number) => bytes.slice(start, stop),
    };
    decoded.set(name, found);
    return found;
  });
}

export function encoded(buffer: ArrayBuffer): string {
  const bytes = new Uint8Array(buffer);
  let found = "";
  for (let at = 0; at < bytes.length; at += 8192) {
    found += String.fromCharCode(...bytes.subarray(at, at + 8192));
  }
  return btoa(found);
}

// -- a server -------------------------------------------------------------------------------------

/** Arrays that a server has; `ask` fetches JSON from below the session's address. */
export function servedArrays(ask: (path: string) => Promise<unknown>): ArraySource {
  return {
    async read(kept, { at, rows, columns }) {
      const query = `at=${at.join(",")}&rows=${rows.join(":")}&columns=${columns.join(":")}`;
      const answer = await ask(`arrays/${encodeURIComponent(kept.array!)}?${query}`);
      const { values } = answer as { values: (number | string)[][] };
      return values.map((row) => row.map(Number)); // "NaN", "Infinity" and "-Infinity" are texts
    },
  };
}

export const noArrays: ArraySource = encodedArrays({});
