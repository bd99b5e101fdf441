// Operations, leaves and scopes in the drawing of a trace.

import { frame, type Sight } from "../../layout/nested";
import { traceStage as stage } from "../../state/trace";
import { say } from "../../state/words";
import { shapeText } from "../../trace/description";
import { type Item, keyOf } from "../../trace/outline";
import { normOf, normText } from "../../trace/statistics";
import { asButton } from "../parts";
import { asIs, shortened } from "../text";
import { NodeMatrices } from "./matrix";

type Toggle = (scope: number) => void;

const side = 12; // from the border of a box to its text
const letter = { name: 8.2, fact: 7.3 }; // how wide one is, in the sizes of 60-trace.css

/** An operation, a leaf or a closed scope; from far away (`plain`) its shape alone. */
export function ItemView(props: { sight: Sight; index: number; plain: boolean; toggle: Toggle }) {
  const { sight, index, plain, toggle } = props;
  const item = stage.outline.scopes[sight.scope]!.items[index]!;
  const { x, y, width, height } = sight.plan.spots[index]!;
  const marks = stage.marksAt(item);
  const rest =
    "scope" in item
      ? { rx: 4, ...scopeButton(item.scope, false, toggle) }
      : { rx: stage.node(item.node).op ? 8 : leafCorner(), ...nodeButton(item.node) };
  const classes = stateOf(item);
  const style = tint(item);
  if (plain) {
    const marked = marks.broken ? " broken" : marks.sick.length ? " sick" : "";
    const kind = `box plain ${classes}${marked}`;
    return <rect {...{ x, y, width, height, ...rest, style }} class={kind} />;
  }
  const mark = markText(item);
  const room = (width - 2 * side) / letter.name - mark.length;
  return (
    <g class={classes} style={style} transform={`translate(${x} ${y})`}>
      {"scope" in item && (
        <path class="behind" d={`M6 ${height}v4h${width - 2}v-${height - 2}h-4`} />
      )}
      <rect class="box" {...{ width, height, ...rest }} />
      <text class="name" x={side} y={19} aria-hidden="true">
        {"scope" in item ? (
          <>
            <tspan class="sign">▸ </tspan>
            <tspan {...asIs}>{shortened(stage.scopeName(item.scope), room - 2)}</tspan>
          </>
        ) : (
          <NodeName node={item.node} room={room} />
        )}
      </text>
      {stage.matrices.value && "node" in item ? (
        <NodeMatrices node={item.node} />
      ) : (
        <Facts item={item} room={(width - 2 * side) / letter.fact} />
      )}
      <Mark item={item} right={width - 8} />
    </g>
  );
}

const leafCorner = (): number => (stage.matrices.value ? 16 : 22); // a matrix needs its corners

/** Its name; beside a matrix its op as well, for which there is no second line. */
function NodeName({ node, room }: { node: number; room: number }) {
  const { op } = stage.node(node);
  const name = shortened(stage.name(node), room);
  const left = room - name.length - 1;
  const more = stage.matrices.value && op && !name.startsWith(op) && op.length <= left;
  return (
    <>
      <tspan {...asIs}>{name}</tspan>
      {more && (
        <tspan class="fact" dx={6} {...asIs}>
          {op}
        </tspan>
      )}
    </>
  );
}

/** What else there is room for, in letters: a gradient comes before a shape, that before an op. */
function Facts({ item, room }: { item: Item; room: number }) {
  let [first, second] = ["", ""];
  if ("scope" in item) {
    const { group, operations } = stage.outline.scopes[item.scope]!;
    second = say("trace.operations", { count: operations });
    const kind = stage.trace.groups[group]?.className;
    first = kind ? `${shortened(kind, room - 3 - second.length)} · ` : "";
  } else {
    const { op, metas } = stage.node(item.node);
    const shape = shapeText(metas[0]!.shape);
    const named = stage.name(item.node).startsWith(`${op}#`);
    if (stage.isComplete(item.node)) second = `∇ ${normText(stage.gradient(item.node))}`;
    const left = room - second.length - 1;
    const texts = [named ? shape : `${op} ${shape}`, shape, shortened(shape, left)];
    first = `${texts.find((text) => text.length <= left) ?? ""} `;
  }
  return (
    <text class="fact" x={side} y={36} aria-hidden="true">
      <tspan {...asIs}>{first}</tspan>
      {second}
    </text>
  );
}

