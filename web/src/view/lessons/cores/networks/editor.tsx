// An engine written in the page. Where the page has a Python to ask, it is checked at once;
// elsewhere the command line checks it.

import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";

import { canCheck, type CheckedFile, checkEngine, starter } from "../../../../lessons/check-engine";
import { announce } from "../../../../state/announce";
import { recall, remember } from "../../../../state/storage";
import { say } from "../../../../state/words";
import type { CoreProps } from "../registry";

const kept = "engine"; // the text is the learner's: it is there again after a reload
const file = "my_engine.py";
const skeleton = `class Value:
    def __init__(self, data, inputs=(), locals=()):
        self.data = data
        self.grad = 0.0
        self.inputs = inputs
        self.locals = locals

    def __add__(self, other):
        return Value(self.data + other.data, (self, other), (1.0, 1.0))
`;

export function Editor({ finish }: CoreProps) {
  const text = useSignal(recall<string>(kept) ?? (canCheck() ? "" : skeleton));
  const busy = useSignal(false);
  const result = useSignal<CheckedFile | null>(null);
  const failure = useSignal("");
  useEffect(() => {
    if (canCheck() && !text.peek()) starter().then((found) => (text.value = found));
  }, []);
  const write = (value: string): void => {
    text.value = value;
    remember(kept, value);
  };
  const check = async (): Promise<void> => {
    [busy.value, failure.value] = [true, ""];
    try {
      const found = await checkEngine(text.value);
      result.value = found;
      announce(say("core.editor.points", { points: found.points, of: found.out_of }));
      if (found.passed) finish();
    } catch (error) {
      failure.value = (error as Error).message;
    }
    busy.value = false;
  };
  const save = (): void => {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([text.value], { type: "text/x-python" }));
    link.download = file;
    link.click();
    URL.revokeObjectURL(link.href);
  };
  return (
    <div class="readings">
      <textarea
        class="editor"
        rows={18}
        spellcheck={false}
        autocapitalize="off"
        aria-label={say("core.editor.label")}
        value={text.value}
        onInput={(event) => write(event.currentTarget.value)}
        translate={false}
      />
      <p class="row">
        {canCheck() && (
          <button type="button" onClick={check} disabled={busy.value} data-check-engine>
            {say(busy.value ? "core.editor.busy" : "core.editor.check")}
          </button>
        )}
        <button type="button" onClick={save}>
          {say("core.editor.save")} <code translate={false}>{file}</code>
        </button>
      </p>
      {!canCheck() && (
        <>
          <p class="hint">{say("core.editor.elsewhere")}</p>
          <pre translate={false}>gradwalk course check {file}</pre>
          <label class="check">
            <input
              type="checkbox"
              onChange={(event) => event.currentTarget.checked && finish()}
              data-passed
            />
            <span>{say("core.editor.passed")}</span>
          </label>
        </>
      )}
      {failure.value && (
        <p class="feedback wrong" role="alert">
          {failure.value}
        </p>
      )}
      {result.value && <Result found={result.value} />}
    </div>
  );
}

function Result({ found }: { found: CheckedFile }) {
  return (
    <div data-points={found.points}>
      <p>
        <strong>{say("core.editor.points", { points: found.points, of: found.out_of })}</strong>
        {` ${found.reason}`}
      </p>
      <ul class="stages">
        {found.stages.map(({ key, title, right, tried }) => (
          <li key={key}>
            {right === tried ? "✓" : "·"} {title}: {right} / {tried}
          </li>
        ))}
      </ul>
      {found.mistakes.map(({ key, title, text }) => (
        <p key={key} class="feedback wrong" data-mistake={key}>
          <strong>{say("core.editor.mistake", { title })}</strong> {text}
        </p>
      ))}
    </div>
  );
}
