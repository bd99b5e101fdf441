// The curve behind an edge: what its consumer does when this one operand moves. The point and the
// nudge are dragged, or moved by arrow keys; a leaf takes the graph along.

import { useSignal } from "@preact/signals";
import { useEffect, useId, useMemo, useRef } from "preact/hooks";

import { type Frame, frameOf, type OperandCurve, operandCurve, pointsOf, ticks } from "../engine/curve";
import { edgesOf, isLeaf, operandValue, sameEdge } from "../engine/graph";
import { shortNumber } from "../engine/numbers";
import type { Edge } from "../engine/types";
import type { Stage } from "../state/stage";
import { say } from "../state/words";
import { followPointer } from "./parts";
import { useStage } from "./stage";
import { asIs, signed } from "./text";

/** The curve of an edge of the stage around it. */
export function EdgeCurve({ edge }: { edge: Edge }) {
  const stage = useStage();
  const numbers = stage.numbers.value;
  const leaf = isLeaf(numbers.graph.nodes[edge.source]!);
  // An operand that is computed is looked at elsewhere without changing the graph.
  const looked = useSignal<number | null>(null);
  useEffect(() => {
    looked.value = null;
  }, [edge.node, edge.argument, numbers.graph]);
  const curve = useMemo(() => operandCurve(numbers, edge), [numbers, edge.node, edge.argument]);
  const at = (leaf ? null : looked.value) ?? curve.at;
  const begin = useRef(() => stage.settle());
  return (
    <CurveView
      key={`${edge.node}.${edge.argument}`}
      curve={curve}
      at={at}
      from={stage.name(edge.source)}
      to={stage.name(edge.node)}
      held={heldText(stage, edge)}
      onGrab={begin.current}
      onMove={(x) => {
        if (leaf) stage.setLeaf(edge.source, x);
        else looked.value = x;
      }}
    >
      {!leaf && looked.value !== null && (
        <p class="row">
          <span class="hint">{say("curve.looked", { from: stage.name(edge.source) })}</span>
          <button type="button" onClick={() => (looked.value = null)}>
            {say("curve.back", { at: shortNumber(curve.at) })}
          </button>
        </p>
      )}
    </CurveView>
  );
}

/** The other operands with their values: "w1 = −3". */
function heldText(stage: Stage, edge: Edge): string {
  const { graph, values } = stage.numbers.value;
  return edgesOf(graph, edge.node)
    .filter((other) => !sameEdge(other, edge))
    .map(({ node, argument }) => {
      const operand = graph.nodes[node]!.args[argument]!;
      const name = "node" in operand ? stage.name(operand.node) : "";
      return `${name} = ${shortNumber(operandValue(operand, values))}`;
    })
    .join(", ");
}

const width = 420;
const height = 270;
const inset = { left: 46, right: 14, top: 12, bottom: 28 };

