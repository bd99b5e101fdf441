// Starts the page.

import "./state/tables"; // first: the others read them

import { effect } from "@preact/signals";
import { render } from "preact";

import { followPlace, opened, startOfLessons, startsWithLessons } from "./lessons/library";
import { openLink } from "./state/address";
import { boot } from "./state/boot";
import { followAddress } from "./state/history";
import { addBindings, handleKey } from "./state/keys";
import { followNotebook } from "./state/notebook";
import "./state/server"; // before the address loses the token
import { recall } from "./state/storage";
import {
  defaultPanel,
  notify,
  openers,
  openSource,
  panel,
  place,
  present,
  presenting,
  stage,
} from "./state/studio";
import { traceStage } from "./state/trace";
import { openFirstSession, openTrace } from "./state/traces";
import { say, speak } from "./state/words";
import { App } from "./view/app";
import { panels } from "./view/panels";

declare global {
  interface Window {
    /** For tests and the curious; only to be read. */
    gradwalkStudio: unknown;
  }
}

addBindings(
  ...panels.map(({ name, key }) => ({
    group: "panels",
    keys: [key],
    word: `panel.${name}`,
    run: () => {
      panel.value = name;
    },
  })),
);
effect(() => {
  const name = panel.value;
  if (panels.some((one) => one.name === name)) return;
  notify({ key: "link.part", values: { part: `panel=${name}` } });
  panel.value = defaultPanel;
});
document.addEventListener("keydown", handleKey);
window.gradwalkStudio = { stage, place, trace: traceStage };
openers.trace = openTrace;

const wanted = recall<string>("language");
if (wanted && wanted !== "en" && wanted in boot.languages) {
  speak(wanted).catch(() => notify({ key: "page.noLanguage", values: { name: wanted } }));
}

followAddress(() => {
  const first = boot.document;
  if (boot.link) openLink(boot.link);
  else if (first?.kind === "expression") {
    const { source, values } = first;
    const title = first.title === source ? undefined : first.title;
    openSource(source, values, { kind: "expression", source, title });
  } else if (first?.kind === "trace") {
    openers.trace(first.title, first.trace, { kind: "trace", title: first.title });
  } else if (boot.session) openFirstSession(boot.session, () => openLink(""));
  else openLink(startsWithLessons() ? startOfLessons : "");
});

// The browser ends a full screen by itself, by Escape.
document.addEventListener("fullscreenchange", () => {
  if (!document.fullscreenElement) present(false);
});
effect(() => {
  if (place.value.kind !== "graph" && presenting.peek()) present(false);
});

followNotebook();
followPlace();
effect(() => {
  const lesson = place.value.kind === "lesson" && opened.value?.entry.title;
  document.title = [lesson, say("page.title")].filter(Boolean).join(" · ");
});
const root = document.createElement("div");
root.id = "app";
document.body.append(root);

// Drawn once the fonts are there, so that nothing moves; a network that is slow is not waited for.
// Asked for again after that: until the page has a size the browser may start over with its faces.
const loadFonts = () => Promise.allSettled([...document.fonts].map((font) => font.load()));
void Promise.race([loadFonts(), new Promise((done) => setTimeout(done, 1000))])
  .then(() => render(<App />, root))
  .then(loadFonts);
