// The data sets. Each point is drawn as the Python code in python.ts draws it.

import { DIGITS } from "../generated/digits";
import type { Random } from "./random";
import { POINTS, type Settings } from "./settings";

export interface Point {
  x: number[];
  y: number; // −1 or +1; of an image the digit
}

/** Where a point of a class stands, `t` from 0 to 1 along it, before the noise. */
const SHAPES: Record<string, (t: number, first: boolean) => [number, number]> = {
  moons: (t, first) => {
    const [x, y] = [Math.cos(Math.PI * t), Math.sin(Math.PI * t)];
    return first ? [x - 0.5, y - 0.25] : [0.5 - x, 0.25 - y];
  },
  circles: (t, first) => {
    const radius = first ? 1 : 0.5;
    return [radius * Math.cos(2 * Math.PI * t), radius * Math.sin(2 * Math.PI * t)];
  },
  spirals: (t, first) => {
    const angle = 4 * t + (first ? 0 : Math.PI);
    return [1.3 * t * Math.cos(angle), 1.3 * t * Math.sin(angle)];
  },
};

export function pointsOf(settings: Settings, random: Random): Point[] {
  if (settings.data === "digits") return DIGITS.map(image);
  const shape = SHAPES[settings.data]!;
  return Array.from({ length: POINTS }, (_, i) => {
    const first = i % 2 === 0;
    const [x, y] = shape(Math.floor(i / 2) / (POINTS / 2), first);
    const { noise } = settings;
    const moved = [x + random.uniform(-noise, noise), y + random.uniform(-noise, noise)];
    return { x: moved, y: first ? 1 : -1 };
  });
}

/** Shades are written from 0 to g, 16 of them. */
const image = ([digit, ...shades]: string): Point => ({
  x: shades.map((shade) => parseInt(shade, 17) / 16),
  y: Number(digit),
});
