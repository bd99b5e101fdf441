// Operations, leaves and scopes in the drawing of a trace.

import { frame, type Sight, type Spot } from "../../layout/nested";
import { traceStage as stage } from "../../state/trace";
import { say } from "../../state/words";
import { shapeText } from "../../trace/description";
import { normOf, normText } from "../../trace/statistics";
import { shortened } from "../text";

interface ItemProps {
  sight: Sight;
  index: number;
  toggle: (scope: number) => void;
}

const nameRoom = 14; // letters
const factRoom = 16;

/** Names of things are no words. (Of SVG elements Preact sets attributes, not properties.) */
const untranslated = { translate: "no" as unknown as boolean };

/** Enter and the space bar do what a click does. */
export function pressed(act: () => void): (event: KeyboardEvent) => void {
  return (event) => {
    if (event.key !== "Enter" && event.key !== " ") return;
    event.preventDefault();
    act();
  };
}

export function ItemView({ sight, index, toggle }: ItemProps) {
  const item = stage.outline.scopes[sight.scope]!.items[index]!;
  const spot = sight.plan.spots[index]!;
  if ("scope" in item) return <ClosedScope scope={item.scope} spot={spot} toggle={toggle} />;
  return <NodeBox node={item.node} spot={spot} />;
}

function NodeBox({ node, spot }: { node: number; spot: Spot }) {
  const { op, metas } = stage.node(node);
  const name = stage.name(node);
  const shape = shapeText(metas[0]!.shape);
  const norm = stage.isComplete(node) ? normOf(stage.gradient(node)) : undefined;
  const more = norm === undefined ? "" : `∇ ${normText(stage.gradient(node))}`;
  const facts = [name.startsWith(`${op}#`) ? "" : op, shape].filter(Boolean).join(" ");
  const chosen = isChosen(node);
  return (
    <g
      class={`node ${op ? "op" : "leaf"}${stateOf(node)}${chosen ? " selected" : ""}`}
      transform={`translate(${spot.x} ${spot.y})`}
    >
      <rect
        class="box"
        width={spot.width}
        height={spot.height}
        rx={op ? 8 : 22}
        {...nodeButton(node)}
        data-known={stage.isKnown(node)}
        data-visited={stage.isVisited(node)}
        data-grad={norm ?? ""}
      />
      <text class="name" {...untranslated} x={12} y={19} aria-hidden="true">
        {shortened(name, nameRoom)}
      </text>
      <text class="fact" {...untranslated} x={12} y={36} aria-hidden="true">
        {shortened(
          more && facts.length + more.length >= factRoom ? shape : facts,
          factRoom - more.length,
        )}{" "}
        {more}
      </text>
      <Mark
        broken={stage.marks.value.broken.has(node)}
        sick={stage.marks.value.sick.get(node)?.length ?? 0}
        right={spot.width - 8}
      />
    </g>
  );
}

function isChosen(node: number): boolean {
  const selection = stage.selection.value;
  return selection?.kind === "node" && selection.node === node;
}

function nodeButton(node: number) {
  const pick = (): void => stage.select({ kind: "node", node });
  return {
    role: "button" as const,
    tabindex: 0,
    "aria-pressed": isChosen(node),
    "aria-label": spoken(node),
    onClick: pick,
    onKeyDown: pressed(pick),
    "data-node": node,
    "data-name": stage.name(node),
  };
}

function stateOf(node: number): string {
  const now = stage.current.value;
  const next = stage.next.value;
  return (
    (stage.isKnown(node) ? "" : " later") +
    (now?.node === node ? " now" : "") +
    (next?.node === node ? " next" : "") +
    (stage.isVisited(node) ? " visited" : "")
  );
}

function spoken(node: number): string {
  const { op, metas } = stage.node(node);
  const gradient = stage.isComplete(node) ? stage.gradient(node) : null;
  return [
    stage.name(node),
    op || say("node.leaf"),
    metas[0]!.shape.length ? shapeText(metas[0]!.shape) : "",
    gradient ? say("trace.gradientNorm", { norm: normText(gradient) }) : "",
    stage.marks.value.broken.has(node) ? say("trace.broken") : "",
    ...(stage.marks.value.sick.get(node) ?? []).map(({ kind }) => kind),
  ]
    .filter(Boolean)
    .join(", ");
}

