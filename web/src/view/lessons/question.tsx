// A question: a number to be typed, or choices.

import { useSignal } from "@preact/signals";
import { useMemo } from "preact/hooks";

import { shortNumber } from "../../engine/numbers";
import { type Judgement, judge, judgeChoice } from "../../lessons/answers";
import { isDone } from "../../lessons/progress";
import { numbersOf, quantity } from "../../lessons/quantities";
import { plainText } from "../../lessons/reader";
import { shuffled } from "../../lessons/shuffle";
import { announce } from "../../state/announce";
import { say, sayMessage } from "../../state/words";
import { NumberInput } from "../parts";
import { FoldedGraph } from "./graph";
import { Words } from "./prose";
import { complete, Explained, Hints, Shown, Task, type TaskOf } from "./task";

export function QuestionBlock(props: TaskOf) {
  const { lesson, block } = props;
  const numbers = useMemo(() => numbersOf(block), [block]);
  const right = block.choices.findIndex((choice) => choice.right);
  const order = useMemo(() => shuffled(block.choices.length, `${lesson} ${block.id}`), [block]);
  const answer = block.answer ? shortNumber(quantity(numbers, block.answer) ?? NaN) : "";
  const done = isDone(lesson, block.id);
  const typed = useSignal(done ? answer : "");
  const chosen = useSignal(done ? right : -1);
  const judged = useSignal<Judgement | null>(null);
  const tried = useSignal(false);

  const check = (event: Event): void => {
    event.preventDefault();
    const found = answer ? judge(block, numbers, typed.value) : judgeChoice(block, chosen.value);
    judged.value = found;
    tried.value = true;
    if (found.verdict === "right") complete(props, found.says!);
    else announce(found.message ? sayMessage(found.message) : plainText(found.says ?? []));
  };

  const wrong = judged.value?.verdict === "right" ? null : judged.value;
  const feedback = `feedback-${block.id}`;
  return (
    <Task {...props}>
      {block.ownSource && <FoldedGraph block={block} />}
      <form onSubmit={check}>
        {answer ? (
          <NumberInput
            aria-label={say("lesson.answer")}
            aria-invalid={wrong !== null}
            aria-describedby={wrong ? feedback : undefined}
            readOnly={done}
            value={typed.value}
            onInput={(event) => {
              typed.value = event.currentTarget.value;
              judged.value = null;
            }}
          />
        ) : (
          <fieldset class="choices" aria-labelledby={`ask-${block.id}`}>
            {order.map((i) => (
              <label key={i}>
                <input
                  type="radio"
                  data-choice={i}
                  name={`choice-${block.id}`}
                  checked={chosen.value === i}
                  disabled={done && i !== right}
                  onChange={() => {
                    chosen.value = i;
                    judged.value = null;
                  }}
                />
                <span>
                  <Words text={block.choices[i]!.text} />
                </span>
              </label>
            ))}
          </fieldset>
        )}
        {!done && (
          <button type="submit" class="main" data-check>
            {say("lesson.check")}
          </button>
        )}
      </form>
      {wrong && !done && (
        <p class="feedback wrong" id={feedback} data-feedback={wrong.verdict}>
          {wrong.message ? sayMessage(wrong.message) : <Words text={wrong.says ?? []} />}
        </p>
      )}
      {done ? (
        <Explained
          says={answer ? block.explain : [...block.choices[right]!.feedback, " ", ...block.explain]}
        />
      ) : (
        <Hints hints={block.hints}>
          {tried.value && <Shown answer={answer || plainText(block.choices[right]!.text)} />}
        </Hints>
      )}
    </Task>
  );
}
