// What all things to do in a lesson share: what is asked, hints one after the other, and what is
// said about an answer.

import { useSignal } from "@preact/signals";
import type { ComponentChildren } from "preact";

import { type Block, type Inline, plainText } from "../../lessons/reader";
import { finish, isDone } from "../../lessons/progress";
import { announce } from "../../state/announce";
import { say } from "../../state/words";
import { Link } from "../parts";
import { Words } from "./prose";

export interface TaskOf {
  lesson: string;
  block: Block;
}

/** The frame of a task: a group with what is asked as its name. */
export function Task(props: TaskOf & { children: ComponentChildren }) {
  const { lesson, block } = props;
  const done = isDone(lesson, block.id);
  return (
    <section
      class={done ? "task done" : "task"}
      id={`at-${block.id}`}
      tabindex={-1}
      aria-labelledby={`ask-${block.id}`}
      data-task={block.id}
      data-kind={block.kind}
      data-done={done}
    >
      <p class="asking" id={`ask-${block.id}`}>
        {done && (
          <span class="tick" role="img" aria-label={say("lesson.done")}>
            ✓{" "}
          </span>
        )}
        {block.ask.length ? <Words text={block.ask} /> : say(`lesson.ask.${block.kind}`)}
      </p>
      {props.children}
    </section>
  );
}

export function Hints({ hints, children }: { hints: Inline[][]; children?: ComponentChildren }) {
  const shown = useSignal(0);
  const more = (): void => {
    announce(plainText(hints[shown.value] ?? []));
    shown.value += 1;
  };
  return (
    <>
      {shown.value > 0 && (
        <ol class="hints" aria-label={say("lesson.hints")}>
          {hints.slice(0, shown.value).map((hint, i) => (
            <li key={i} data-hint={i + 1}>
              <Words text={hint} />
            </li>
          ))}
        </ol>
      )}
      {shown.value < hints.length && (
        <p>
          <Link onClick={more} data-more>
            {say("lesson.hint", { number: shown.value + 1, count: hints.length })}
          </Link>
        </p>
      )}
      {shown.value >= hints.length && children}
    </>
  );
}

/** Who has seen every hint and tried may look, and has still to give the answer. */
export function Shown({ answer }: { answer: string | undefined }) {
  const shown = useSignal(false);
  if (!answer) return null;
  const text = say("lesson.answerIs", { answer });
  const show = (): void => {
    shown.value = true;
    announce(text);
  };
  return (
    <p>
      {shown.value ? (
        text
      ) : (
        <Link onClick={show} data-reveal>
          {say("lesson.show")}
        </Link>
      )}
    </p>
  );
}

/** Done: kept, and told, the first time, with what the lesson says to it. */
export function complete({ lesson, block }: TaskOf, says = block.explain): void {
  if (isDone(lesson, block.id)) return;
  finish(lesson, block.id);
  announce(`${say("lesson.right")} ${plainText(says)}`);
}

/** After the right answer. */
export function Explained({ says }: { says: Inline[] }) {
  return (
    <p class="feedback right" data-feedback="right">
      <strong>{say("lesson.right")}</strong> <Words text={says} />
    </p>
  );
}
