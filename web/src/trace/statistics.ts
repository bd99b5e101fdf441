// What is known of an array that was kept, in whatever form.

import { shortNumber } from "../engine/numbers";
import type { Kept, Statistics } from "./description";

const bins = 16;

/** As Python's `Statistics.of`; of a small array it is computed here. */
export function statisticsOf(kept: Kept): Statistics {
  if (kept.statistics) return kept.statistics;
  const all = kept.elements ?? [];
  const finite = all.filter(Number.isFinite);
  const sum = (numbers: number[]): number => numbers.reduce((total, number) => total + number, 0);
  const mean = sum(finite) / finite.length;
  const low = finite.length ? Math.min(...finite) : NaN;
  const high = finite.length ? Math.max(...finite) : NaN;
  const nans = all.filter(Number.isNaN).length;
  return {
    count: all.length,
    mean,
    std: Math.sqrt(sum(finite.map((number) => (number - mean) ** 2)) / finite.length),
    low,
    high,
    norm: Math.sqrt(sum(finite.map((number) => number * number))),
    zeros: finite.filter((number) => number === 0).length,
    nans,
    infs: all.length - finite.length - nans,
    histogram: histogram(finite, low, high),
  };
}

function histogram(numbers: number[], low: number, high: number): number[] {
  const scale = bins / (high - low);
  if (!(scale > 0 && scale < Infinity)) return [];
  const counts = new Array<number>(bins).fill(0);
  for (const number of numbers) counts[Math.min(bins - 1, Math.floor((number - low) * scale))]!++;
  return counts;
}

/** Root of the sum of squares: NaN or infinite where an element is. */
export function normOf(kept: Kept | null | undefined): number | undefined {
  if (!kept) return undefined;
  const { nans, infs, norm } = statisticsOf(kept);
  return nans ? NaN : infs ? Infinity : norm;
}

export function normText(kept: Kept | null | undefined): string {
  const norm = normOf(kept);
  return norm === undefined ? "·" : Number.isNaN(norm) ? "NaN" : shortNumber(norm);
}

/** Whether there is a NaN or an infinity in it. */
export function isBroken(kept: Kept | null | undefined): boolean {
  const { nans = 0, infs = 0 } = kept?.statistics ?? {};
  return nans + infs > 0 || kept?.elements?.every(Number.isFinite) === false;
}
