// Where the walk stands, and the way on.

import type { Step } from "../engine/types";
import { standsAt, whatHappened } from "../state/narrate";
import { speeds, type Walker } from "../state/walker";
import { say } from "../state/words";
import { Icon } from "./icon";
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
          glyph={{ icon: "first" }}
          off={atStart}
          run={() => stage.startOfPhase()}
        />
        <button type="button" class="labelled" aria-disabled={atStart} onClick={() => stage.undo()}>
          <Icon name="back" />
          {say("walk.doUndo")}
        </button>
        <GlyphButton
          word={stage.playing.value ? "walk.pause" : "walk.play"}
          glyph={{ icon: stage.playing.value ? "pause" : "play" }}
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
          <Icon name="next" />
        </button>
        <GlyphButton word="walk.toPhaseEnd" glyph={{ icon: "last" }} off={atEnd} run={() => stage.endOfPhase()} />
      </div>
      <div class="track">
        <Track walker={stage} />
      </div>
      <span class="where">
        <span class={`phase ${phase}`}>{say(`phase.${phase}`)}</span>{" "}
        <span class="long">{say("walk.count", { step: position, steps })}</span>
        <span class="short" aria-hidden="true">
          {position}/{steps}
        </span>
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

/** The slider: it also stops between two steps, where the one that is not quite done is seen. */
function Track({ walker }: { walker: Walker<Pick<Step, "phase" | "node">> }) {
  const position = walker.position.value;
  const steps = walker.steps.value.length;
  const flight = walker.flight.value;
  return (
    <input
      type="range"
      min={0}
      max={steps}
      step="any"
      value={flight ? flight.step + walker.part.value : position}
      onInput={(event) => walker.scrub(Number(event.currentTarget.value))}
      onChange={() => walker.endScrub()}
      onKeyDown={(event) => {
        const to = {
          ArrowRight: position + 1,
          ArrowUp: position + 1,
          ArrowLeft: position - 1,
          ArrowDown: position - 1,
          PageUp: position + 5,
          PageDown: position - 5,
          Home: 0,
          End: steps,
        }[event.key];
        if (to === undefined) return;
        event.preventDefault();
        walker.jump(to);
      }}
      aria-label={say("walk.jump")}
      aria-valuetext={say("walk.position", {
        step: position,
        steps,
        phase: say(`phase.${walker.phase.value}`),
      })}
    />
  );
}

/** What the step last done did, in a few sentences; which one it is, the bar above shows. */
export function StepText() {
  const stage = useStage();
  return (
    <p class="steptext">
      <span class="hidden">{standsAt(stage)} </span>
      {whatHappened(stage)}
    </p>
  );
}