export function CurveView(props: {
  curve: OperandCurve;
  at: number;
  from: string; // the names of what moves and of what follows
  to: string;
  held?: string;
  onGrab?: () => void;
  onMove?: (x: number) => void;
  children?: preact.ComponentChildren;
}) {
  const { curve, at, from, to } = props;
  const svg = useRef<SVGSVGElement>(null);
  const paper = useId();
  const by = useSignal<number | null>(null); // the nudge; at first a good part of the way
  const frame = useHeldFrame(curve, at);
  const reach = frame.right - frame.left;
  const nudge = by.value ?? roundTo(reach * 0.16, unitOf(reach));
  const y = curve.value(at);
  const slope = curve.slope(at);
  const tangent = (x: number): number => y + slope * (x - at);
  const real = curve.value(at + nudge) - y;
  const predicted = slope * nudge;
  const across = (x: number): number =>
    inset.left + ((x - frame.left) / reach) * (width - inset.left - inset.right);
  const up = (value: number): number => {
    const part = (value - frame.low) / (frame.high - frame.low);
    return height - inset.bottom - part * (height - inset.top - inset.bottom);
  };
  const unit = unitOf(reach);
  const handle = (word: string, x: number, move: (x: number) => void) => ({
    role: "slider" as const,
    tabindex: 0,
    "aria-label": say(word, { from }),
    "aria-valuenow": x,
    "aria-valuetext": shortNumber(x),
    "data-arrows": true,
    onPointerDown: (event: PointerEvent & { currentTarget: Element }): void => {
      if (event.button) return;
      event.preventDefault();
      (event.currentTarget as unknown as HTMLElement).focus();
      props.onGrab?.();
      const box = svg.current!.getBoundingClientRect();
      const start = event.clientX;
      const scale = (reach * width) / (width - inset.left - inset.right) / box.width;
      const follow = (now: PointerEvent): void =>
        move(roundTo(x + (now.clientX - start) * scale, unit));
      followPointer(event.currentTarget, event.pointerId, follow, () => undefined);
    },
    onKeyDown: (event: KeyboardEvent): void => {
      const way = { ArrowRight: 1, ArrowUp: 1, ArrowLeft: -1, ArrowDown: -1 }[event.key];
      if (!way) return;
      event.preventDefault();
      props.onGrab?.();
      move(roundTo(x + way * unit * (event.shiftKey ? 10 : 1), unit));
    },
  });
  const movePoint = (x: number): void => props.onMove?.(x);
  const moveNudge = (x: number): void => {
    by.value = roundTo(x - at, unit);
  };
  const finite = [at, y, slope].every(Number.isFinite);
  return (
    <figure class="curve" data-curve={at} data-value={y} data-slope={slope} data-by={nudge}>
      <figcaption>
        {say("curve.title", { from, to })}
        {props.held && <span class="hint"> {say("curve.held", { held: props.held })}</span>}
      </figcaption>
      <svg ref={svg} viewBox={`0 0 ${width} ${height}`} role="group" aria-label={say("curve.title", { from, to })}>
        <clipPath id={paper}>
          <rect
            x={inset.left}
            y={inset.top}
            width={width - inset.left - inset.right}
            height={height - inset.top - inset.bottom}
          />
        </clipPath>
        <g aria-hidden="true">
          <Axes frame={frame} across={across} up={up} />
          <text {...asIs} class="axis" x={width - inset.right} y={height - 6} text-anchor="end">
            {from}
          </text>
          <g clip-path={`url(#${paper})`}>
            <path class="function" d={drawn(pointsOf(curve.value, frame.left, frame.right), across, up)} />
            {finite && (
              <>
                <path
                  class="tangent"
                  d={drawn([[frame.left, frame.right].map((x) => [x, tangent(x)])], across, up)}
                />
                <path class="run" d={`M${across(at)} ${up(y)}H${across(at + nudge)}`} />
                <path
                  class="real"
                  d={`M${across(at + nudge)} ${up(y)}V${up(y + real)}`}
                />
                <path
                  class="gap"
                  d={`M${across(at + nudge)} ${up(y + real)}V${up(y + predicted)}`}
                />
                <circle class="reached" cx={across(at + nudge)} cy={up(y + real)} r={5} />
              </>
            )}
          </g>
        </g>
        {finite && (
          <>
            <circle
              class="nudge"
              cx={across(at + nudge)}
              cy={up(clamp(y + predicted, frame.low, frame.high))}
              r={9}
              {...handle("curve.nudge", at + nudge, moveNudge)}
              data-handle="nudge"
            />
            <circle
              class="point"
              cx={across(at)}
              cy={up(clamp(y, frame.low, frame.high))}
              r={10}
              {...handle("curve.point", at, movePoint)}
              data-handle="point"
            />
          </>
        )}
      </svg>
      {finite && (
        <p class="reads">
          {say("curve.reads", { from, at: shortNumber(at), slope: shortNumber(slope) })}{" "}
          {say("curve.nudged", {
            from,
            to,
            by: signed(nudge),
            predicted: signed(predicted),
            real: signed(real),
          })}
        </p>
      )}
      {props.children}
    </figure>
  );
}

/** The paper stays where it is while the point is on it: a curve that moves cannot be followed. */
function useHeldFrame(curve: OperandCurve, at: number): Frame {
  const held = useRef<Frame | null>(null);
  const { left, right } = held.current ?? { left: 1, right: 0 };
  const edge = (right - left) * 0.03;
  if (!held.current || at < left + edge || at > right - edge) held.current = frameOf({ ...curve, at });
  return held.current;
}

function Axes(props: {
  frame: Frame;
  across: (x: number) => number;
  up: (y: number) => number;
}) {
  const { frame, across, up } = props;
  const [bottom, end] = [height - inset.bottom, width - inset.right];
  return (
    <g class="axes">
      {ticks(frame.left, frame.right, 6).map((x) => (
        <g key={`x${x}`}>
          <path class={x === 0 ? "zero" : ""} d={`M${across(x)} ${inset.top}V${bottom}`} />
          {across(x) < end - 40 && (
            <text x={across(x)} y={height - 9} text-anchor="middle">
              {shortNumber(x)}
            </text>
          )}
        </g>
      ))}
      {ticks(frame.low, frame.high, 5).map((y) => (
        <g key={`y${y}`}>
          <path class={y === 0 ? "zero" : ""} d={`M${inset.left} ${up(y)}H${end}`} />
          <text x={inset.left - 6} y={up(y) + 4} text-anchor="end">
            {shortNumber(y)}
          </text>
        </g>
      ))}
    </g>
  );
}

const drawn = (
  lines: number[][][],
  across: (x: number) => number,
  up: (y: number) => number,
): string =>
  lines
    .flatMap((line) =>
      line.map(([x, y], i) => {
        const at = clamp(up(y!), -height, 2 * height);
        return `${i ? "L" : "M"}${Math.round(across(x!) * 10) / 10} ${Math.round(at * 10) / 10}`;
      }),
    )
    .join("");

const clamp = (x: number, low: number, high: number): number => Math.min(high, Math.max(low, x));

/** A round number, about a hundredth of the way. */
const unitOf = (reach: number): number => 10 ** Math.floor(Math.log10(reach / 50));

const roundTo = (x: number, unit: number): number =>
  Number((Math.round(x / unit) * unit).toPrecision(12));
