// A chain of sums of a value with itself: its paths double at every stage, its edges do not.

import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";

import { countText } from "../../../../engine/numbers";
import { quantity } from "../../../../lessons/quantities";
import { say } from "../../../../state/words";
import { asIs } from "../../../text";
import type { CoreProps } from "../registry";
import { Slider } from "../slider";

const most = 60;
const drawn = 7; // stages that fit on the paper
const perSecond = 1_000_000_000n;

export function Doubling({ block, finish }: CoreProps) {
  const stages = useSignal(2);
  const paths = 2n ** BigInt(stages.value);
  const reached = paths >= BigInt(quantity(null, block.data.goal!)!);
  useEffect(() => {
    if (reached) finish();
  }, [reached]);
  return (
    <div class="readings">
      <Chain stages={stages.value} />
      <Slider
        label={say("core.doubling.stages")}
        name="n"
        from={1}
        to={most}
        step={1}
        value={stages.value}
        onMove={(value) => (stages.value = value)}
      />
      <dl class="pairs">
        <dt>{say("core.doubling.edges")}</dt>
        <dd data-edges={2 * stages.value} translate={false}>
          2 · n = {2 * stages.value}
        </dd>
        <dt>{say("core.doubling.paths")}</dt>
        <dd data-paths={String(paths)} translate={false}>
          2ⁿ = {countText(paths)}
        </dd>
        <dt>{say("core.doubling.time")}</dt>
        <dd>{duration(paths / perSecond)}</dd>
      </dl>
    </div>
  );
}

/** In the largest unit that is not smaller than one. */
function duration(seconds: bigint): string {
  const units = [
    ["years", 31_557_600n],
    ["days", 86_400n],
    ["hours", 3_600n],
    ["minutes", 60n],
    ["seconds", 1n],
  ] as const;
  const found = units.find(([, size]) => seconds >= size);
  if (!found) return say("core.doubling.moment");
  return say(`core.doubling.${found[0]}`, { count: countText(seconds / found[1]) });
}

function Chain({ stages }: { stages: number }) {
  const shown = Math.min(stages, drawn);
  const at = (i: number): number => 24 + i * 62;
  return (
    <svg
      class="plot"
      viewBox={`0 0 ${at(drawn) + 24} 96`}
      role="img"
      aria-label={say("core.doubling.drawing", { stages })}
    >
      <g aria-hidden="true">
        {Array.from({ length: shown }, (_, i) => (
          <path
            key={i}
            class="tangent"
            d={[42, 54]
              .map((y) => {
                const bend = y < 48 ? 14 : 82;
                const [from, to] = [at(i) + 13, at(i + 1) - 13];
                return `M${from} ${y}C${from + 13} ${bend} ${to - 13} ${bend} ${to} ${y}`;
              })
              .join("")}
          />
        ))}
        {Array.from({ length: shown + 1 }, (_, i) => (
          <g key={i}>
            <circle class="stage-node" cx={at(i)} cy={48} r={13} />
            <text {...asIs} x={at(i)} y={53} text-anchor="middle">
              {i ? (i === shown && stages > drawn ? "…" : "+") : "a"}
            </text>
          </g>
        ))}
      </g>
    </svg>
  );
}
