// Search by name, op, module or source line.

import { useComputed, useSignal } from "@preact/signals";

import { traceStage as stage } from "../../state/trace";
import { say } from "../../state/words";
import { entriesOf, search } from "../../trace/search";
import { Link } from "../parts";

const most = 8;

export function TraceSearch() {
  const asked = useSignal("");
  const chosen = useSignal(false);
  const entries = useComputed(() => {
    const { trace, outline } = stage.document.value!;
    return entriesOf(trace, outline);
  });
  // The list of everything is made when somebody first asks.
  const result = useComputed(() =>
    asked.value.trim() ? search(entries.value, asked.value, most) : null,
  );
  const go = (index: number): void => {
    const entry = result.value?.found[index];
    if (!entry) return;
    chosen.value = true;
    stage.reveal(entry.item);
  };
  return (
    <form
      class="search"
      role="search"
      onSubmit={(event) => {
        event.preventDefault();
        go(0);
      }}
    >
      <input
        type="search"
        id="trace-search"
        placeholder={say("trace.search")}
        aria-label={say("trace.search")}
        value={asked.value}
        onInput={(event) => {
          asked.value = event.currentTarget.value;
          chosen.value = false;
        }}
        onFocus={() => (chosen.value = false)}
        onKeyDown={(event) => {
          if (event.key === "Escape") asked.value = "";
        }}
      />
      {result.value && !chosen.value && (
        <div
          class="results"
          role="group"
          aria-label={say("trace.results", { count: result.value.count })}
        >
          <p class="hint" role="status">
            {say("trace.results", { count: result.value.count })}
          </p>
          <ul>
            {result.value.found.map(({ name, about }, i) => (
              <li key={i}>
                <Link onClick={() => go(i)} data-result={name} translate={false}>
                  {name} <span class="soft">{about}</span>
                </Link>
              </li>
            ))}
          </ul>
        </div>
      )}
    </form>
  );
}
