// A graph in a lesson: a stage of its own, walked with the same controls as on the page.

import { useSignal } from "@preact/signals";
import { type ComponentChildren } from "preact";
import { useEffect, useMemo } from "preact/hooks";

import { sceneOf } from "../../lessons/quantities";
import type { Block } from "../../lessons/reader";
import { underHand } from "../../state/keys";
import { Stage } from "../../state/stage";
import { asTable, openSource } from "../../state/studio";
import { say } from "../../state/words";
import { ChangeView } from "../change";
import { GraphView } from "../graph";
import { lazy } from "../lazy";
import { InspectPanel } from "../panels/inspect";
import { TableSwitch } from "../parts";
import { StageProvider, useStage } from "../stage";
import { StepBar, StepText } from "../stepbar";
import { TableView } from "../table";

const EdgeCurve = lazy(() => import("../curve").then((part) => part.EdgeCurve));

/** The stage of a block, for as long as it is shown; null where its graph cannot be read. */
export function useBlockStage(block: Block): Stage | null {
  const stage = useMemo(() => {
    const scene = sceneOf(block);
    if (!scene || "problem" in scene) return null;
    const made = new Stage();
    made.open(scene);
    made.shows.value = block.shows;
    return made;
  }, [block]);
  useEffect(
    () => () => {
      if (underHand.peek() === stage) underHand.value = null;
      stage?.close();
    },
    [stage],
  );
  return stage;
}

/** While something inside has the focus, the keys of walking are for this stage. */
export function OnStage(props: { stage: Stage; class: string; children: ComponentChildren }) {
  return (
    <div
      class={props.class}
      onFocusIn={() => (underHand.value = props.stage)}
      onFocusOut={() => (underHand.value = null)}
    >
      <StageProvider stage={props.stage}>{props.children}</StageProvider>
    </div>
  );
}

export function GraphBlock({ block, step }: { block: Block; step: string }) {
  const stage = useBlockStage(block);
  useMemo(() => stage && begin(stage, step), [stage]);
  return stage && <Walked stage={stage} block={block} />;
}

/** How far it is walked at first. */
function begin(stage: Stage, step: string): void {
  const end = stage.steps.value.length;
  stage.position.value =
    step === "forward" ? stage.turn : /^\d+$/.test(step) ? Math.min(Number(step), end) : end;
}

function Walked({ stage, block }: { stage: Stage; block: Block }) {
  const open = (): void => {
    openSource(block.source, block.set);
    scrollTo(0, 0);
  };
  const leaves = stage.graph.value.nodes.filter(({ op }) => !op).length;
  const frame = leaves > 4 ? "stage tall" : "stage"; // high enough to be read
  if (block.shows !== "all")
    return (
      <OnStage stage={stage} class={frame}>
        <StepBar />
        <StepText />
        <Drawing />
        {block.shows === "edges" && <Curve />}
      </OnStage>
    );
  return (
    <OnStage stage={stage} class={frame}>
      <StepBar />
      <StepText />
      <Drawing />
      <ChangeView />
      <Details />
      <div class="row below">
        <TableSwitch />
        <button type="button" onClick={open}>
          {say("lesson.openGraph")}
        </button>
      </div>
    </OnStage>
  );
}

export function Drawing() {
  // The tables have gradients in them.
  return asTable.value && useStage().shows.value === "all" ? <TableView /> : <GraphView quiet />;
}

/** What is selected in the graph, below it. */
function Details() {
  return useStage().selection.value ? (
    <div class="panel">
      <InspectPanel />
    </div>
  ) : null;
}

/** The curve of the edge that is selected. */
function Curve() {
  const selection = useStage().selection.value;
  if (selection?.kind !== "edge") return null;
  return (
    <div class="panel">
      <EdgeCurve edge={selection.edge} />
    </div>
  );
}

/** The graph of a question, for who wants to see it. */
export function FoldedGraph({ block }: { block: Block }) {
  const open = useSignal(false);
  return (
    <details onToggle={(event) => (open.value = event.currentTarget.open)}>
      <summary>
        {say("lesson.seeGraph")} <code translate={false}>{block.source}</code>
      </summary>
      {open.value && <GraphBlock block={block} step="0" />}
    </details>
  );
}
