// Each edge has a curve: what the consumer does when this input moves. Lay a line against it.

import { useSignal } from "@preact/signals";
import { useMemo } from "preact/hooks";

import { edgeListsOf, edgesOf, hasTwin, sameEdge, valueOf } from "../../../engine/graph";
import { agree, shortNumber } from "../../../engine/numbers";
import type { Edge, Message } from "../../../engine/types";
import { quantity } from "../../../lessons/quantities";
import { announce } from "../../../state/announce";
import { say, sayMessage } from "../../../state/words";
import { Plot } from "./plot";
import type { CoreProps } from "./registry";
import { Slider } from "./slider";
import { SmallGraph } from "./small-graph";

const around = 2; // how far the curve goes to both sides

export function Ruler({ block, numbers, done, finish }: CoreProps) {
  const { graph, values, locals } = numbers!;
  const edges = edgeListsOf(graph).flat();
  const most = quantity(numbers, block.data.most!)!;
  const step = quantity(numbers, block.data.step!)!;
  const found = useSignal<Edge[]>(done ? edges : []);
  const chosen = useSignal<Edge>(edges[0]!);
  const slope = useSignal(done ? locals[edges[0]!.node]![edges[0]!.argument]! : 0);
  const said = useSignal<Message | null>(null);
  const label = (node: number): string => graph.nodes[node]!.label;
  const edge = chosen.value;
  const local = locals[edge.node]![edge.argument]!;
  const isFound = (one: Edge): boolean => found.value.some((other) => sameEdge(one, other));
  const curve = useMemo(
    () => (at: number) => {
      const node = graph.nodes[edge.node]!;
      const args = node.args.map((operand, i) => (i === edge.argument ? { constant: at } : operand));
      return valueOf({ ...node, args }, values);
    },
    [edge],
  );
  const choose = (next: Edge): void => {
    chosen.value = next;
    slope.value = isFound(next) ? locals[next.node]![next.argument]! : 0;
    said.value = null;
  };
  const tell = (key: string, texts: Message["values"] = {}): void => {
    said.value = { key: `core.ruler.${key}`, values: texts };
    announce(sayMessage(said.value));
  };
  const check = (): void => {
    const names = { from: label(edge.source), to: label(edge.node), slope: shortNumber(local) };
    if (!agree(slope.value, local, 1e-6)) {
      tell(mistake(), names);
      return;
    }
    if (!isFound(edge)) found.value = [...found.value, edge];
    const next = edges.find((one) => !isFound(one));
    if (!next) finish();
    else choose(next);
    tell(next ? "right" : "all", names);
  };
  /** What is wrong with the line. */
  const mistake = (): string => {
    const tried = slope.value;
    if (tried && local && agree(tried, -local, 1e-6)) return "sign";
    const others = edgesOf(graph, edge.node).filter((one) => one.argument !== edge.argument);
    if (others.some((one) => agree(tried, locals[one.node]![one.argument]!, 1e-6))) return "other";
    if (tried && agree(tried, values[edge.node]!, 1e-6)) return "value";
    return Math.abs(tried) > Math.abs(local) ? "steep" : "flat";
  };
  const at = values[edge.source]!;
  const way = say("core.ruler.edge", { from: label(edge.source), to: label(edge.node) });
  const twin = hasTwin(graph, edge) ? ` ${say("byhand.operand", { argument: edge.argument + 1 })}` : "";
  return (
    <>
      <SmallGraph
        label={say("core.ruler.graph")}
        graph={graph}
        node={(node) => ({
          value: shortNumber(values[node]!),
          spoken: say("core.build.node", { name: label(node), value: shortNumber(values[node]!) }),
        })}
        edge={(one) => ({
          text: isFound(one) ? shortNumber(locals[one.node]![one.argument]!) : "?",
          class: sameEdge(one, edge) ? "now" : "",
          spoken: say("core.ruler.edge", { from: label(one.source), to: label(one.node) }),
          pick: () => choose(one),
        })}
      />
      <div class="beside">
        <Plot
          label={say("core.ruler.plot", { from: label(edge.source), to: label(edge.node) })}
          of={curve}
          from={at - around}
          to={at + around}
          x={at}
          slope={slope.value}
          name={label(edge.source)}
        />
        <div class="readings">
          <h4>
            {way}
            {twin}
          </h4>
          <Slider
            label={say("core.ruler.slope")}
            name={say("core.nudge.slope")}
            from={-most}
            to={most}
            step={step}
            value={slope.value}
            onMove={(value) => {
              slope.value = value;
              said.value = null;
            }}
          />
          <p>
            <button type="button" class="main" onClick={check} data-touches>
              {say("core.ruler.check")}
            </button>
          </p>
          <p data-found={found.value.length} data-edges={edges.length}>
            {say("core.ruler.count", { done: found.value.length, total: edges.length })}
          </p>
          {said.value && (
            <p class="said" data-said={said.value.key}>
              {sayMessage(said.value)}
            </p>
          )}
        </div>
      </div>
    </>
  );
}