function ClosedScope({
  scope,
  spot,
  toggle,
}: {
  scope: number;
  spot: Spot;
  toggle: (scope: number) => void;
}) {
  const { group, operations } = stage.outline.scopes[scope]!;
  const kind = group < 0 ? "" : stage.trace.groups[group]!.className;
  const count = say("trace.operations", { count: operations });
  return (
    <g class={`scope closed${scopeState(scope)}`} transform={`translate(${spot.x} ${spot.y})`}>
      <path class="behind" d={`M6 ${spot.height}v4h${spot.width - 2}v-${spot.height - 2}h-4`} />
      <rect
        class="box"
        width={spot.width}
        height={spot.height}
        rx={4}
        {...scopeButton(scope, false, toggle)}
      />
      <text class="name" x={12} y={19} aria-hidden="true">
        <tspan class="sign">▸ </tspan>
        <tspan {...untranslated}>{shortened(stage.scopeName(scope), nameRoom - 2)}</tspan>
      </text>
      <text class="fact" x={12} y={36} aria-hidden="true">
        <tspan {...untranslated}>
          {kind && `${shortened(kind, factRoom - 3 - count.length)} · `}
        </tspan>
        {count}
      </text>
      <ScopeMark scope={scope} right={spot.width - 8} />
    </g>
  );
}

/** An open scope: its border, and a head that closes it. */
export function FrameView({
  sight,
  plain,
  toggle,
}: {
  sight: Sight;
  plain: boolean;
  toggle: (scope: number) => void;
}) {
  const { scope, plan, folded } = sight;
  const depth = stage.outline.scopes[scope]!.depth % 2 ? "odd" : "even";
  const { group } = stage.outline.scopes[scope]!;
  const kind = group < 0 ? "" : stage.trace.groups[group]!.className;
  return (
    <g class={`scope open ${depth}${folded ? " folded" : ""}${scopeState(scope)}`}>
      <rect class="frame" width={plan.width} height={plan.height} rx={6} />
      <rect
        class="box"
        width={plan.width}
        height={frame.head - 6}
        rx={6}
        {...scopeButton(scope, true, toggle)}
      />
      {!plain && (
        <text class="name" x={10} y={17} aria-hidden="true">
          <tspan class="sign">▾ </tspan>
          <tspan {...untranslated}>
            {[stage.scopeName(scope), kind].filter(Boolean).join(" · ")}
          </tspan>
        </text>
      )}
      {!plain && <ScopeMark scope={scope} right={plan.width - 8} />}
    </g>
  );
}

function scopeState(scope: number): string {
  const now = stage.current.value;
  const chosen = stage.selection.value?.kind === "scope" && stage.selection.value.scope === scope;
  const shown = now && stage.shownFor(now.node);
  return (
    (chosen ? " selected" : "") + (shown && "scope" in shown && shown.scope === scope ? " now" : "")
  );
}

function scopeButton(scope: number, open: boolean, toggle: (scope: number) => void) {
  const { operations } = stage.outline.scopes[scope]!;
  const name = stage.scopeName(scope);
  const marks = stage.marks.value.scopes.get(scope);
  const parts = [
    say("trace.group", { name, count: operations }),
    marks?.broken ? say("trace.broken") : "",
    marks?.sick.size ? say("trace.findings", { count: marks.sick.size }) : "",
  ];
  return {
    role: "button" as const,
    tabindex: 0,
    "aria-expanded": open,
    "aria-label": parts.filter(Boolean).join(", "),
    onClick: () => toggle(scope),
    onKeyDown: pressed(() => toggle(scope)),
    "data-scope": scope,
    "data-name": name,
  };
}

/** From far away: the shape alone. */
export function PlainItem({ sight, index, toggle }: ItemProps) {
  const item = stage.outline.scopes[sight.scope]!.items[index]!;
  const { x, y, width, height } = sight.plan.spots[index]!;
  const place = { class: "box", x, y, width, height, rx: 6 };
  if ("scope" in item) {
    const { broken = 0, sick } = stage.marks.value.scopes.get(item.scope) ?? {};
    const marked = broken ? " broken" : sick?.size ? " sick" : "";
    return (
      <rect
        {...place}
        class={`box scope closed plain${scopeState(item.scope)}${marked}`}
        {...scopeButton(item.scope, false, toggle)}
      />
    );
  }
  const { node } = item;
  const marked = stage.marks.value.broken.has(node)
    ? " broken"
    : stage.marks.value.sick.has(node)
      ? " sick"
      : "";
  return (
    <rect
      {...place}
      class={`box plain ${stage.node(node).op ? "op" : "leaf"}${stateOf(node)}${marked}`}
      {...nodeButton(node)}
    />
  );
}

function ScopeMark({ scope, right }: { scope: number; right: number }) {
  const { broken = 0, sick } = stage.marks.value.scopes.get(scope) ?? {};
  return <Mark broken={broken > 0} sick={sick?.size ?? 0} right={right} />;
}

function Mark({ broken, sick, right }: { broken: boolean; sick: number; right: number }) {
  if (!broken && !sick) return null;
  return (
    <text
      class={`mark ${broken ? "broken" : "sick"}`}
      x={right}
      y={17}
      text-anchor="end"
      aria-hidden="true"
    >
      {broken ? "NaN" : ""}
      {sick ? `⚠${sick > 1 ? sick : ""}` : ""}
    </text>
  );
}
