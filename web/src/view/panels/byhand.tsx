// By hand: type each number before it is shown. Lessons use it too, with asks of their own.

import { effect, useSignal } from "@preact/signals";
import { useEffect, useId, useLayoutEffect, useMemo, useRef } from "preact/hooks";

import { type Asked, correctAnswer } from "../../engine/byhand";
import {
  expressionText,
  type Markup,
  mathName,
  mathSign,
  nodeFormula,
} from "../../engine/formulas";
import { shortNumber } from "../../engine/numbers";
import { announce } from "../../state/announce";
import {
  ByHand,
  byHandOn,
  hintsFor,
  isFound,
  keyOf,
  type Kind,
  kinds,
  type Progress,
} from "../../state/byhand";
import type { Stage } from "../../state/stage";
import { say, sayMessage } from "../../state/words";
import { Formula } from "../formula";
import { NumberInput, operandText } from "../parts";
import { useStage } from "../stage";

export function ByHandPanel() {
  const stage = useStage();
  const work = byHandOn(stage);
  const toggle = (kind: Kind, on: boolean): void => {
    work.chosen.value = kinds.filter((k) => (k === kind ? on : work.chosen.value.includes(k)));
  };
  return (
    <>
      <h3>{say("panel.byhand")}</h3>
      <p>{say("byhand.about")}</p>
      <fieldset class="row kinds">
        <legend class="hidden">{say("byhand.kinds")}</legend>
        {kinds.map((kind) => (
          <label key={kind} class="check">
            <input
              type="checkbox"
              checked={work.chosen.value.includes(kind)}
              onChange={(event) => toggle(kind, event.currentTarget.checked)}
              data-kind={kind}
            />
            <span>{say(`byhand.kind.${kind}`)}</span>
          </label>
        ))}
      </fieldset>
      <Work work={work} />
    </>
  );
}

/** For lessons: these asks on the stage it stands on; `onProgress` hears of every change. */
export function ByHandWork(props: { asks: Asked[]; onProgress?: (progress: Progress) => void }) {
  const stage = useStage();
  const { asks, onProgress } = props;
  const work = useMemo(() => new ByHand(stage, asks), [stage, asks.map(keyOf).join()]);
  useEffect(() => effect(() => onProgress?.(work.progress.value)), [work, onProgress]);
  return <Work work={work} />;
}

function ProgressText({ work }: { work: ByHand }) {
  const progress = work.progress.value;
  const { right, revealed, total } = progress;
  const done = right + revealed;
  return (
    <p class="progress" data-done={done} data-right={right} data-total={total}>
      <progress value={done} max={Math.max(total, 1)} aria-label={say("byhand.progressBar")} />{" "}
      {say("byhand.progress", { done, total })}
      {revealed > 0 && ` ${say("byhand.revealedCount", { count: revealed })}`}
      {total > 0 &&
        done === total &&
        ` ${say(isFound(progress) ? "byhand.finished" : "byhand.mostRevealed")}`}
    </p>
  );
}

function Work({ work }: { work: ByHand }) {
  const stage = useStage();
  const list = useRef<HTMLDivElement>(null);
  useLayoutEffect(() => {
    stage.pause();
    stage.byHand.value = work;
    return () => (stage.byHand.value = null);
  }, [stage, work]);
  // What is picked in the drawing is what is to be answered.
  useEffect(() => {
    let first = true;
    return stage.picked.subscribe(() => {
      if (!first)
        list.current
          ?.querySelector<HTMLInputElement>(`[data-about="${aboutSelection(stage)}"]`)
          ?.focus();
      first = false;
    });
  }, [stage]);
  const asks = work.asks.value;
  return (
    <div class="byhand" ref={list}>
      <ProgressText work={work} />
      {kinds.map((kind) => {
        const some = asks.filter((asked) => asked.kind === kind);
        return (
          some.length > 0 && (
            <fieldset key={kind}>
              <legend>{say(`byhand.kind.${kind}`)}</legend>
              {some.map((asked) => (
                <Ask
                  key={`${work.round.value} ${keyOf(asked)}`}
                  work={work}
                  asked={asked}
                  next={() => focusNext(list.current!, asked)}
                />
              ))}
            </fieldset>
          )
        );
      })}
      <div class="row">
        <button type="button" onClick={() => work.restart()}>
          {say("byhand.restart")}
        </button>
      </div>
    </div>
  );
}

