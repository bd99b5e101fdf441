// The playground: a network of scalar values is trained in the page, and seen through.

import { useSignalEffect } from "@preact/signals";
import { useEffect } from "preact/hooks";

import { shortNumber } from "../../engine/numbers";
import { pythonCode } from "../../playground/python";
import { SPEEDS, session } from "../../playground/session";
import { readSettings, writeSettings } from "../../playground/settings";
import { announce } from "../../state/announce";
import { addBindings, type Binding, removeBindings } from "../../state/keys";
import { notify, place } from "../../state/studio";
import { say, sayMessage } from "../../state/words";
import { Controls } from "./controls";
import { Layers } from "./layers";
import { LossCurve } from "./losses";
import { Picture } from "./picture";
import { openPoint, PointView } from "./point";
import { Units } from "./units";

const MOST_STEPS = 20_000; // that a link makes the page train before it shows anything

const keys: Binding[] = (
  [
    [" ", "play.toggle", () => session.toggle()],
    ["ArrowRight", "play.step", () => session.step()],
    ["Home", "play.restart", () => session.restart(session.settings.peek())],
  ] as const
).map(([key, word, run]) => ({ group: "train", keys: [key], word, place: "playground", run }));

export function PlaygroundPlace() {
  useEffect(() => {
    addBindings(...keys);
    return () => {
      session.stop();
      removeBindings(...keys);
    };
  }, []);
  useSignalEffect(followPlace);
  useSignalEffect(() => {
    const { step, loss, right } = session.look.value;
    const values = { step, loss: shortNumber(loss), count: right, all: session.trainer.points.length };
    if (!session.running.value && step) announce(say("play.announced", values));
  });
  return (
    <div class="playground">
      <div class="intro">
        <h2>{say("play.title")}</h2>
        <p class="about">{say("play.about")}</p>
      </div>
      <Controls />
      <section class="card world" aria-label={say("play.picture")}>
        <Transport />
        <Picture />
        <PointView />
      </section>
      <section class="card seen" aria-label={say("play.seen")}>
        <LossCurve />
        <Findings />
        <Layers />
        <Units />
      </section>
      <Code />
    </div>
  );
}

/** A link opens its settings, a step, and a point's graph at a step of its walk. */
function followPlace(): void {
  const { kind, id, at } = place.value;
  if (kind !== "playground") return;
  const now = writeSettings(session.settings.peek());
  if (id === undefined) {
    place.value = { kind, id: now };
    return;
  }
  const [trained = 0, point, walked = 0] = (at ?? "").split(".").filter(Boolean).map(Number);
  if (at !== undefined || id !== now) {
    const wrong = (part: string): void => notify({ key: "link.part", values: { part } });
    session.restart(readSettings(id, wrong), Math.min(trained, MOST_STEPS));
    place.value = { kind, id: writeSettings(session.settings.peek()) };
  }
  if (point !== undefined) session.whenReached(() => openPoint(point, walked));
}

function Transport() {
  const { step, loss, right } = session.look.value;
  const running = session.running.value;
  return (
    <div class="transport">
      <div class="row">
        <button type="button" class="primary" onClick={() => session.toggle()} data-run>
          {say(running ? "play.pause" : "play.run")}
        </button>
        <button type="button" onClick={() => session.step()} data-step>
          {say("play.step")}
        </button>
        <button
          type="button"
          onClick={() => session.restart(session.settings.peek())}
          data-restart
        >
          {say("play.restart")}
        </button>
        <label>
          <span class="hidden">{say("play.speed")}</span>
          <select
            value={session.speed.value}
            title={say("play.speed")}
            onChange={(event) => {
              session.speed.value = event.currentTarget.value as (typeof SPEEDS)[number];
            }}
          >
            {SPEEDS.map((speed) => (
              <option key={speed} value={speed}>
                {say(`play.speed.${speed}`)}
              </option>
            ))}
          </select>
        </label>
      </div>
      <dl class="readings" data-trained={step}>
        <div>
          <dt>{say("play.steps")}</dt>
          <dd>{step}</dd>
        </div>
        <div>
          <dt>{say("play.loss")}</dt>
          <dd data-loss={loss}>{step ? shortNumber(loss) : "–"}</dd>
        </div>
        <div>
          <dt>{say("play.right")}</dt>
          <dd>{say("play.of", { count: right, all: session.trainer.points.length })}</dd>
        </div>
      </dl>
    </div>
  );
}

function Findings() {
  const { findings } = session.look.value;
  return (
    <ul class="verdicts" data-findings={findings.map(({ key }) => key.slice(5)).join(" ")}>
      {findings.map((one) => (
        <li key={one.key}>{sayMessage(one)}</li>
      ))}
    </ul>
  );
}

function Code() {
  const text = pythonCode(session.settings.value);
  const copy = (): void => {
    navigator.clipboard.writeText(text).then(
      () => announce(say("play.copied")),
      () => announce(say("play.notCopied")),
    );
  };
  return (
    <details class="card python">
      <summary>{say("play.code")}</summary>
      <p class="about">{say("play.codeAbout")}</p>
      <button type="button" onClick={copy}>
        {say("play.copy")}
      </button>
      <pre class="listing scroll" tabindex={0} aria-label={say("play.code")} translate={false}>
        {text}
      </pre>
    </details>
  );
}
