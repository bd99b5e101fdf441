// The map of the keyboard, which `?` shows.

import { useEffect, useRef } from "preact/hooks";

import { applies, bindings, letterKeys, setLetterKeys } from "../state/keys";
import { helpOpen } from "../state/studio";
import { hasWords, say } from "../state/words";

export function Help() {
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    if (helpOpen.value && !dialog.current!.open) dialog.current!.showModal();
    if (!helpOpen.value && dialog.current!.open) dialog.current!.close();
  }, [helpOpen.value]);
  const here = bindings.value.filter(applies);
  const groups = [...new Set(here.map((binding) => binding.group))];
  return (
    <dialog
      ref={dialog}
      class="help"
      aria-labelledby="help-title"
      onClose={() => (helpOpen.value = false)}
    >
      {helpOpen.value && (
        <>
          <h2 id="help-title">{say("keys.title")}</h2>
          <div class="columns">
            {groups.map((group) => (
              <section key={group}>
                <h3>{say(`keys.${group}`)}</h3>
                <dl>
                  {here
                    .filter((b) => b.group === group)
                    .map((binding) => (
                      <div key={binding.word}>
                        <dt>
                          {binding.keys.map((key) => (
                            <kbd key={key}>{keyText(key)}</kbd>
                          ))}
                        </dt>
                        <dd>{say(binding.word)}</dd>
                      </div>
                    ))}
                </dl>
              </section>
            ))}
          </div>
          <p class="hint">{say("keys.more")}</p>
          <p>
            <label>
              <input
                type="checkbox"
                checked={letterKeys.value}
                onChange={(event) => setLetterKeys(event.currentTarget.checked)}
              />{" "}
              {say("keys.letters")}
            </label>
          </p>
          <button type="button" class="main" onClick={() => (helpOpen.value = false)}>
            {say("keys.close")}
          </button>
        </>
      )}
    </dialog>
  );
}

const glyphs: Record<string, string> = {
  ArrowRight: "→",
  ArrowLeft: "←",
  ArrowUp: "↑",
  ArrowDown: "↓",
};

function keyText(key: string): string {
  return key
    .split(/(?<=.)\+/)
    .map(
      (part) => glyphs[part] ?? (hasWords(`keys.name.${part}`) ? say(`keys.name.${part}`) : part),
    )
    .join(" ");
}
