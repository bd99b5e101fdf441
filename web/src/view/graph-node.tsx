// One node of the drawing: name, op, value, gradient, gates, and which way to move a leaf.

import { gatesOf } from "../engine/formulas";
import { shortNumber } from "../engine/numbers";
import type { Box } from "../layout/sheet";
import { wayDown } from "../state/narrate";
import type { Stage } from "../state/stage";
import { say } from "../state/words";
import { asIs, drawnOp, shortened, signed, signOf } from "./text";
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
  const [gate, adder] = badges(stage, node, onEdges);
  const classes = ["node", leaf ? "leaf" : "op"];
  if (!known) classes.push("later");
  if (stage.opened.value.some(({ nodes }) => nodes.includes(node))) classes.push("inside");
  if (stage.current.value?.node === node) classes.push("now");
  if (stage.next.value?.node === node) classes.push("next");
  if (isSelected(stage, node)) classes.push("selected");
  if (!stage.numbers.value.reached[node]) classes.push("apart");
  const selection = stage.selection.value;
  const editing = leaf && selection?.kind === "node" && selection.node === node;
  const room = Math.floor((width - 20) / 8.5);
  const op = onEdges ? "" : leaf ? "" : drawnOp(graph, node);
  return (
    <g class={classes.join(" ")} transform={`translate(${box.x} ${box.y})`}>
      <rect
        class="box"
        width={width}
        height={height}
        rx={onEdges ? height / 2 : 10}
        {...asButton(() => stage.pick({ kind: "node", node }))}
        aria-pressed={isSelected(stage, node)}
        aria-label={described(stage, node)}
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
        <text {...asIs} class="name" x={onEdges ? 20 : 11} y={21}>
          {shortened(name, room - op.length - 1)}
        </text>
        {op && (
          <text {...asIs} class="sign" x={width - 11} y={21} text-anchor="end">
            {op}
          </text>
        )}
        {!editing && (
          <text class={changed ? "value changed" : "value"} x={onEdges ? 20 : 11} y={41}>
            {!known
              ? "?"
              : changed
                ? `${shortNumber(before)} → ${shortNumber(value)}`
                : shortNumber(value)}
          </text>
        )}
        {grad === null ? (
          <text class="grad none" x={onEdges ? 20 : 11} y={61}>
            {say("node.grad", { grad: shown.open?.[node] ? "?" : "·" })}
          </text>
        ) : (
          <text class={`grad ${signOf(grad)}`} x={onEdges ? 20 : 11} y={61}>
            {say("node.grad", { grad: signed(grad) })}
          </text>
        )}
        {arrived > 0 && arrived < expected && (
          <text class="partial" x={width - (onEdges ? 18 : 11)} y={41} text-anchor="end">
            {say("node.partial", { arrived, expected })}
          </text>
        )}
        {leaf && complete && grad !== null && grad !== 0 && !Number.isNaN(grad) && (
          <text
            class={`way ${wayDown(grad)}`}
            x={width - (onEdges ? 18 : 11)}
            y={21}
            text-anchor="end"
          >
            {say(`node.way.${wayDown(grad)}`)}
          </text>
        )}
        {gate && <Badge kind={gate} right={width - (onEdges ? 22 : 8)} y={-9} />}
        {adder && <Badge kind="adder" right={width - (onEdges ? 22 : 8)} y={height - 8} />}
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

function badges(stage: Stage, node: number, onEdges: boolean): [string, boolean] {
  const gates = gatesOf(stage.graph.value, node);
  const own = gates.find((gate) => gate !== "adder") ?? "";
  return [onEdges ? "" : own, gates.includes("adder")];
}

function isSelected(stage: Stage, node: number): boolean {
  const selection = stage.selection.value;
  if (selection?.kind === "node") return selection.node === node;
  if (selection?.kind !== "path") return false;
  return selection.path.edges.some((edge) => edge.node === node || edge.source === node);
}

/** What a screen reader says of a node. */
function described(stage: Stage, node: number): string {
  const { known, grads, arrived } = stage.standing.value;
  const graph = stage.graph.value;
  const parts = [stage.name(node)];
  parts.push(graph.nodes[node]!.op ? drawnOp(graph, node) : say("node.leaf"));
  parts.push(
    known[node]
      ? say("node.valueIs", { value: shortNumber(stage.numbers.value.values[node]!) })
      : say("node.noValue"),
  );
  const grad = grads[node]!;
  if (grad !== null) {
    parts.push(say("node.gradIs", { grad: shortNumber(grad) }));
    const expected = stage.expected.value[node]!;
    if (arrived[node]! < expected) {
      parts.push(say("node.partial", { arrived: arrived[node]!, expected }));
    }
  }
  parts.push(...gatesOf(graph, node).map((gate) => say(`gate.${gate}`)));
  return parts.join(", ");
}
