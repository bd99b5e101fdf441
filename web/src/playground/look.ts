// What is seen of a network that is being trained: how its numbers are spread, layer by layer, and
// what that means. Everything is measured on the whole data set and on the last step's gradients.

import type { Message } from "../engine/types";
import { general } from "../engine/numbers";
import type { Trainer } from "./train";

const BINS = 32;

export interface LayerLook {
  activations: number[]; // how many fall into each bin
  gradients: number[];
  zeros: number; // gradients that are exactly 0
  dead: number; // units that give 0 at every point
  units: number;
  median: number; // of the other gradients' sizes
}

export interface Look {
  step: number;
  loss: number; // of the last step's batch
  right: number; // points that are put into their class
  wrong: Set<number>; // the others
  range: [number, number]; // of the activations' bins
  powers: [number, number]; // of ten: of the gradients' bins
  layers: LayerLook[];
  findings: Message[];
}

export function lookAt(trainer: Trainer): Look {
  const { model, points, settings, losses } = trainer;
  const nodes = model.layers.flatMap(({ units }) => units);
  const all = trainer.valuesAt(points, nodes);
  const range = rangeOf(settings.activation, all, nodes, model.layers.at(-1)!.outputs);
  const powers = powersOf(trainer);
  let from = 0;
  const layers = model.layers.map(({ units, parameters }) => {
    const found = layerLook(all, nodes.length, from, units.length, points.length, range);
    from += units.length;
    return { ...found, ...gradientLook(trainer.gradients.subarray(...parameters), powers) };
  });
  const [step, loss, wrong] = [trainer.steps, losses.at(-1) ?? NaN, trainer.wrong()];
  const look = { step, loss, right: points.length - wrong.size, wrong, range, powers, layers };
  return { ...look, findings: findingsOf(trainer, look) };
}

/** From 10⁻¹⁰, or as far down as gradients go, to 100. */
function powersOf({ gradients }: Trainer): [number, number] {
  const sizes = Array.from(gradients, Math.abs).filter((size) => size > 0);
  const lowest = sizes.reduce((least, size) => Math.min(least, size), 1);
  return [Math.min(-10, 5 * Math.floor(Math.log10(lowest) / 5)), 2];
}

/** Where the activation keeps its results, or as far as the hidden units' numbers go. */
function rangeOf(
  activation: string,
  all: Float64Array,
  nodes: number[],
  outputs: number,
): [number, number] {
  if (activation === "sigmoid") return [0, 1];
  if (activation === "tanh") return [-1, 1];
  let [low, high] = [0, 0];
  for (let i = 0; i < all.length; i++) {
    if (i % nodes.length >= nodes.length - outputs || !Number.isFinite(all[i]!)) continue;
    low = Math.min(low, all[i]!);
    high = Math.max(high, all[i]!);
  }
  return low === high ? [0, 1] : [low, high];
}

function layerLook(
  all: Float64Array,
  stride: number,
  from: number,
  units: number,
  points: number,
  [low, high]: [number, number],
): Pick<LayerLook, "activations" | "dead" | "units"> {
  const activations = new Array<number>(BINS).fill(0);
  let dead = 0;
  for (let unit = 0; unit < units; unit++) {
    let alive = false;
    for (let at = 0; at < points; at++) {
      const value = all[at * stride + from + unit]!;
      alive ||= value !== 0;
      count(activations, (value - low) / (high - low));
    }
    if (!alive) dead += 1;
  }
  return { activations, dead, units };
}

/** Add one to the bin at a part of the way; what lies outside is counted at the ends. */
function count(bins: number[], part: number): void {
  if (Number.isNaN(part)) return;
  bins[Math.min(bins.length - 1, Math.max(0, Math.floor(part * bins.length)))]! += 1;
}

function gradientLook(
  gradients: Float64Array,
  [low, high]: [number, number],
): Pick<LayerLook, "gradients" | "zeros" | "median"> {
  const bins = new Array<number>(BINS).fill(0);
  const sizes = Array.from(gradients, Math.abs);
  let zeros = 0;
  for (const size of sizes) {
    if (size === 0) zeros += 1;
    else count(bins, (Math.log10(size) - low) / (high - low));
  }
  // Weights of a pixel that is never lit have gradient 0 in a healthy network, too.
  const others = sizes.filter((size) => size !== 0).sort((one, other) => one - other);
  return { gradients: bins, zeros, median: others[others.length >> 1] ?? 0 };
}

const FAR = 1e4; // how far the gradients of two layers must be apart to be worth a word

function findingsOf(trainer: Trainer, look: Omit<Look, "findings">): Message[] {
  const { settings } = trainer;
  const { layers, step, loss } = look;
  const found: Message[] = [];
  const say = (key: string, values: Message["values"] = {}): void => {
    found.push({ key: `play.${key}`, values });
  };
  const hidden = layers.slice(0, -1);
  const dead = hidden.reduce((sum, layer) => sum + layer.dead, 0);
  const units = hidden.reduce((sum, layer) => sum + layer.units, 0);
  if (dead) say("dead", { count: dead, units, activation: settings.activation });
  if (!step) return found;
  if (!Number.isFinite(loss)) {
    const since = trainer.losses.findIndex((one) => !Number.isFinite(one)) + 1;
    say("broken", { loss: general(loss), since });
    return found;
  }
  const [first, last] = [layers[0]!.median, layers.at(-1)!.median];
  if (last > 0 && first < last / FAR) {
    const values = { first: general(first, 2), last: general(last, 2) };
    if (first > 0) {
      const factor = general((first / last) ** (1 / settings.depth), 2);
      say("vanishing", { ...values, factor });
    } else say("nothing", values);
  }
  if (first > last * FAR && last > 0) {
    say("exploding", { first: general(first, 2), last: general(last, 2) });
  }
  if (!settings.zero) say("stale", { count: step });
  if (settings.init === "zero") say("alike");
  return found;
}
