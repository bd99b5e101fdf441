// One node of the drawing: name, op, value, gradient, gates, and which way to move a leaf.

import { useEffect, useRef } from "preact/hooks";

import { gatesOf } from "../engine/formulas";
import { shortNumber } from "../engine/numbers";
import type { Box } from "../layout/sheet";
import { wayDown } from "../state/narrate";
import type { Stage, Standing } from "../state/stage";
import { say } from "../state/words";
import {
  asIs,
  classNames,
  drawnOp,
  nameParts,
  shortened,
  signed,
  signOf,
  within,
} from "./text";
import { LeafInput } from "./leaf";
import { asButton } from "./parts";
import { draggable, LeafSlider } from "./scrub";
import { useStage } from "./stage";

const rows = { name: 23, value: 49, grad: 73 }; // baselines

interface Place {
  box: Box;
  width: number;
  height: number;
  down: boolean;
  far: boolean; // it is small: fewer texts, and larger ones
}

export function NodeView(props: Place) {
  const { box, width, height } = props;
  const stage = useStage();
  const { node } = box;
  const graph = stage.graph.value;
  const standing = stage.standing.value;
  const name = stage.name(node);
  const leaf = graph.nodes[node]!.op === "";
  const onEdges = stage.drawing.value === "edges";
  const known = standing.known[node]!;
  const value = stage.numbers.value.values[node]!;
  const grad = standing.grads[node]!;
  const complete = isComplete(stage, standing, node);
  const gates = stage.shows.value === "values" ? [] : gatesOf(graph, node);
  const worn = gates.filter((gate) => !onEdges || gate === "adder");
  const chosen = isSelected(stage, node);
  const cause = stage.cause.value?.node === node;
  const classes = classNames({
    node: true,
    leaf,
    later: !stage.inSight.value.known[node],
    inside: stage.opened.value.some(({ nodes }) => nodes.includes(node)),
    now: stage.current.value?.node === node,
    next: stage.next.value?.node === node,
    selected: chosen,
    cause,
  });
  if (cause) worn.push("cause");
  const selection = stage.selection.value;
  const editing = leaf && selection?.kind === "node" && selection.node === node;
  const spoken = [
    name,
    leaf ? say("node.leaf") : drawnOp(graph, node),
    known ? say("node.valueIs", { value: shortNumber(value) }) : say("node.noValue"),
    grad !== null && say("node.gradIs", { grad: shortNumber(grad) }),
    waiting(stage, standing, node),
    ...worn.map((gate) => say(`gate.${gate}`)),
  ];
  return (
    <g class={classes} transform={`translate(${box.x} ${box.y})`}>
      <rect
        class="box"
        width={width}
        height={height}
        rx={onEdges ? height / 2 : 12}
        {...asButton(() => stage.pick({ kind: "node", node }))}
        {...(leaf && draggable(stage, node))}
        aria-pressed={chosen}
        aria-label={spoken.filter(Boolean).join(", ")}
        data-node={name}
        data-value={known ? value : ""}
        data-grad={grad ?? ""}
        data-complete={complete}
      />
      {leaf && !editing && (
        <LeafSlider node={node} x={onEdges ? 16 : 6} y={rows.value - 20} width={width * 0.66} />
      )}
      {editing && <LeafField node={node} width={width} />}
      <NodeTexts {...props} editing={editing} />
      <g aria-hidden="true">
        {worn.map((kind) => {
          // Where edges go down there is no room for them, and far away they are not read: then
          // Inspect has them.
          if ((props.down || props.far) && kind !== "cause") return null;
          return <Badge key={kind} kind={kind} {...props} />;
        })}
      </g>
    </g>
  );
}

/** The leaf's number as a field; it has the focus if it was asked for in the drawing. */
function LeafField({ node, width }: { node: number; width: number }) {
  const stage = useStage();
  const field = useRef<SVGForeignObjectElement>(null);
  useEffect(
    () =>
      stage.picked.subscribe((times) => {
        const input = field.current?.querySelector("input");
        if (times > 0 && document.activeElement?.closest("[data-node]")) input?.select();
      }),
    [],
  );
  return (
    <foreignObject ref={field} x={6} y={rows.value - 20} width={width - 12} height={27}>
      <LeafInput node={node} />
    </foreignObject>
  );
}

