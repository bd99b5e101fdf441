// Numbers over the plane as colours.

import type { Maps } from "../../playground/boundary";

export type Colour = [number, number, number];

export interface Palette {
  paper: Colour;
  minus: Colour;
  plus: Colour;
  ink: Colour;
}

const seen = new Map<string, Palette>();

/** The colours of the playground as numbers: `light-dark()` is for the browser to resolve. */
export function paletteOf(near: HTMLElement): Palette {
  const { color } = getComputedStyle(near); // tells one theme from the other
  const known = seen.get(color);
  if (known) return known;
  const probe = document.createElement("span");
  near.after(probe);
  const colourOf = (name: string): Colour => {
    probe.style.color = `var(--${name})`;
    return getComputedStyle(probe).color.match(/[\d.]+/g)!.slice(0, 3).map(Number) as Colour;
  };
  const found = {
    paper: colourOf("paper"),
    minus: colourOf("minus"),
    plus: colourOf("plus"),
    ink: colourOf("ink"),
  };
  probe.remove();
  seen.set(color, found);
  return found;
}

/**
 * One of the maps, every `step` cells both ways: the further from 0, the stronger. A
 * score counts by how much more probable it makes one class; a unit's output beside its largest.
 */
export function heatMap(
  maps: Maps,
  map: number,
  { paper, minus, plus }: Palette,
  step = 1,
): ImageData {
  const size = maps.size / step;
  const image = new ImageData(size, size);
  let largest = 0;
  for (let cell = 0; map && cell < maps.size ** 2; cell++) {
    largest = Math.max(largest, Math.abs(maps.at(map, cell)) || 0);
  }
  for (let i = 0; i < size * size; i++) {
    const cell = Math.floor(i / size) * step * maps.size + (i % size) * step;
    const value = maps.at(map, cell);
    const part = (map ? value / largest : Math.tanh(value / 2)) || 0;
    const strength = part === 0 ? 0 : 0.12 + 0.5 * Math.abs(part);
    const colour = part > 0 ? plus : minus;
    for (let k = 0; k < 3; k++) {
      image.data[4 * i + k] = paper[k]! + (colour[k]! - paper[k]!) * strength;
    }
    image.data[4 * i + 3] = 255;
  }
  return image;
}
