// The graph, the walk docked below it, and the panels beside it.

import { useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";

import { boot } from "../state/boot";
import { asTable, defaultPanel, panel, present, presenting, titleOf } from "../state/studio";
import { hasWords, say } from "../state/words";
import { Caption } from "./caption";
import { ChangeView } from "./change";
import { Counters } from "./counters";
import { GraphView } from "./graph";
import { lazy } from "./lazy";
import { panels } from "./panels";
import { GlyphButton, Scroll, TableSwitch } from "./parts";
import { useStage } from "./stage";
import { StepBar, StepText } from "./stepbar";
import { TableView } from "./table";

const FilmDialog = lazy(() => import("./film").then((part) => part.FilmDialog));

export function Workbench() {
  const stage = useStage();
  const saving = useSignal(false);
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
            <button type="button" onClick={() => present(true)} data-present>
              {say("present.start")}
            </button>
            {boot.mode !== "widget" && (
              <button type="button" onClick={() => (saving.value = true)} data-save-walk>
                {say("film.open")}
              </button>
            )}
          </div>
          {presenting.value && (
            <GlyphButton word="present.end" glyph={{ icon: "close" }} run={() => present(false)} />
          )}
        </div>
        {asTable.value ? (
          <TableView />
        ) : (
          <div class="canvas">
            <GraphView />
            <Caption />
          </div>
        )}
        {byHand ? (
          <p class="steptext" data-position={stage.position.value}>
            {say("byhand.hidden")}
          </p>
        ) : (
          <>
            <StepBar />
            <StepText />
            {!stage.lab.value && <Counters />}
          </>
        )}
      </section>
      <div class="aside">
        <PanelArea />
        {!byHand && <ChangeView />}
      </div>
      {saving.value && <FilmDialog close={() => (saving.value = false)} />}
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
  const room = useRef<HTMLDivElement>(null);
  useEffect(() => {
    // What one moves stays in sight when what it changed takes room from the panel.
    const box = room.current!;
    let height = box.clientHeight;
    const watcher = new ResizeObserver(() => {
      const less = box.clientHeight < height && box.clientHeight < box.scrollHeight;
      height = box.clientHeight;
      const held = box.contains(document.activeElement) && document.activeElement;
      if (less && held && held !== box)
        (held.closest("figure") ?? held).scrollIntoView({ block: "nearest" });
    });
    watcher.observe(box);
    return () => watcher.disconnect();
  }, []);
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
        ref={room}
      >
        <Shown />
      </div>
    </section>
  );
}
