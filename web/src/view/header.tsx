// The head of the page: what to open, how it looks, sharing.

import { useSignal } from "@preact/signals";

import { tables } from "../engine/tables";
import { list, offered, openLesson } from "../lessons/library";
import { originNow } from "../state/address";
import { boot } from "../state/boot";
import { saveCopy } from "../state/export";
import {
  helpOpen,
  notify,
  openPreset,
  place,
  setTheme,
  type Theme,
  theme,
  titleOf,
} from "../state/studio";
import { language, say, speak } from "../state/words";
import { Icon } from "./icon";
import { GlyphButton } from "./parts";
import { Share } from "./share";
import { OpenTrace } from "./trace/open";

const { presets } = tables;
const groups = [...new Set(presets.map((preset) => preset.group))];

export function Header() {
  const origin = originNow();
  const open = origin.kind === "preset" ? origin.id : "";
  const menu = useSignal(false);
  return (
    <header class="head">
      <h1>
        <Logo />
        {say("page.title")}
      </h1>
      <Places />
      <label class="preset">
        <span class="hidden">{say("page.presets")}</span>
        <select
          value={open}
          onChange={(event) => openPreset(event.currentTarget.value)}
          data-presets
        >
          {!open && <option value="">{titleOf(origin)}</option>}
          {groups.map((group) => (
            <optgroup key={group} label={say(`preset.group.${group}`)}>
              {presets
                .filter((preset) => preset.group === group)
                .map(({ id }) => (
                  <option key={id} value={id}>
                    {say(`preset.${id}.title`)}
                  </option>
                ))}
            </optgroup>
          ))}
        </select>
      </label>
      <button
        type="button"
        class="glyph menu"
        aria-label={say("page.menu")}
        aria-expanded={menu.value}
        aria-controls="tools"
        onClick={() => (menu.value = !menu.value)}
      >
        <Icon name={menu.value ? "close" : "menu"} />
      </button>
      <div class={menu.value ? "tools open" : "tools"} id="tools">
        {boot.mode !== "widget" && <OpenTrace />}
        {boot.mode !== "widget" && <Send />}
        <Choice
          word="page.theme"
          value={theme.value}
          options={(["auto", "light", "dark"] as const).map((t) => [t, say(`theme.${t}`)])}
          choose={(wanted) => setTheme(wanted as Theme)}
        />
        {Object.keys(boot.languages).length > 1 && (
          <Choice
            word="page.language"
            value={language.value}
            options={Object.entries(boot.languages)}
            choose={(name) =>
              speak(name).catch(() => notify({ key: "page.noLanguage", values: { name } }))
            }
          />
        )}
        <GlyphButton word="keys.help" glyph="?" run={() => (helpOpen.value = true)} />
      </div>
    </header>
  );
}

/** Two inputs, and what they make. */
function Logo() {
  return (
    <svg class="logo" viewBox="0 0 24 24" width="22" height="22" aria-hidden="true">
      <path d="M6 6.5C12 6.5 11 12 17 12M6 17.5C12 17.5 11 12 17 12" />
      <circle cx="5" cy="6.5" r="3" />
      <circle cx="5" cy="17.5" r="3" />
      <circle class="result" cx="18.5" cy="12" r="4" />
    </svg>
  );
}

/** Where one can be: at a graph, in the lessons, in training. */
function Places() {
  const { kind } = place.value;
  const found = [
    { name: "graph", word: "page.graph", here: kind === "graph" || kind === "trace", go: toGraph },
    ...(offered
      ? [{ name: "lessons", word: "lesson.title", here: kind === "lesson", go: () => openLesson(list) }]
      : []),
    ...(boot.mode !== "widget"
      ? [{ name: "playground", word: "play.open", here: kind === "playground", go: toTraining }]
      : []),
  ];
  if (found.length < 2) return null;
  return (
    <nav class="places" aria-label={say("page.places")}>
      {found.map(({ name, word, here, go }) => (
        <button
          key={name}
          type="button"
          aria-current={here ? "page" : undefined}
          onClick={go}
          {...{ [`data-${name}`]: true }}
        >
          {say(word)}
        </button>
      ))}
    </nav>
  );
}

function toGraph(): void {
  if (place.value.kind !== "trace") place.value = { kind: "graph" };
}

function toTraining(): void {
  if (place.value.kind !== "playground") place.value = { kind: "playground" };
}

/**
 * Not from inside a notebook: its frame has no address, and may not save files. A lesson cannot be
 * saved: it is files beside the page, and a copy is one file.
 */
function Send() {
  return (
    <>
      <Share />
      {place.value.kind !== "lesson" && (
        <button
          type="button"
          onClick={() => saveCopy().catch(() => notify({ key: "page.noExport" }))}
        >
          {say("page.export")}
        </button>
      )}
    </>
  );
}

function Choice(props: {
  word: string;
  value: string;
  options: [string, string][];
  choose: (value: string) => void;
}) {
  return (
    <label class="setting">
      <span class="hidden">{say(props.word)}</span>
      <select
        value={props.value}
        onChange={(event) => props.choose(event.currentTarget.value)}
        title={say(props.word)}
      >
        {props.options.map(([value, text]) => (
          // A language is called what it calls itself.
          <option key={value} value={value} translate={props.word !== "page.language"}>
            {text}
          </option>
        ))}
      </select>
    </label>
  );
}
