// The page.

import { announced } from "../state/announce";
import { dismissNotices, notices, place } from "../state/studio";
import { say, sayMessage } from "../state/words";
import { Header } from "./header";
import { Help } from "./help";
import { places } from "./places";
import { Workbench } from "./workbench";

export function App() {
  const { kind } = place.value;
  const Place = places[kind] ?? Workbench;
  const inLesson = kind === "lesson";
  return (
    <>
      <a class="skip" href="#main" onClick={skip("main")}>
        {say(inLesson ? "page.skipToLesson" : "page.skip")}
      </a>
      {!inLesson && (
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
