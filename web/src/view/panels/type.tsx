// Type your own: an expression, or several assignments.

import { useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";

import { leavesOf } from "../../engine/graph";
import { tables } from "../../engine/tables";
import { mistake, openSource } from "../../state/studio";
import { say, sayMessage } from "../../state/words";
import { useStage } from "../stage";

export function TypePanel() {
  const stage = useStage();
  const { origin } = stage.scene.value;
  const text = useSignal(mistake.value?.source ?? sourceOf(origin));
  const area = useRef<HTMLTextAreaElement>(null);
  useEffect(() => {
    text.value = mistake.peek()?.source ?? sourceOf(origin);
  }, [stage.scene.value]);
  const wrong = mistake.value?.source === text.value ? mistake.value.mistake : undefined;
  const walk = (): void => {
    const { graph, values } = stage.numbers.value;
    const numbers = leavesOf(graph).map((leaf) => [stage.name(leaf), values[leaf]!]);
    if (!openSource(text.value, Object.fromEntries(numbers), undefined, true)) {
      area.current?.focus();
    }
  };
  return (
    <form
      onSubmit={(event) => {
        event.preventDefault();
        walk();
      }}
    >
      <h3>
        <label for="own">{say("type.title")}</label>
      </h3>
      <p id="own-about">{say("type.about")}</p>
      <textarea
        id="own"
        ref={area}
        rows={6}
        spellcheck={false}
        autocapitalize="off"
        autocomplete="off"
        value={text.value}
        aria-invalid={wrong !== undefined}
        aria-describedby={wrong ? "own-wrong" : "own-about"}
        onInput={(event) => (text.value = event.currentTarget.value)}
        onKeyDown={(event) => {
          if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
            event.preventDefault();
            walk();
          }
        }}
      />
      {wrong && (
        <div
          class="mistake"
          id="own-wrong"
          role="alert"
          data-line={wrong.line}
          data-column={wrong.column}
        >
          <pre aria-hidden="true" translate={false}>
            {text.value.split("\n")[wrong.line - 1]}
            {"\n"}
            {" ".repeat(wrong.column - 1)}^
          </pre>
          <p>
            {say("type.wrong", { line: wrong.line, column: wrong.column })} {sayMessage(wrong)}
          </p>
          {wrong.hint && <p>{say("type.hint", { hint: sayMessage(wrong.hint) })}</p>}
        </div>
      )}
      <p>
        <button type="submit" class="main">
          {say("type.walk")}
        </button>
      </p>
    </form>
  );
}

function sourceOf(origin: ReturnType<typeof useStage>["scene"]["value"]["origin"]): string {
  if (origin.kind === "expression") return origin.source;
  const preset = origin.kind === "preset" && tables.presets.find((p) => p.id === origin.id);
  return preset && preset.kind === "expression" ? preset.source : "";
}
