// What a screen reader is told when something changes without the focus moving there.

import { signal } from "@preact/signals";

/** Shown in a live region by the page (view/app.tsx). */
export const announced = signal("");

let twice = false;

export function announce(text: string): void {
  // The same words again are a change only if something differs: a space nobody hears.
  twice = text === announced.value.trimEnd() && !twice;
  announced.value = twice ? text + "\u00a0" : text;
}
