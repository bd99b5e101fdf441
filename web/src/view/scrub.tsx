// A number that is dragged: to the right it grows, to the left it shrinks, and everything follows.

import { shortNumber } from "../engine/numbers";
import type { Stage } from "../state/stage";
import { say } from "../state/words";
import { followPointer } from "./parts";
import { useStage } from "./stage";

const still = 3; // pixels: less is a click

/** A leaf's value for the keyboard: arrows move it. The pointer drags the box itself. */
export function LeafSlider(props: { node: number; x: number; y: number; width: number }) {
  const stage = useStage();
  const { node, ...place } = props;
  const value = stage.numbers.value.values[node]!;
  const name = stage.name(node);
  return (
    <rect
      class="drag"
      {...place}
      height={27}
      rx={6}
      role="slider"
      tabindex={0}
      aria-label={say("leaf.drag", { name })}
      aria-valuenow={value}
      aria-valuetext={shortNumber(value)}
      data-drag={name}
      data-arrows
      onKeyDown={(event) => {
        const step = moves[event.key];
        if (step === undefined) return;
        event.preventDefault();
        stage.settle();
        stage.setLeaf(node, rounded(value + step * (event.shiftKey ? 10 : 1)));
      }}
    />
  );
}

/** Makes a box one whose number is dragged. */
export const draggable = (stage: Stage, node: number) => ({
  onPointerDown: (event: PointerEvent & { currentTarget: Element }): void =>
    dragNumber(event, {
      value: stage.numbers.value.values[node]!,
      begin: () => stage.settle(),
      set: (number) => stage.setLeaf(node, number),
    }),
});

const moves: Record<string, number> = {
  ArrowRight: 0.1,
  ArrowUp: 0.1,
  ArrowLeft: -0.1,
  ArrowDown: -0.1,
  PageUp: 1,
  PageDown: -1,
};

/** Follow a pointer that is down on a number; with Shift it moves faster, with Alt slower. */
export function dragNumber(
  event: PointerEvent & { currentTarget: Element },
  number: { value: number; begin: () => void; set: (value: number) => void },
): void {
  if (event.button !== 0) return;
  const box = event.currentTarget;
  const { value } = number;
  const unit = unitOf(value);
  let last = event.clientX;
  let moved = 0; // pixels, as often as they count
  let begun = false;
  const follow = (now: PointerEvent): void => {
    moved += (now.clientX - last) * (now.shiftKey ? 10 : now.altKey ? 0.1 : 1);
    last = now.clientX;
    if (!begun && Math.abs(moved) < still) return;
    if (!begun) number.begin();
    begun = true;
    const fine = now.altKey ? unit / 10 : unit;
    number.set(rounded(Math.round((value + moved * unit) / fine) * fine));
  };
  followPointer(box, event.pointerId, follow, () => {
    if (!begun) return;
    // Where a drag ends is no click.
    const swallow = (click: Event): void => {
      click.stopImmediatePropagation();
      click.preventDefault();
    };
    box.addEventListener("click", swallow, { once: true, capture: true });
    setTimeout(() => box.removeEventListener("click", swallow, { capture: true }));
  });
}

/** By how much a pixel moves a number: a hundredth, of a large one a hundredth of its size. */
const unitOf = (value: number): number =>
  Number.isFinite(value) ? 10 ** (Math.floor(Math.log10(Math.max(Math.abs(value), 1))) - 2) : 0.01;

const rounded = (value: number): number => Number(value.toPrecision(12));
