// The head of the page: what to open, how it looks, sharing.

import { useSignal } from "@preact/signals";

import { tables } from "../engine/tables";
import { list, offered, openLesson } from "../lessons/library";
import { currentAddress, originNow } from "../state/address";
import { announce } from "../state/announce";
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
import { GlyphButton } from "./parts";
import { OpenTrace } from "./trace/open";

const { presets } = tables;
const groups = [...new Set(presets.map((preset) => preset.group))];

export function Header() {
  const origin = originNow();
  const open = origin.kind === "preset" ? origin.id : "";
  return (
    <header class="head">
      <h1>{say("page.title")}</h1>
      <label class="preset">
        <span>{say("page.presets")}</span>
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
      {boot.mode !== "widget" && <OpenTrace />}
      {offered && <LessonSwitch />}
      <div class="tools">
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

/** To the lessons, and to the graph again. */
function LessonSwitch() {
  const inside = place.value.kind === "lesson";
  const go = (): void => {
    if (inside) place.value = { kind: "graph" };
    else openLesson(list);
  };
  return (
    <button type="button" onClick={go} data-lessons>
      {say(inside ? "lesson.toGraph" : "lesson.title")}
    </button>
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

/** Copies the link; where the browser does not let us, shows it to be copied. */
function Share() {
  const shown = useSignal("");
  const share = async (): Promise<void> => {
    const { address, note } = currentAddress();
    if (note) notify(note);
    try {
      await navigator.clipboard.writeText(address);
      announce(say("share.copied"));
      shown.value = "";
      copied.value = true;
      setTimeout(() => (copied.value = false), 2500);
    } catch {
      shown.value = address;
    }
  };
  const copied = useSignal(false);
  return (
    <>
      <button type="button" onClick={share}>
        {say(copied.value ? "share.copied" : "page.share")}
      </button>
      {shown.value && (
        <input
          class="address"
          readOnly
          value={shown.value}
          aria-label={say("share.address")}
          ref={(input) => input?.select()}
          onBlur={() => (shown.value = "")}
        />
      )}
    </>
  );
}