function nodeButton(node: number) {
  const { op, metas } = stage.node(node);
  const { broken, sick } = stage.marksAt({ node });
  const gradient = stage.isComplete(node) ? stage.gradient(node) : null;
  const said = [
    stage.name(node),
    op || say("node.leaf"),
    shapeText(metas[0]!.shape),
    gradient && say("trace.gradientNorm", { norm: normText(gradient) }),
    broken && say("trace.broken"),
    ...sick.map(({ kind }) => kind),
  ];
  return {
    ...asButton(() => stage.select({ kind: "node", node })),
    "aria-pressed": stage.isChosen({ node }),
    "aria-label": said.filter(Boolean).join(", "),
    "data-node": node,
    "data-name": stage.name(node),
    "data-known": stage.isKnown(node),
    "data-visited": stage.isVisited(node),
    "data-grad": gradient ? normOf(gradient) : "",
  };
}

function scopeButton(scope: number, open: boolean, toggle: Toggle) {
  const name = stage.scopeName(scope);
  const { broken, sick } = stage.marksAt({ scope });
  const said = [
    say("trace.group", { name, count: stage.outline.scopes[scope]!.operations }),
    broken && say("trace.broken"),
    sick.length > 0 && say("trace.findings", { count: sick.length }),
  ];
  return {
    ...asButton(() => toggle(scope)),
    "aria-expanded": open,
    "aria-label": said.filter(Boolean).join(", "),
    "data-scope": scope,
    "data-name": name,
  };
}

/** How strongly to colour what is compared: nothing at the rounding of float32, all at 0.1. */
function tint(item: Item): string | undefined {
  const found = stage.errorAt(item);
  if (!found) return undefined;
  const digits = Math.log10(Math.max(found.accumulated || 0, 1e-7)) + 7;
  return `--error:${Math.round(Math.min(1, digits / 6) * 45)}%`;
}

/** Classes of what it is, and of where the walk and the selection stand. */
function stateOf(item: Item, open = false): string {
  const is = (step?: { node: number }): boolean =>
    step !== undefined && keyOf(stage.shownFor(step.node)) === keyOf(item);
  const found = [is(stage.current.value) && "now", stage.isChosen(item) && "selected"];
  const error = stage.errorAt(item);
  if (error) found.push("compared", error.verdict && "differs");
  else if (stage.trace.comparison && "node" in item && stage.node(item.node).op)
    found.push("between");
  if ("scope" in item) found.push("scope", open ? "open" : "closed");
  else {
    const { node } = item;
    found.push("node", stage.node(node).op ? "op" : "leaf");
    found.push(is(stage.next.value) && "next", !stage.isKnown(node) && "later");
    found.push(stage.isVisited(node) && "visited");
  }
  return found.filter(Boolean).join(" ");
}

/** An open scope: its border, and a head that closes it. */
export function FrameView(props: { sight: Sight; plain: boolean; toggle: Toggle }) {
  const { scope, plan, folded } = props.sight;
  const { depth, group } = stage.outline.scopes[scope]!;
  const title = [stage.scopeName(scope), stage.trace.groups[group]?.className];
  return (
    <g
      class={`${stateOf({ scope }, true)} ${depth % 2 ? "odd" : "even"}${folded ? " folded" : ""}`}
    >
      <rect class="frame" width={plan.width} height={plan.height} rx={6} />
      <rect
        class="box"
        width={plan.width}
        height={frame.head - 6}
        rx={6}
        {...scopeButton(scope, true, props.toggle)}
      />
      {!props.plain && (
        <>
          <text class="name" x={10} y={17} aria-hidden="true">
            <tspan class="sign">▾ </tspan>
            <tspan {...asIs}>
              {shortened(title.filter(Boolean).join(" · "), plan.width / letter.name - 6)}
            </tspan>
          </text>
          <Mark item={{ scope }} right={plan.width - 8} />
        </>
      )}
    </g>
  );
}

function markText(item: Item): string {
  const { broken, sick } = stage.marksAt(item);
  const ill = sick.length ? `⚠${sick.length > 1 ? sick.length : ""}` : "";
  return [broken && "NaN", ill].filter(Boolean).join(" ");
}

function Mark({ item, right }: { item: Item; right: number }) {
  const text = markText(item);
  return text ? (
    <text
      class={`mark ${stage.marksAt(item).broken ? "broken" : "sick"}`}
      x={right}
      y={17}
      text-anchor="end"
      aria-hidden="true"
    >
      {text}
    </text>
  ) : null;
}
