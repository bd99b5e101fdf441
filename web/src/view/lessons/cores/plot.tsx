// A function of one number as a curve, with a point on it that can be dragged and a straight line
// through the point.

import { useMemo, useRef } from "preact/hooks";

import { shortNumber } from "../../../engine/numbers";
import { followPointer } from "../../parts";
import { asIs } from "../../text";

export interface PlotProps {
  label: string; // for who does not see it
  of: (x: number) => number;
  from: number;
  to: number;
  x: number;
  slope: number; // of the line
  step?: number; // a small step sideways, and what it does to the curve and to the line
  name: string; // of what goes sideways
  onMove?: (x: number) => void;
}

const width = 480;
const height = 280;
const edge = 26;
const samples = 160;

export function Plot(props: PlotProps) {
  const { of, from, to, x, slope, step = 0 } = props;
  const svg = useRef<SVGSVGElement>(null);
  const { low, high, curve } = useMemo(() => sampled(of, from, to), [of, from, to]);
  const across = (at: number): number => edge + ((at - from) / (to - from)) * (width - 2 * edge);
  const up = (value: number): number => {
    const part = (value - low) / (high - low);
    return height - edge - Math.min(1.6, Math.max(-0.6, part)) * (height - 2 * edge);
  };
  const y = of(x);
  const line = (at: number): number => y + slope * (at - x);
  const dragged = (event: PointerEvent): void => {
    const box = svg.current!.getBoundingClientRect();
    const part = ((event.clientX - box.left) / box.width) * width;
    const at = from + ((part - edge) / (width - 2 * edge)) * (to - from);
    props.onMove?.(Math.min(to, Math.max(from, at)));
  };
  const path = curve.map(([at, value], i) => `${i ? "L" : "M"}${p(across(at))} ${p(up(value))}`);
  // The line is drawn as far as it stays on the paper.
  const ends = [from, to].map((end) => {
    const limit = slope ? (end === from ? 1 : -1) * Math.sign(slope) : 0;
    const bound = limit > 0 ? low : high;
    const cut = limit ? x + (bound - y) / slope : end;
    return end === from ? Math.max(end, Math.min(cut, x)) : Math.min(end, Math.max(cut, x));
  });
  const next = x + step;
  return (
    <svg
      ref={svg}
      class={props.onMove ? "plot movable" : "plot"}
      viewBox={`0 0 ${width} ${height}`}
      role="img"
      aria-label={props.label}
      onPointerDown={(event) => {
        if (!props.onMove || event.button) return;
        event.preventDefault();
        dragged(event);
        followPointer(svg.current!, event.pointerId, dragged, () => {});
      }}
    >
      <g aria-hidden="true">
        <path
          class="axes"
          d={`M${edge} ${p(up(Math.min(high, Math.max(low, 0))))}H${width - edge}`}
        />
        {from < 0 && to > 0 && <path class="axes" d={`M${p(across(0))} ${edge}V${height - edge}`} />}
        {[from, to].map((end) => (
          <text key={end} class="scale" x={p(across(end))} y={height - 7} text-anchor="middle">
            {shortNumber(end)}
          </text>
        ))}
        <path class="curve" d={path.join("")} />
        <path
          class="tangent"
          d={ends.map((at, i) => `${i ? "L" : "M"}${p(across(at))} ${p(up(line(at)))}`).join("")}
        />
        {step !== 0 && (
          <>
            <path class="run" d={`M${p(across(x))} ${p(up(y))}H${p(across(next))}`} />
            <path class="by-line" d={`M${p(across(next) - 3)} ${p(up(y))}V${p(up(line(next)))}`} />
            <path class="by-curve" d={`M${p(across(next) + 3)} ${p(up(y))}V${p(up(of(next)))}`} />
          </>
        )}
        <circle class="point" cx={p(across(x))} cy={p(up(y))} r={8} />
        <text {...asIs} class="at" x={p(across(x))} y={height - 7} text-anchor="middle">
          {props.name}
        </text>
      </g>
    </svg>
  );
}

function sampled(of: (x: number) => number, from: number, to: number) {
  const curve = Array.from({ length: samples + 1 }, (_, i): [number, number] => {
    const at = from + ((to - from) * i) / samples;
    return [at, of(at)];
  }).filter(([, value]) => Number.isFinite(value));
  const heights = curve.map(([, value]) => value);
  const low = Math.min(...heights);
  const high = Math.max(...heights);
  const flat = high - low < 1e-9;
  return { curve, low: flat ? low - 1 : low, high: flat ? high + 1 : high };
}

const p = (number: number): number => Math.round(number * 10) / 10;
