// Files in one file: a zip without compression (pictures are compressed already).

export interface Entry {
  name: string;
  bytes: Uint8Array<ArrayBuffer>;
}

const table = Array.from({ length: 256 }, (_, i) => {
  let c = i;
  for (let bit = 0; bit < 8; bit++) c = c & 1 ? 0xedb88320 ^ (c >>> 1) : c >>> 1;
  return c >>> 0;
});

function crc32(bytes: Uint8Array<ArrayBuffer>): number {
  let c = 0xffffffff;
  for (const byte of bytes) c = table[(c ^ byte) & 255]! ^ (c >>> 8);
  return (c ^ 0xffffffff) >>> 0;
}

/** Numbers of 2 or 4 bytes, the low byte first. */
function packed(...fields: [value: number, size: 2 | 4][]): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array(fields.reduce((sum, [, size]) => sum + size, 0));
  let at = 0;
  for (const [value, size] of fields)
    for (let i = 0; i < size; i++) bytes[at++] = (value >>> (8 * i)) & 255;
  return bytes;
}

const inUtf8 = 0x0800; // of names
const someDay = 0x21; // 1 January 1980: the same walk gives the same file

/** The bytes of a zip, in parts. */
export function zip(entries: Entry[]): Uint8Array<ArrayBuffer>[] {
  const files: Uint8Array<ArrayBuffer>[] = [];
  const directory: Uint8Array<ArrayBuffer>[] = [];
  let offset = 0;
  const size = (parts: Uint8Array<ArrayBuffer>[]): number => parts.reduce((sum, part) => sum + part.length, 0);
  for (const { name, bytes } of entries) {
    const text = new TextEncoder().encode(name);
    const facts: [number, 2 | 4][] = [
      [20, 2], // the version that is needed
      [inUtf8, 2],
      [0, 2], // stored
      [0, 2], // time
      [someDay, 2],
      [crc32(bytes), 4],
      [bytes.length, 4],
      [bytes.length, 4],
      [text.length, 2],
      [0, 2],
    ];
    const file = [packed([0x04034b50, 4], ...facts), text, bytes];
    const rest: [number, 2 | 4][] = [[0, 2], [0, 2], [0, 2], [0, 4], [offset, 4]];
    directory.push(packed([0x02014b50, 4], [20, 2], ...facts, ...rest), text);
    files.push(...file);
    offset += size(file);
  }
  const end = packed(
    [0x06054b50, 4],
    [0, 2],
    [0, 2],
    [entries.length, 2],
    [entries.length, 2],
    [size(directory), 4],
    [offset, 4],
    [0, 2],
  );
  return [...files, ...directory, end];
}
