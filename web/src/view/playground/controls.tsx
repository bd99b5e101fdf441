// The settings. Any change starts the training again from the first step, so that it is always what
// the Python code says.

import { session } from "../../playground/session";
import { CHOICES, type Settings, writeSettings } from "../../playground/settings";
import { place } from "../../state/studio";
import { say } from "../../state/words";

function change<Name extends keyof Settings>(name: Name, value: Settings[Name]): void {
  const settings = { ...session.settings.peek(), [name]: value };
  session.restart(settings);
  place.value = { kind: "playground", id: writeSettings(settings) };
}

export function Controls() {
  const { zero, data } = session.settings.value;
  return (
    <section class="card settings" aria-label={say("play.settings")}>
      <fieldset>
        <legend>{say("play.group.data")}</legend>
        <Choose name="data" />
        {data !== "digits" && <Slide name="noise" />}
        <Slide name="seed" />
      </fieldset>
      <fieldset>
        <legend>{say("play.group.model")}</legend>
        <Slide name="depth" />
        <Slide name="width" />
        <Choose name="activation" />
        <Choose name="init" />
      </fieldset>
      <fieldset>
        <legend>{say("play.group.training")}</legend>
        <Choose name="optimizer" />
        <Slide name="rate" />
        <Slide name="batch" />
        <label class="check">
          <input
            type="checkbox"
            checked={zero}
            onChange={(event) => change("zero", event.currentTarget.checked)}
            data-setting="zero"
          />
          <span>{say("play.zero")}</span>
        </label>
      </fieldset>
    </section>
  );
}

function Choose({ name }: { name: "data" | "activation" | "init" | "optimizer" }) {
  return (
    <label class="choose">
      <span>{say(`play.${name}`)}</span>
      <select
        value={session.settings.value[name]}
        onChange={(event) => change(name, event.currentTarget.value)}
        data-setting={name}
      >
        {CHOICES[name].map((one) => (
          <option key={one} value={one}>
            {say(`play.${name}.${one}`)}
          </option>
        ))}
      </select>
    </label>
  );
}

/** The choices of a number on a slider. */
function Slide({ name }: { name: "noise" | "seed" | "depth" | "width" | "rate" | "batch" }) {
  const choices = CHOICES[name];
  const value = session.settings.value[name];
  return (
    <label class="slide">
      <span>{say(`play.${name}`)}</span>
      <output>{value}</output>
      <input
        type="range"
        min={0}
        max={choices.length - 1}
        value={choices.indexOf(value)}
        aria-valuetext={String(value)}
        onInput={(event) => change(name, choices[Number(event.currentTarget.value)]!)}
        data-setting={name}
      />
    </label>
  );
}
