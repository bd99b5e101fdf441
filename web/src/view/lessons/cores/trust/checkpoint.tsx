// What a chain of layers keeps for its backward pass, if only some results are kept and the others
// are computed again, segment by segment.

import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";

import { quantity } from "../../../../lessons/quantities";
import { say } from "../../../../state/words";
import type { CoreProps } from "../registry";
import { Slider } from "../slider";

/** Kept at the same time: one result for each segment, and all of the segment that is walked. */
const keptAtOnce = (layers: number, segments: number): number =>
  segments + Math.ceil(layers / segments);

export function Checkpoint({ block, finish }: CoreProps) {
  const layers = quantity(null, block.data.layers!)!;
  const segments = useSignal(1);
  const moved = useSignal(false);
  const kept = keptAtOnce(layers, segments.value);
  const all = Array.from({ length: layers }, (_, i) => keptAtOnce(layers, i + 1));
  const least = kept === Math.min(...all);
  useEffect(() => {
    if (moved.value && least) finish();
  }, [moved.value, least]);
  const length = Math.ceil(layers / segments.value);
  return (
    <div class="readings">
      <div class="layers" role="img" aria-label={say("core.checkpoint.drawing", { kept, layers })}>
        {Array.from({ length: layers }, (_, i) => {
          const walked = i >= layers - length;
          const state = i % length === 0 ? "checkpoint" : walked ? "again" : "dropped";
          return <span key={i} class={`layer ${state}`} />;
        })}
      </div>
      <p class="hint">{say("core.checkpoint.legend")}</p>
      <Slider
        label={say("core.checkpoint.segments")}
        name={say("core.checkpoint.short")}
        from={1}
        to={layers}
        step={1}
        value={segments.value}
        onMove={(value) => {
          segments.value = value;
          moved.value = true;
        }}
      />
      <dl class="pairs" data-kept={kept}>
        <dt>{say("core.checkpoint.plain")}</dt>
        <dd>
          {layers}
          <span class="change-bar" style={{ inlineSize: "100%" }} />
        </dd>
        <dt>{say("core.checkpoint.kept")}</dt>
        <dd>
          {segments.value} + {length} = {kept}
          <span
            class="change-bar by-curve"
            style={{ inlineSize: `${Math.min(100, (100 * kept) / layers)}%` }}
          />
        </dd>
        <dt>{say("core.checkpoint.work")}</dt>
        <dd>{say("core.checkpoint.once")}</dd>
      </dl>
    </div>
  );
}
