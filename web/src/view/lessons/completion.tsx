// For a class: the line that a learner sends to the teacher, where the site has a class's key.

import { signal } from "@preact/signals";

import { entries } from "../../lessons/library";
import { doneOf } from "../../lessons/progress";
import { announce } from "../../state/announce";
import { boot } from "../../state/boot";
import { completionLine, oneLine } from "../../state/completion";
import { recall, remember } from "../../state/storage";
import { say } from "../../state/words";

const learner = signal(String(recall("learner") ?? ""));

export function Completion() {
  const name = learner.value;
  const key = boot.classKey;
  if (!key || !entries.value) return null;
  const lessons = entries.value.map(({ id, tasks }) => ({ id, tasks, done: doneOf(id, tasks) }));
  const begun = lessons.filter(({ done }) => done > 0);
  const day = new Date();
  const date = [day.getFullYear(), day.getMonth() + 1, day.getDate()]
    .map((part) => String(part).padStart(2, "0"))
    .join("-");
  const line = oneLine(name) && begun.length ? completionLine(key, name, begun, date) : "";
  return (
    <section class="completion" data-completion>
      <h3>{say("completion.title")}</h3>
      <p>{say("completion.about")}</p>
      <label>
        <span>{say("completion.name")}</span>
        <input
          type="text"
          autocomplete="name"
          maxLength={80}
          value={name}
          onInput={(event) => {
            learner.value = event.currentTarget.value;
            remember("learner", learner.value);
          }}
        />
      </label>
      {line ? (
        <>
          <output class="code" data-line>
            {line}
          </output>
          <button
            type="button"
            onClick={() => {
              void navigator.clipboard?.writeText(line).then(() => announce(say("completion.copied")));
            }}
          >
            {say("completion.copy")}
          </button>
        </>
      ) : (
        <p class="quiet">{say(begun.length ? "completion.needsName" : "completion.nothing")}</p>
      )}
    </section>
  );
}
