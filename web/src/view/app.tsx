// The page.

import { own } from "../engine/own";
import { announced } from "../state/announce";
import { dismissNotices, notices, place } from "../state/studio";
import { say, sayMessage } from "../state/words";
import { Header } from "./header";
import { Help } from "./help";
import { places } from "./places";
import { Workbench } from "./workbench";

/** Places where there is no panel beside the graph: what the way past the head leads to. */
const withoutPanel: Record<string, string> = {
  lesson: "page.skipToLesson",
  playground: "page.skipToTraining",
};

export function App() {
  const { kind } = place.value;
  const Place = places[kind] ?? Workbench;
  const skipTo = own(withoutPanel, kind);
  return (
    <>
      <a class="skip" href="#main" onClick={skip("main")}>
        {say(skipTo ?? "page.skip")}
      </a>
      {!skipTo && (
        <a class="skip" href="#panel" onClick={skip("panel")}>
          {say("page.skipToPanel")}
        </a>
      )}
      <Header />
      {notices.value.length > 0 && (
        <div class="notices" role="alert">
          <ul>
            {notices.value.map((notice, i) => (
              <li key={i}>{sayMessage(notice)}</li>
            ))}
          </ul>
          <button type="button" onClick={dismissNotices}>
            {say("page.dismiss")}
          </button>
        </div>
      )}
      <main id="main" tabindex={-1}>
        <Place />
      </main>
      <div class="hidden" role="status" aria-live="polite" data-announced>
        {announced.value}
      </div>
      <Help />
    </>
  );
}

/** The address is for links to graphs: move the focus without touching it. */
function skip(id: string): (event: Event) => void {
  return (event) => {
    event.preventDefault();
    document.getElementById(id)?.focus();
  };
}
