// A number that can be edited: a leaf's.

import { useSignal } from "@preact/signals";

import { exactNumber, readNumber } from "../engine/numbers";
import { announce } from "../state/announce";
import { say } from "../state/words";
import { NumberInput } from "./parts";
import { useStage } from "./stage";

export function LeafInput({ node }: { node: number }) {
  const stage = useStage();
  const typing = useSignal<string | null>(null);
  const value = stage.numbers.value.values[node]!;
  const wrong = typing.value !== null && readNumber(typing.value) === undefined;
  return (
    <NumberInput
      inputMode="decimal"
      value={typing.value ?? plain(value)}
      aria-label={say("leaf.value", { name: stage.name(node) })}
      aria-invalid={wrong}
      title={wrong ? say("leaf.wrong") : undefined}
      data-leaf={stage.name(node)}
      onFocus={() => stage.settle()}
      onInput={(event) => {
        typing.value = event.currentTarget.value;
        const number = readNumber(typing.value);
        if (number !== undefined) stage.setLeaf(node, number);
      }}
      onBlur={() => {
        if (wrong) announce(say("leaf.wrong"));
        typing.value = null;
      }}
      onKeyDown={(event) => {
        const by = { ArrowUp: 1, ArrowDown: -1 }[event.key];
        if (by) {
          event.preventDefault();
          typing.value = null;
          stage.settle();
          stage.setLeaf(node, rounded(value + by * (event.shiftKey ? 1 : 0.1)));
        } else if (event.key === "Enter" && wrong) {
          const field = event.currentTarget;
          field.setCustomValidity(say("leaf.wrong"));
          field.reportValidity();
          field.setCustomValidity("");
        } else if (event.key === "Enter" || event.key === "Escape") {
          typing.value = null;
          stage.settle();
        }
      }}
    />
  );
}

const plain = (value: number): string => exactNumber(value).replace("-", "−");

function rounded(value: number): number {
  return Number(value.toPrecision(12));
}
