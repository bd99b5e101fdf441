// An order of choices that says nothing about which is right, and is the same at every visit of a learner.

import { recall, remember } from "../state/storage";

const name = "learner";

/** A number of this learner's own, kept in the browser. */
export const learner: number = recall<number>(name) ?? drawn();

function drawn(): number {
  const [number] = globalThis.crypto.getRandomValues(new Uint32Array(1));
  remember(name, number);
  return number!;
}

/** The numbers below `count` in an order that depends on the learner and on the text alone. */
export function shuffled(count: number, text: string, seed = learner): number[] {
  const order = Array.from({ length: count }, (_, i) => i);
  let state = mixed(text, seed);
  for (let last = count - 1; last > 0; last--) {
    state = mixed("", state);
    const other = state % (last + 1);
    [order[last], order[other]] = [order[other]!, order[last]!];
  }
  return order;
}

/** A whole number below 2³² that every letter and the seed have changed (FNV-1a, then a finisher). */
function mixed(text: string, seed: number): number {
  let hash = (seed ^ 0x811c9dc5) >>> 0;
  for (const letter of text) hash = Math.imul(hash ^ letter.codePointAt(0)!, 0x01000193);
  hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b);
  hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35);
  return (hash ^ (hash >>> 16)) >>> 0;
}
