// A number that can be edited: a leaf's.

import { useSignal } from "@preact/signals";
import { useEffect, useId, useLayoutEffect, useRef } from "preact/hooks";

import { exactNumber, readNumber } from "../engine/numbers";
import { say } from "../state/words";
import { NumberInput } from "./parts";
import { useStage } from "./stage";

const gap = 5; // between the field and what is said of it

export function LeafInput({ node }: { node: number }) {
  const stage = useStage();
  const typing = useSignal<string | null>(null);
  const value = stage.numbers.value.values[node]!;
  const wrong = typing.value !== null && readNumber(typing.value) === undefined;
  const field = useRef<HTMLInputElement>(null);
  const told = useId();
  /** In the drawing the field lies on the box of its node: who opens that one, types here. */
  const box = (): HTMLElement | null =>
    field.current!.closest("g.node")?.querySelector("[data-node]") ?? null;
  useEffect(() => {
    if (box() && box() === document.activeElement) field.current!.select();
  }, []);
  // Above everything: a drawing would cut it off, and draw its other nodes over it.
  const message = useRef<HTMLSpanElement>(null);
  // Before the next frame: it would otherwise stay, or stand unplaced, for one.
  useLayoutEffect(() => {
    const { style } = message.current!;
    message.current!.togglePopover?.(wrong);
    if (!wrong) return;
    const { left, top, bottom } = field.current!.getBoundingClientRect();
    const { offsetHeight, offsetWidth } = message.current!;
    const below = bottom + gap + offsetHeight <= innerHeight;
    style.top = `${below ? bottom + gap : top - gap - offsetHeight}px`;
    style.left = `${Math.max(gap, Math.min(left, innerWidth - offsetWidth - gap))}px`;
  }, [wrong]);
  return (
    <span class="leafinput">
      <NumberInput
        field={field}
        inputMode="decimal"
        value={typing.value ?? plain(value)}
        aria-label={say("leaf.value", { name: stage.name(node) })}
        aria-invalid={wrong}
        aria-describedby={wrong ? told : undefined}
        data-leaf={stage.name(node)}
        onFocus={() => stage.settle()}
        onInput={(event) => {
          typing.value = event.currentTarget.value;
          const number = readNumber(typing.value);
          if (number !== undefined) stage.setLeaf(node, number);
        }}
        onBlur={() => (typing.value = null)}
        onKeyDown={(event) => {
          const by = { ArrowUp: 1, ArrowDown: -1 }[event.key];
          if (by) {
            event.preventDefault();
            typing.value = null;
            stage.settle();
            stage.setLeaf(node, rounded(value + by * (event.shiftKey ? 1 : 0.1)));
          } else if (event.key === "Escape" || (event.key === "Enter" && !wrong)) {
            typing.value = null;
            stage.settle();
            box()?.focus(); // the keys of walking work again
          }
        }}
      />
      {/* There from the start: what is added later inside a drawing would be a part of it. */}
      <span class="notnumber" id={told} role="alert" popover="manual" ref={message}>
        {wrong && say("leaf.wrong", { text: typing.value! })}
      </span>
    </span>
  );
}

const plain = (value: number): string => exactNumber(value).replace("-", "−");

function rounded(value: number): number {
  return Number(value.toPrecision(12));
}