/** To the next number that is to be found, else to the first. */
function focusNext(list: HTMLElement, done: Asked): void {
  // After the page has been drawn with the answer.
  setTimeout(() => {
    const inputs = [...list.querySelectorAll<HTMLInputElement>("input[data-ask]")];
    const here = list.querySelector(`[data-key="${keyOf(done)}"]`);
    const after = inputs.find(
      (input) => here && here.compareDocumentPosition(input) & Node.DOCUMENT_POSITION_FOLLOWING,
    );
    (after ?? inputs[0])?.focus();
  });
}

const nodeOf = (asked: Asked): string =>
  asked.kind === "local" ? `${asked.edge.node}.${asked.edge.argument}` : String(asked.node);

function aboutSelection(stage: Stage): string {
  const selected = stage.selection.peek();
  if (selected?.kind === "edge") return `${selected.edge.node}.${selected.edge.argument}`;
  return selected?.kind === "node" ? String(selected.node) : "";
}

/** One number to find. */
function Ask({ work, asked, next }: { work: ByHand; asked: Asked; next: () => void }) {
  const stage = useStage();
  const id = useId();
  const { done, typed, message, hints } = work.answerTo(asked);
  const draft = useSignal(typed); // other answers must not take away what is being typed
  const all =
    hints || !done ? hintsFor(stage.numbers.value, asked, stage.standing.value.known) : [];
  const spoken = describe(stage, asked);
  const check = (text: string): void => {
    const verdict = work.answer(asked, text);
    announce(sayMessage(work.answerTo(asked).message!));
    if (verdict?.right) next();
  };
  const select = (): void => {
    if (asked.kind === "local") stage.selectEdge(asked.edge);
    else stage.selectNode(asked.node);
  };
  return (
    <form
      class={`asked ${done ?? ""}`}
      onSubmit={(event) => {
        event.preventDefault();
        check(draft.value);
      }}
      data-asked={`${asked.kind} ${tokenOf(stage, asked)}`}
      data-done={done ?? ""}
      data-key={keyOf(asked)}
    >
      <label for={id}>
        <span class="hidden">{spoken}</span>
        <span aria-hidden="true">
          <Formula markup={[...formulaOf(stage, asked), mathSign("=")]} />
          {asked.kind === "local" && <span class="hint">{operandText(stage, asked.edge)}</span>}
        </span>
      </label>
      {done ? (
        <output id={id} class="number" data-answer>
          {shortNumber(correctAnswer(stage.numbers.value, asked))}
        </output>
      ) : (
        <NumberInput
          id={id}
          inputMode="text"
          value={draft.value}
          onInput={(event) => (draft.value = event.currentTarget.value)}
          aria-invalid={message !== undefined}
          aria-describedby={`${id}-about`}
          onFocus={select}
          data-ask
          data-about={nodeOf(asked)}
        />
      )}
      {!done && (
        <span class="helps">
          <button type="submit">{say("byhand.check")}</button>
          <button
            type="button"
            aria-disabled={hints >= all.length}
            onClick={() =>
              hints < all.length && (work.hint(asked), announce(sayMessage(all[hints]!)))
            }
          >
            {say("byhand.hint")}
          </button>
          <button type="button" onClick={() => (work.reveal(asked), next())}>
            {say("byhand.reveal")}
          </button>
        </span>
      )}
      <div id={`${id}-about`} class="said">
        {message && (
          <p class={done ? "hint" : "verdict"} data-verdict={message.key}>
            {sayMessage(message)}
          </p>
        )}
        {!done &&
          all.slice(0, hints).map((one, i) => (
            <p key={i} class="hint" data-hint={i + 1}>
              {sayMessage(one)}
            </p>
          ))}
      </div>
    </form>
  );
}

/** As links would name it: a value's or gradient's node, an edge. */
function tokenOf(stage: Stage, asked: Asked): string {
  return asked.kind === "local"
    ? `${stage.name(asked.edge.node)}.${asked.edge.argument}`
    : stage.name(asked.node);
}

function describe(stage: Stage, asked: Asked): string {
  if (asked.kind === "local") {
    const { node, source, argument } = asked.edge;
    return say("byhand.ask.local", {
      to: stage.name(node),
      from: stage.name(source),
      argument: argument + 1,
    });
  }
  const name = stage.name(asked.node);
  if (asked.kind === "grad") return say("byhand.ask.grad", { name });
  return say("byhand.ask.value", { name, formula: expressionText(stage.graph.value, asked.node) });
}

function formulaOf(stage: Stage, asked: Asked): Markup[] {
  const { root } = stage.graph.value;
  if (asked.kind === "value") return nodeFormula(stage.graph.value, asked.node);
  if (asked.kind === "grad") return [mathName(`d${stage.name(root)}/d${stage.name(asked.node)}`)];
  const { node, source } = asked.edge;
  return [mathName(`∂${stage.name(node)}/∂${stage.name(source)}`)];
}
