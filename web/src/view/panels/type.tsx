// Type your own: an expression, or several assignments.

import { useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";

import { leavesOf } from "../../engine/graph";
import { tables } from "../../engine/tables";
import { mistake, openSource, remarks } from "../../state/studio";
import { say, sayMessage } from "../../state/words";
import { LeafInput } from "../leaf";
import { Link } from "../parts";
import { useStage } from "../stage";

const examples = [
  "o = tanh(w1*x1 + w2*x2 + b)",
  "p = sigmoid(w*x + b)\nloss = -log(p)",
  "loss = (w*x + b - y)^2",
  "r = sqrt(x^2 + y^2)",
];

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
  const insert = (name: string): void => {
    const { selectionStart: from, selectionEnd: to, value } = area.current!;
    text.value = `${value.slice(0, from)}${name}(${value.slice(from, to)})${value.slice(to)}`;
    requestAnimationFrame(() => {
      area.current!.focus();
      area.current!.setSelectionRange(from + name.length + 1, to + name.length + 1);
    });
  };
  const shown = origin.kind === "expression" && text.value === origin.source && !wrong;
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
      {shown && remarks.value.length > 0 && (
        <ul class="remarks" role="status" data-remarks>
          {remarks.value.map((remark) => (
            <li key={remark.key}>{sayMessage(remark)}</li>
          ))}
        </ul>
      )}
      {shown && <Values />}
      <Examples choose={(source) => openSource(source)} />
      <Functions insert={insert} />
    </form>
  );
}

/** The numbers of the leaves, beside the expression they are in. */
function Values() {
  const stage = useStage();
  return (
    <fieldset class="bare">
      <legend>{say("type.values")}</legend>
      <div class="leaves">
        {leavesOf(stage.graph.value).map((leaf) => (
          <label key={leaf}>
            <span class="name" translate={false}>
              {stage.name(leaf)}
            </span>
            <LeafInput node={leaf} />
          </label>
        ))}
      </div>
    </fieldset>
  );
}

function Examples({ choose }: { choose: (source: string) => void }) {
  return (
    <div>
      <h4>{say("type.examples")}</h4>
      <ul class="picks">
        {examples.map((source) => (
          <li key={source}>
            <Link onClick={() => choose(source)} translate={false} data-example>
              <span>{source.replace("\n", "; ")}</span>
            </Link>
          </li>
        ))}
      </ul>
    </div>
  );
}

function Functions({ insert }: { insert: (name: string) => void }) {
  return (
    <details>
      <summary>{say("type.functions")}</summary>
      <p class="hint">{say("type.operators")}</p>
      <div class="names">
        {Object.keys(tables.functions).map((name) => (
          <Link key={name} onClick={() => insert(name)} translate={false} data-function={name}>
            {name}
          </Link>
        ))}
      </div>
    </details>
  );
}

function sourceOf(origin: ReturnType<typeof useStage>["scene"]["value"]["origin"]): string {
  if (origin.kind === "expression") return origin.source;
  const preset = origin.kind === "preset" && tables.presets.find((p) => p.id === origin.id);
  return preset && preset.kind === "expression" ? preset.source : "";
}