/** What is written in the box. The label of the box says it all, in words. */
function NodeTexts({ box: { node }, width, far, editing }: Place & { editing: boolean }) {
  const stage = useStage();
  const graph = stage.graph.value;
  const shown = stage.inSight.value;
  const leaf = graph.nodes[node]!.op === "";
  const onEdges = stage.drawing.value === "edges";
  const known = shown.known[node]!;
  const value = stage.numbers.value.values[node]!;
  const grad = shown.grads[node]!;
  const change = stage.change.value;
  const before = change && known ? change.before.values[node]! : value;
  const changed = !Object.is(before, value);
  const op = onEdges || leaf ? "" : drawnOp(graph, node);
  const way = leaf && !far && isComplete(stage, shown, node) ? say(`node.way.${wayDown(grad!)}`) : "";
  const partial = waiting(stage, shown, node);
  const left = onEdges ? 22 : 11;
  const right = width - (onEdges ? 20 : 10);
  const room = right - left;
  const shownValue = known ? shortNumber(value) : "?";
  const earlier = changed ? say("node.was", { value: shortNumber(before) }) : "";
  const fits = shownValue.length * 10.9 + earlier.length * 7.9 + 4 <= room;
  const was = far ? "" : fits && earlier ? earlier : partial;
  const shownGrad = grad !== null ? signed(grad) : shown.open?.[node] ? "?" : "·";
  const atEnd = (kind: string, y: number, text: string) =>
    text && (
      <text {...(kind === "sign" ? asIs : {})} class={kind} x={right} y={y} text-anchor="end">
        {text}
      </text>
    );
  const letter = far ? { name: 15, value: 15, grad: 15 } : { name: 9, value: 10.9, grad: 9.7 };
  const words = far ? ["", ""] : say("node.grad", { grad: "\n" }).split("\n");
  const letters = Math.floor((room + 3) / letter.name) - Math.max(op.length, way.length) - 1;
  return (
    <g aria-hidden="true">
      <NodeName name={shortened(stage.name(node), letters)} x={left} />
      {atEnd("sign", rows.name, op)}
      {!editing && (
        <text
          class={changed ? "value changed" : "value"}
          x={left}
          y={rows.value}
          {...within(shownValue, room - (was.length && was.length * 7.9 + 4), letter.value)}
        >
          {shownValue}
        </text>
      )}
      {leaf && !editing && (
        <path class="dots" d={`M${left} ${rows.value + 5}h${Math.min(room, shownValue.length * 10.8)}`} />
      )}
      {stage.shows.value === "all" && (
        <text
          class={`grad ${grad === null ? "none" : signOf(grad)}`}
          x={left}
          y={rows.grad}
          {...within(shownGrad + words.join(""), room, letter.grad)}
        >
          <tspan class="word">{words[0]}</tspan>
          {shownGrad}
          <tspan class="word">{words[1]}</tspan>
        </text>
      )}
      {!editing && atEnd(was === earlier ? "was" : "partial", rows.value, was)}
      {atEnd("way", rows.name, way)}
    </g>
  );
}

/** Numbers in a name are subscripts. */
function NodeName({ name, x }: { name: string; x: number }) {
  const parts = nameParts(name);
  return (
    <text {...asIs} class="name" x={x} y={rows.name}>
      {parts.map((part, i) => (
        <tspan key={i} {...(i % 2 ? { class: "sub", dy: 4 } : i ? { dy: -4 } : {})}>
          {part}
        </tspan>
      ))}
    </text>
  );
}

const isComplete = (stage: Stage, { arrived }: Standing, node: number): boolean =>
  arrived[node]! > 0 && arrived[node] === stage.expected.value[node];

/** How many of its contributions a gradient has, while some are missing. */
function waiting(stage: Stage, standing: Standing, node: number): string {
  const arrived = standing.arrived[node]!;
  const expected = stage.expected.value[node]!;
  return arrived > 0 && arrived < expected ? say("node.partial", { arrived, expected }) : "";
}

/** On the border of its box, where no edge and no number is; the cause of a NaN stands below. */
function Badge({ kind, width, height }: Place & { kind: string }) {
  const text = say(`gate.${kind}`);
  const wide = text.length * 7.3 + 16;
  const x = kind === "cause" ? 4 : width - wide - 8;
  const y = kind === "cause" ? height + 4 : kind === "adder" ? height - 10 : -14;
  return (
    <g class={`badge ${kind}`}>
      <rect x={x} y={y} width={wide} height={20} rx={10} />
      <text x={x + wide / 2} y={y + 14.5} text-anchor="middle">
        {text}
      </text>
    </g>
  );
}

function isSelected(stage: Stage, node: number): boolean {
  const selection = stage.selection.value;
  if (selection?.kind === "node") return selection.node === node;
  if (selection?.kind !== "path") return false;
  return selection.path.edges.some((edge) => edge.node === node || edge.source === node);
}
