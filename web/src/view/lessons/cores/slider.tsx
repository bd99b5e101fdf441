// A number that is moved: with the pointer, with the arrow keys, or typed.

import { useId } from "preact/hooks";

import { shortNumber } from "../../../engine/numbers";

export function Slider(props: {
  label: string; // what is moved, in words
  name: string; // how it is written
  from: number;
  to: number;
  step: number;
  value: number;
  onMove: (value: number) => void;
}) {
  const { from, to, step, value } = props;
  const id = useId();
  return (
    <p class="slider">
      <label for={id}>
        <span class="hidden">{props.label}</span>
        <span aria-hidden="true" translate={false}>
          {props.name} = {shortNumber(value)}
        </span>
      </label>
      <input
        id={id}
        type="range"
        min={from}
        max={to}
        step={step}
        value={value}
        aria-valuetext={shortNumber(value)}
        onInput={(event) => props.onMove(Number(event.currentTarget.value))}
      />
    </p>
  );
}

/** A round step: about a hundredth of the way. */
export function stepOf(from: number, to: number): number {
  const power = 10 ** Math.floor(Math.log10((to - from) / 100));
  return [1, 2, 5, 10].map((n) => n * power).find((n) => (to - from) / n <= 120) ?? power;
}

/** The nearest number that the step allows. */
export const snapped = (value: number, from: number, step: number): number =>
  Number((from + Math.round((value - from) / step) * step).toFixed(8));
