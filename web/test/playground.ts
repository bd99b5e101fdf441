// The playground's engine for the tests.

import { lookAt } from "../src/playground/look";
import { pythonCode } from "../src/playground/python";
import { DEFAULTS, readSettings, type Settings, writeSettings } from "../src/playground/settings";
import { Trainer } from "../src/playground/train";

/** Train for some steps: the losses, and at the end parameters and gradients. */
export function trained(chosen: Partial<Settings>, steps: number): unknown {
  const trainer = new Trainer({ ...DEFAULTS, ...chosen });
  for (let i = 0; i < steps; i++) trainer.step();
  const { losses, parameters, gradients } = trainer;
  return { losses, parameters: [...parameters], gradients: [...gradients] };
}

export const program = (chosen: Partial<Settings>, steps: number): string =>
  pythonCode({ ...DEFAULTS, ...chosen }, steps);

/** What is seen after some steps. */
export function seen(chosen: Partial<Settings>, steps: number): unknown {
  const trainer = new Trainer({ ...DEFAULTS, ...chosen });
  for (let i = 0; i < steps; i++) trainer.step();
  return lookAt(trainer);
}

/** What a link's text means, as text again, and the parts that mean nothing. */
export function read(text: string): unknown {
  const wrong: string[] = [];
  const settings = readSettings(text, (part) => wrong.push(part));
  return { settings, written: writeSettings(settings), wrong };
}
