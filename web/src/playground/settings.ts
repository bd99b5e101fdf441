// What the playground trains, and how: as settings, and as the text that a link has of them.

import { own } from "../engine/own";

export interface Settings {
  data: string;
  noise: number;
  seed: number;
  depth: number; // hidden layers
  width: number; // neurons in each
  activation: string;
  init: string;
  optimizer: string;
  rate: number;
  batch: number;
  zero: boolean; // whether zero_grad() is called
}

export const POINTS = 128; // in a data set; batches divide it

/** What can be chosen; of a number the choices stand on a slider. */
export const CHOICES: { [Name in keyof Settings]: readonly Settings[Name][] } = {
  data: ["moons", "circles", "spirals", "digits"],
  noise: [0, 0.05, 0.1, 0.15, 0.2, 0.3, 0.5],
  seed: Array.from({ length: 100 }, (_, seed) => seed),
  depth: Array.from({ length: 30 }, (_, i) => i + 1),
  width: Array.from({ length: 16 }, (_, i) => i + 1),
  activation: ["relu", "leaky_relu", "tanh", "sigmoid", "linear"],
  init: ["he", "xavier", "uniform", "small", "zero"],
  optimizer: ["sgd", "momentum", "adam"],
  rate: [0.0001, 0.0003, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1, 3, 10],
  batch: [1, 2, 4, 8, 16, 32, 64, 128],
  zero: [true, false],
};

export const DEFAULTS: Settings = {
  data: "moons",
  noise: 0.1,
  seed: 7,
  depth: 2,
  width: 16,
  activation: "relu",
  init: "he",
  optimizer: "sgd",
  rate: 0.1,
  batch: 32,
  zero: true,
};

const names = Object.keys(DEFAULTS) as (keyof Settings)[];

/** Every setting, so that a link means the same when the defaults change. */
export const writeSettings = (settings: Settings): string =>
  names.map((name) => `${name}:${settings[name]}`).join(",");

/** What a link has; parts that mean nothing are handed to `wrong`. */
export function readSettings(text: string, wrong: (part: string) => void): Settings {
  const found: Record<string, unknown> = { ...DEFAULTS };
  for (const part of text.split(",").filter(Boolean)) {
    const name = part.replace(/:.*/, "");
    const choices = own(CHOICES as Record<string, readonly unknown[]>, name);
    const chosen = choices?.find((choice) => `${name}:${choice}` === part);
    if (chosen === undefined) wrong(part);
    else found[name] = chosen;
  }
  return found as unknown as Settings;
}
