// One node of the drawing: name, op, value, gradient, gates, and which way to move a leaf.

import { gatesOf } from "../engine/formulas";
import { shortNumber } from "../engine/numbers";
import type { Box } from "../layout/sheet";
import { wayDown } from "../state/narrate";
import type { Stage } from "../state/stage";
import { say } from "../state/words";
import { asIs, classNames, drawnOp, shortened, signed, signOf, within } from "./text";
import { LeafInput } from "./leaf";
import { asButton } from "./parts";
import { useStage } from "./stage";

export function NodeView({ box, width, height }: { box: Box; width: number; height: number }) {
  const stage = useStage();
  const { node } = box;
  const graph = stage.graph.value;
  const shown = stage.standing.value;
  const name = stage.name(node);
  const leaf = graph.nodes[node]!.op === "";
  const onEdges = stage.drawing.value === "edges";
  const known = shown.known[node]!;
  const value = stage.numbers.value.values[node]!;
  const grad = shown.grads[node]!;
  const arrived = shown.arrived[node]!;
  const expected = stage.expected.value[node]!;
  const complete = arrived > 0 && arrived === expected;
  const change = stage.change.value;
  const before = change && known ? change.before.values[node]! : value;
  const changed = !Object.is(before, value);
  const worn = gatesOf(graph, node).filter((gate) => !onEdges || gate === "adder");
  const chosen = isSelected(stage, node);
  const cause = stage.cause.value?.node === node;
  const classes = classNames({
    node: true,
    leaf,
    later: !known,
    inside: stage.opened.value.some(({ nodes }) => nodes.includes(node)),
    now: stage.current.value?.node === node,
    next: stage.next.value?.node === node,
    selected: chosen,
    cause,
  });
  if (cause) worn.push("cause");
  const selection = stage.selection.value;
  const editing = leaf && selection?.kind === "node" && selection.node === node;
  const op = onEdges || leaf ? "" : drawnOp(graph, node);
  const way = leaf && complete ? say(`node.way.${wayDown(grad!)}`) : "";
  const waits = arrived > 0 && arrived < expected;
  const partial = waits ? say("node.partial", { arrived, expected }) : "";
  const left = onEdges ? 20 : 11;
  const right = width - (onEdges ? 18 : 11);
  const room = right - left;
  const shownValue = !known
    ? "?"
    : (changed ? `${shortNumber(before)} → ` : "") + shortNumber(value);
  const shownGrad = say("node.grad", {
    grad: grad !== null ? signed(grad) : shown.open?.[node] ? "?" : "·",
  });
  const spoken = [
    name,
    leaf ? say("node.leaf") : drawnOp(graph, node),
    known ? say("node.valueIs", { value: shortNumber(value) }) : say("node.noValue"),
    grad !== null && say("node.gradIs", { grad: shortNumber(grad) }),
    partial,
    ...worn.map((gate) => say(`gate.${gate}`)),
  ];
  const atEnd = (kind: string, y: number, text: string) =>
    text && (
      <text {...(kind === "sign" ? asIs : {})} class={kind} x={right} y={y} text-anchor="end">
        {text}
      </text>
    );
  return (
    <g class={classes} transform={`translate(${box.x} ${box.y})`}>
      <rect
        class="box"
        width={width}
        height={height}
        rx={onEdges ? height / 2 : 10}
        {...asButton(() => stage.pick({ kind: "node", node }))}
        aria-pressed={chosen}
        aria-label={spoken.filter(Boolean).join(", ")}
        data-node={name}
        data-value={known ? value : ""}
        data-grad={grad ?? ""}
        data-complete={complete}
      />
      {editing && (
        <foreignObject x={6} y={27} width={width - 12} height={21}>
          <LeafInput node={node} />
        </foreignObject>
      )}
      <g aria-hidden="true">
        {/* The label of the box says it all, in words. */}
        <text {...asIs} class="name" x={left} y={21}>
          {shortened(name, Math.floor((room + 3) / 8.5) - Math.max(op.length, way.length) - 1)}
        </text>
        {atEnd("sign", 21, op)}
        {!editing && (
          <text
            class={changed ? "value changed" : "value"}
            x={left}
            y={41}
            {...within(shownValue, room - partial.length * 6.8, changed ? 7 : 8.5)}
          >
            {shownValue}
          </text>
        )}
        <text
          class={`grad ${grad === null ? "none" : signOf(grad)}`}
          x={left}
          y={61}
          {...within(shownGrad, room, 8.5)}
        >
          {shownGrad}
        </text>
        {atEnd("partial", 41, partial)}
        {atEnd("way", 21, way)}
        {worn.map((kind) => (
          <Badge
            key={kind}
            kind={kind}
            right={kind === "cause" ? 82 : right + 3}
            y={kind === "cause" || kind === "adder" ? height - 8 : -9}
          />
        ))}
      </g>
    </g>
  );
}

function Badge({ kind, right, y }: { kind: string; right: number; y: number }) {
  const text = say(`gate.${kind}`);
  const width = text.length * 5.9 + 14;
  return (
    <g class={`badge ${kind}`}>
      <rect x={right - width} y={y} width={width} height={17} rx={8.5} />
      <text x={right - width / 2} y={y + 12} text-anchor="middle">
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
