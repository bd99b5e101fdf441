// The line that shows a teacher what a learner has done: see course/classroom/completion.py, which
// verifies it. SHA-256 is here because browsers offer theirs on secure pages only.

const form = "gradwalk-1";
const alphabet = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"; // Crockford's
const letters = 12;

export interface LessonCount {
  id: string;
  done: number;
  tasks: number;
}

/** A name as it stands in the line: one spelling of each letter, no bar. */
export const oneLine = (name: string): string =>
  name.normalize("NFC").replaceAll("|", " ").trim().split(/\s+/).join(" ");

export function completionLine(
  key: string,
  name: string,
  lessons: LessonCount[],
  date: string,
): string {
  const listed = lessons.map(({ id, done, tasks }) => `${id} ${done}/${tasks}`).join(", ");
  const fields = [form, oneLine(name), listed, date];
  return [...fields, codeOf(key, fields.join("\n"))].join(" | ");
}

function codeOf(key: string, message: string): string {
  const digest = hmac(utf8(key.trim()), utf8(message));
  let number = 0n;
  for (const byte of digest.slice(0, 8)) number = (number << 8n) | BigInt(byte);
  number >>= 4n; // 60 bits
  let code = "";
  for (let i = 0; i < letters; i++, number >>= 5n) code = alphabet[Number(number & 31n)] + code;
  return code.match(/.{4}/g)!.join("-");
}

const utf8 = (text: string): Uint8Array => new TextEncoder().encode(text);

function hmac(key: Uint8Array, message: Uint8Array): Uint8Array {
  const block = new Uint8Array(64);
  block.set(key.length > 64 ? sha256(key) : key);
  const padded = (byte: number): Uint8Array => block.map((x) => x ^ byte);
  return sha256(joined(padded(0x5c), sha256(joined(padded(0x36), message))));
}

function joined(one: Uint8Array, other: Uint8Array): Uint8Array {
  const both = new Uint8Array(one.length + other.length);
  both.set(one);
  both.set(other, one.length);
  return both;
}

/** The first 32 bits of the fractions of the roots of the first primes. */
function fractions(count: number, root: number): Uint32Array {
  const found: number[] = [];
  for (let n = 2; found.length < count; n++) {
    if ([...Array(n).keys()].slice(2).every((d) => n % d)) found.push((n ** root % 1) * 2 ** 32);
  }
  return Uint32Array.from(found);
}

export function sha256(data: Uint8Array): Uint8Array {
  const rounds = fractions(64, 1 / 3);
  const state = fractions(8, 1 / 2);
  const length = Math.ceil((data.length + 9) / 64) * 64;
  const padded = new Uint8Array(length);
  padded.set(data);
  padded[data.length] = 0x80;
  const view = new DataView(padded.buffer);
  view.setUint32(length - 8, Math.floor(data.length / 2 ** 29));
  view.setUint32(length - 4, data.length << 3);
  const w = new Uint32Array(64);
  const turn = (x: number, n: number): number => (x >>> n) | (x << (32 - n));
  for (let start = 0; start < length; start += 64) {
    for (let i = 0; i < 64; i++) {
      if (i < 16) w[i] = view.getUint32(start + 4 * i);
      else {
        const [a, b] = [w[i - 15]!, w[i - 2]!];
        const s = turn(a, 7) ^ turn(a, 18) ^ (a >>> 3);
        const t = turn(b, 17) ^ turn(b, 19) ^ (b >>> 10);
        w[i] = w[i - 16]! + s + w[i - 7]! + t;
      }
    }
    let [a, b, c, d, e, f, g, h] = state as unknown as number[] & { length: 8 };
    for (let i = 0; i < 64; i++) {
      const s = turn(e!, 6) ^ turn(e!, 11) ^ turn(e!, 25);
      const one = (h! + s + ((e! & f!) ^ (~e! & g!)) + rounds[i]! + w[i]!) | 0;
      const t = turn(a!, 2) ^ turn(a!, 13) ^ turn(a!, 22);
      const two = (t + ((a! & b!) ^ (a! & c!) ^ (b! & c!))) | 0;
      [h, g, f, e, d, c, b, a] = [g, f, e, (d! + one) | 0, c, b, a, (one + two) | 0];
    }
    [a, b, c, d, e, f, g, h].forEach((x, i) => (state[i] = state[i]! + x!));
  }
  const out = new DataView(new ArrayBuffer(32));
  state.forEach((x, i) => out.setUint32(4 * i, x));
  return new Uint8Array(out.buffer);
}
