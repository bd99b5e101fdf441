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
  /** All bytes of an array; null where only windows are to be had. */
  bytes(name: string): Promise<{ dtype: string; shape: Shape; bytes: Uint8Array } | null>;
}

export const mostAtOnce = 128; // rows or columns

/** The last two dimensions; a vector is one row, a number one row of one. */
export function grid(shape: Shape): [rows: number, columns: number] {
  return [shape.at(-2) ?? 1, shape.at(-1) ?? 1];
}

export function firstWindow(shape: Shape): Window {
  return windowAt(
    shape,
    shape.slice(0, -2).map(() => 0),
    0,
    0,
  );
}

export function windowAt(shape: Shape, at: number[], row: number, column: number): Window {
  const [rows, columns] = grid(shape);
  const part = (size: number, start: number): [number, number] => {
    const first = Math.max(0, Math.min(start, size - mostAtOnce));
    return [first, Math.min(size, first + mostAtOnce)];
  };
  return { at, rows: part(rows, row), columns: part(columns, column) };
}

/** Where the matrix of an index begins, counted in elements. */
function offsetOf(shape: Shape, at: number[]): number {
  const [rows, columns] = grid(shape);
  return shape.slice(0, -2).reduce((sum, size, i) => sum * size + (at[i] ?? 0), 0) * rows * columns;
}

/** Of an array that is all here. */
export function smallWindow({ shape, elements = [] }: Kept, window: Window): number[][] {
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
      const part = async (first: number, count: number): Promise<number[]> =>
        numbersOf(dtype, await slice((start + first) * size, (start + first + count) * size));
      const wide = columns[1] - columns[0];
      if (wide === width) {
        const all = await part(rows[0] * width, (rows[1] - rows[0]) * width);
        return range(rows).map((_, i) => all.slice(i * width, (i + 1) * width));
      }
      return Promise.all(range(rows).map((row) => part(row * width + columns[0], wide)));
    },
    async bytes(name) {
      const { dtype, shape, slice } = stored(name);
      return {
        dtype,
        shape,
        bytes: new Uint8Array(await slice(0, countOf(shape) * itemSize(dtype)!)),
      };
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
  const getter = `get${plain.endsWith("int64") ? "Big" : ""}${plain[0]!.toUpperCase()}${plain.slice(1)}`;
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
function upper(bits: number): number {
  const view = new DataView(new ArrayBuffer(4));
  view.setUint32(0, bits << 16);
  return view.getFloat32(0);
}

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

export function encoded(bytes: Uint8Array): string {
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
    bytes: async () => null,
  };
}

export const noArrays: ArraySource = encodedArrays({});
