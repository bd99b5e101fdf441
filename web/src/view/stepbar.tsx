// Where the walk stands, and the way on.

import type { Step } from "../engine/types";
import { narrate } from "../state/narrate";
import { speeds, type Walker } from "../state/walker";
import { say } from "../state/words";
import { GlyphButton } from "./parts";
import { useStage } from "./stage";

/** Of the stage around it, or of another walk. */
export function StepBar(props: { walker?: Walker<Pick<Step, "phase" | "node">> }) {
  const stage = props.walker ?? useStage();
  const position = stage.position.value;
  const steps = stage.steps.value.length;
  const phase = stage.phase.value;
  const atStart = position === 0;
  const atEnd = position === steps;
  return (
    <div
      class="stepbar"
      role="group"
      aria-label={say("walk.title")}
      data-position={position}
      data-phase={phase}
    >
      <div class="buttons">
        <GlyphButton
          word="walk.toPhaseStart"
          glyph="|◀"
          off={atStart}
          run={() => stage.startOfPhase()}
        />
        <button type="button" class="labelled" aria-disabled={atStart} onClick={() => stage.undo()}>
          <span aria-hidden="true">◀ </span>
          {say("walk.doUndo")}
        </button>
        <GlyphButton
          word={stage.playing.value ? "walk.pause" : "walk.play"}
          glyph={stage.playing.value ? "❚❚" : "▶▶"}
          run={() => stage.togglePlay()}
        />
        <button
          type="button"
          class="labelled main"
          aria-disabled={atEnd}
          onClick={() => stage.step()}
          data-step
        >
          {say("walk.doStep")}
          <span aria-hidden="true"> ▶</span>
        </button>
        <GlyphButton word="walk.toPhaseEnd" glyph="▶|" off={atEnd} run={() => stage.endOfPhase()} />
      </div>
      <div class="track">
        <input
          type="range"
          min={0}
          max={steps}
          value={position}
          onInput={(event) => stage.jump(Number(event.currentTarget.value))}
          aria-label={say("walk.jump")}
          aria-valuetext={say("walk.position", {
            step: position,
            steps,
            phase: say(`phase.${phase}`),
          })}
        />
      </div>
      <span class="where">
        <span class={`phase ${phase}`}>{say(`phase.${phase}`)}</span>{" "}
        {say("walk.count", { step: position, steps })}
      </span>
      <label class="speed">
        <span class="hidden">{say("walk.speed")}</span>
        <select
          value={String(stage.speed.value)}
          onChange={(event) => (stage.speed.value = Number(event.currentTarget.value))}
        >
          {speeds.map((speed) => (
            <option key={speed} value={String(speed)}>
              {say("walk.times", { speed })}
            </option>
          ))}
        </select>
      </label>
    </div>
  );
}

/** What the step last done did, in a sentence. */
export function StepText() {
  return <p class="steptext">{narrate(useStage())}</p>;
}
