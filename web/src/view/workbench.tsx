// The stage with its step bar, and the panels beside it.

import { useEffect } from "preact/hooks";

import { asTable, defaultPanel, panel, titleOf } from "../state/studio";
import { hasWords, say } from "../state/words";
import { ChangeView } from "./change";
import { Counters } from "./counters";
import { GraphView } from "./graph";
import { panels } from "./panels";
import { Scroll, TableSwitch } from "./parts";
import { useStage } from "./stage";
import { StepBar, StepText } from "./stepbar";
import { TableView } from "./table";

export function Workbench() {
  const stage = useStage();
  const { origin } = stage.scene.value;
  const about = origin.kind === "preset" ? `preset.${origin.id}.about` : "";
  const source = origin.kind === "expression" ? origin.source : "";
  const byHand = stage.byHand.value !== null; // what the walk says would give the answers away
  return (
    <div class="workbench">
      <section class="stage" aria-labelledby="scene-title">
        <div class="scene">
          <div>
            <h2 id="scene-title">{titleOf(origin)}</h2>
            {about && hasWords(about) && <p class="about">{say(about)}</p>}
            {source && (
              <Scroll class="about" label={say("type.title")}>
                <code translate={false}>{source}</code>
              </Scroll>
            )}
          </div>
          <div class="switches">
            <fieldset class="switch">
              <legend class="hidden">{say("view.drawing")}</legend>
              {(["nodes", "edges"] as const).map((drawing) => (
                <label key={drawing}>
                  <input
                    type="radio"
                    name="drawing"
                    checked={stage.drawing.value === drawing}
                    onChange={() => (stage.drawing.value = drawing)}
                  />
                  <span>{say(`view.on.${drawing}`)}</span>
                </label>
              ))}
            </fieldset>
            <TableSwitch />
          </div>
        </div>
        {byHand ? (
          <p class="steptext" data-position={stage.position.value}>
            {say("byhand.hidden")}
          </p>
        ) : (
          <>
            <StepBar />
            <StepText />
          </>
        )}
        {asTable.value ? <TableView /> : <GraphView />}
        {!byHand && <ChangeView />}
        {!byHand && !stage.lab.value && <Counters />}
      </section>
      <PanelArea />
    </div>
  );
}

function PanelArea() {
  const stage = useStage();
  useEffect(() => {
    let first = true;
    return stage.picked.subscribe(() => {
      const shown = panels.find((p) => p.name === panel.peek())!;
      if (!first && !shown.showsSelection) panel.value = defaultPanel;
      first = false;
    });
  }, [stage]);
  const shown = panels.find((p) => p.name === panel.value)!;
  const Shown = shown.component;
  const move = (event: KeyboardEvent): void => {
    const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!by) return;
    event.preventDefault();
    const at = panels.indexOf(shown) + by + panels.length;
    const wanted = panels[at % panels.length]!;
    panel.value = wanted.name;
    document.getElementById(`tab-${wanted.name}`)?.focus();
  };
  return (
    <section class="panels" aria-label={say("panel.title")}>
      <div class="tabs" role="tablist" aria-label={say("panel.title")} onKeyDown={move}>
        {panels.map(({ name, key }) => (
          <button
            key={name}
            type="button"
            role="tab"
            id={`tab-${name}`}
            aria-selected={shown.name === name}
            aria-controls="panel"
            tabindex={shown.name === name ? 0 : -1}
            title={say("panel.key", { key })}
            onClick={() => (panel.value = name)}
          >
            {say(`panel.${name}`)}
          </button>
        ))}
      </div>
      <div
        class="panel"
        id="panel"
        role="tabpanel"
        aria-labelledby={`tab-${shown.name}`}
        tabindex={0}
      >
        <Shown />
      </div>
    </section>
  );
}
