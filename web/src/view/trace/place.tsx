// The place where recorded traces are shown: drawing, walk, inspector.

import { useEffect } from "preact/hooks";

import { addBindings, type Binding, removeBindings } from "../../state/keys";
import { asTable } from "../../state/studio";
import { shownTitle, traceStage as stage } from "../../state/trace";
import { hasWords, say } from "../../state/words";
import { TableSwitch } from "../parts";
import { StepBar } from "../stepbar";
import { TraceDrawing } from "./drawing";
import { TraceInspector } from "./inspect";
import { TraceSearch } from "./search";
import { TraceTable } from "./table";

export function TracePlace() {
  useEffect(() => {
    const keys: Binding[] = [
      {
        keys: ["/", "s"],
        word: "trace.search",
        run: () => document.getElementById("trace-search")?.focus(),
      },
      { keys: ["c"], word: "trace.closeAll", run: () => stage.closeAll() },
    ].map((key) => ({ ...key, group: "view", place: "trace" }));
    addBindings(...keys);
    return () => {
      stage.pause();
      removeBindings(...keys);
    };
  }, []);
  const found = stage.document.value;
  if (!found) return <p class="panel hint">{say("trace.asking")}</p>;
  const { origin } = found;
  const about = origin.kind === "preset" ? `preset.${origin.id}.about` : "";
  return (
    <div class="workbench">
      <section class="stage recorded" aria-labelledby="scene-title">
        <div class="scene">
          <div>
            <h2 id="scene-title" translate={origin.kind === "preset"}>
              {shownTitle(found)}
            </h2>
            {about && hasWords(about) && <p class="about">{say(about)}</p>}
          </div>
          <TraceSearch />
          <div class="switches">
            {stage.earlier.value.length > 0 && (
              <button type="button" onClick={() => stage.back()} data-back>
                ‹ {say("trace.back", { title: shownTitle(stage.earlier.value.at(-1)!) })}
              </button>
            )}
            {stage.open.value.size > 0 && found.outline.scopes.length > 1 && (
              <button type="button" onClick={() => stage.closeAll()}>
                {say("trace.closeAll")}
              </button>
            )}
            {!asTable.value && (
              <button
                type="button"
                aria-pressed={stage.matrices.value}
                onClick={() => (stage.matrices.value = !stage.matrices.value)}
                data-matrices
              >
                {say("trace.matrices")}
              </button>
            )}
            <TableSwitch />
          </div>
        </div>
        {asTable.value ? <TraceTable /> : <TraceDrawing />}
        <StepBar walker={stage} />
        <p class="steptext">{stage.narrate()}</p>
      </section>
      <div class="aside">
        <section class="panels" aria-label={say("panel.inspect")}>
          <div class="panel" id="panel" tabindex={0} role="group" aria-label={say("trace.overview")}>
            <TraceInspector />
          </div>
        </section>
      </div>
    </div>
  );
}
