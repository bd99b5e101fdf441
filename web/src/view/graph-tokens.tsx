// What a step hands along edges, on its way. Backward a node's gradient leaves it, is multiplied on
// the edge, and lands at the input; forward the values of the inputs go into the operation.

import { effect, type ReadonlySignal, useComputed } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";

import { edgesOf, sameEdge } from "../engine/graph";
import { shortNumber } from "../engine/numbers";
import type { Edge } from "../engine/types";
import { type Line, pointOn } from "../layout/sheet";
import { eased } from "../state/motion";
import { inBrackets, signed, signOf } from "./text";
import { useStage } from "./stage";

/** A number on an edge: what it is as it sets off, under way, and as it arrives. */
export interface Carried {
  edge: Edge;
  back: boolean;
  texts: [leaving: string, between: string, arriving: string];
  sign: string;
}

/** All that the step on its way carries. */
export function Tokens({ lines }: { lines: Line[] }) {
  const stage = useStage();
  const flight = stage.flight.value;
  const step = flight && stage.steps.value[flight.step];
  if (!step || step.phase === "seed") return null;
  const { graph, values } = stage.numbers.value;
  const carried: Carried[] =
    step.phase === "forward"
      ? edgesOf(graph, step.node).map((edge) => {
          const text = shortNumber(values[edge.source]!);
          return { edge, back: false, texts: [text, text, text], sign: "value" };
        })
      : step.pushes.map(({ edge, local, amount }) => ({
          edge,
          back: true,
          texts: product(step.received, local, amount),
          sign: signOf(amount),
        }));
  return (
    <g class="tokens" aria-hidden="true">
      {carried.map((one) => {
        const line = lines.find(({ edge }) => sameEdge(edge, one.edge));
        const key = `${flight.step}.${one.edge.argument}`;
        return line && <Token key={key} line={line} part={stage.part} {...one} />;
      })}
    </g>
  );
}

/** A gradient times a local derivative, as it is on the way. */
export const product = (grad: number, local: number, amount: number): Carried["texts"] => [
  signed(grad),
  `${shortNumber(grad)} × ${inBrackets(local)}`,
  signed(amount),
];

/** One number on one edge, so far along as `part` says. */
export function Token(props: Carried & { line: Line; part: ReadonlySignal<number> }) {
  const { line, part, back, texts } = props;
  const moved = useRef<SVGGElement>(null);
  const stage = useComputed(() => (part.value < 0.3 ? 0 : part.value < 0.78 ? 1 : 2));
  const text = texts[stage.value]!;
  const width = text.length * 8 + 18;
  useEffect(
    () =>
      effect(() => {
        const along = eased(part.value);
        const { x, y } = pointOn(line.points, back ? 1 - along : along);
        moved.current?.setAttribute("transform", `translate(${x} ${y})`);
      }),
    [line, part, back],
  );
  const start = pointOn(line.points, back ? 1 : 0);
  return (
    <g
      ref={moved}
      class={`token ${props.sign}${stage.value === 1 ? " between" : ""}`}
      transform={`translate(${start.x} ${start.y})`}
    >
      <rect x={-width / 2} y={-13} width={width} height={26} rx={13} />
      <text y={5} text-anchor="middle">
        {text}
      </text>
    </g>
  );
}
