// Put a formula's nodes down one by one: choose an operation, then its inputs.

import { useSignal } from "@preact/signals";
import { useMemo } from "preact/hooks";

import { expressionText } from "../../../engine/formulas";
import { isLeaf } from "../../../engine/graph";
import { shortNumber } from "../../../engine/numbers";
import { OPS } from "../../../engine/ops";
import type { Graph, GraphNode, Message, Operand } from "../../../engine/types";
import { announce } from "../../../state/announce";
import { say, sayMessage } from "../../../state/words";
import { classNames, drawnOp } from "../../text";
import type { CoreProps } from "./registry";
import { SmallGraph } from "./small-graph";

/** An operation on offer; where a constant is a part of it, `args` has it in its place. */
interface Tool {
  sign: string;
  node: GraphNode;
}

const ALWAYS = ["add", "sub", "mul"];
const inputs = (node: GraphNode): number[] =>
  node.args.flatMap((operand) => ("node" in operand ? [operand.node] : []));
const isSymmetric = (op: string): boolean => ["add", "mul", "maximum", "max"].includes(op);

export function Build({ numbers, done, finish }: CoreProps) {
  const { graph, values } = numbers!;
  const all = graph.nodes.flatMap((node, i) => (isLeaf(node) ? [] : [i]));
  const placed = useSignal<number[]>(done ? all : []); // nodes of the formula, in the order of placing
  const tool = useSignal<Tool | null>(null);
  const picked = useSignal<number[]>([]);
  const said = useSignal<(Message & { good: boolean }) | null>(null);
  const tools = useMemo(() => toolsFor(graph), [graph]);
  const label = (node: number): string => graph.nodes[node]!.label;

  const tell = (key: string, texts: Record<string, string>, good = false): void => {
    const message = { key: `core.build.${key}`, values: texts };
    said.value = { ...message, good };
    announce(sayMessage(message));
  };
  const choose = (next: Tool): void => {
    tool.value = next;
    picked.value = [];
    const count = inputs(next.node).length;
    said.value = { key: "core.build.pick", values: { count, op: next.sign }, good: true };
  };
  const pick = (node: number): void => {
    const { value: using } = tool;
    if (!using) {
      tell("first", {});
      return;
    }
    picked.value = [...picked.value, node];
    if (picked.value.length < inputs(using.node).length) {
      announce(say("core.build.picked", { name: label(node) }));
      return;
    }
    place(using, picked.value);
  };
  const place = (using: Tool, chosen: number[]): void => {
    picked.value = [];
    const made = all.find((node) => isSame(graph.nodes[node]!, using.node, chosen));
    const names = { names: chosen.map(label).join(", "), op: using.sign };
    if (made === undefined) {
      const near = nearest(graph, using.node, chosen, placed.value);
      if (near) tell(near.key, { ...names, name: label(near.node), formula: formulaOf(near.node) });
      else tell("none", names);
    } else if (placed.value.includes(made)) tell("again", { name: label(made) });
    else {
      placed.value = [...placed.value, made];
      tool.value = null;
      const whole = placed.value.length === all.length;
      tell(whole ? "whole" : "made", { name: label(made), value: shortNumber(values[made]!) }, true);
      if (whole) finish();
    }
  };
  const formulaOf = (node: number): string => `${label(node)} = ${expressionText(graph, node)}`;
  const undo = (): void => {
    placed.value = placed.value.slice(0, -1);
    picked.value = [];
    said.value = null;
  };
  return (
    <>
      <p class="formula" translate={false}>
        {all.map(formulaOf).join(",  ")}
      </p>
      <div class="row operations" role="group" aria-label={say("core.build.tools")}>
        {tools.map((one) => (
          <button
            key={one.sign}
            type="button"
            aria-pressed={tool.value?.sign === one.sign}
            onClick={() => choose(one)}
            data-tool={one.sign}
            translate={false}
          >
            {one.sign}
          </button>
        ))}
        <button type="button" aria-disabled={!placed.value.length} onClick={undo}>
          {say("walk.doUndo")}
        </button>
      </div>
      <SmallGraph
        label={say("core.build.drawing")}
        graph={graph}
        there={(node) => isLeaf(graph.nodes[node]!) || placed.value.includes(node)}
        node={(node) => {
          const isPicked = picked.value.includes(node);
          return {
            value: shortNumber(values[node]!),
            spoken: say("core.build.node", { name: label(node), value: shortNumber(values[node]!) }),
            class: classNames({ now: isPicked, root: node === graph.root }),
            pick: () => pick(node),
          };
        }}
      />
      <p class={said.value && !said.value.good ? "said wrong" : "said"} data-said={said.value?.key}>
        {said.value ? sayMessage(said.value) : say("core.build.start")}
      </p>
    </>
  );
}

/** The operations of the formula, and those that people confuse them with. */
function toolsFor(graph: Graph): Tool[] {
  const plain: Operand = { node: 0 };
  const found = new Map<string, Tool>();
  for (const op of ALWAYS) {
    const node = { op, args: [plain, plain], attrs: {}, label: "" };
    found.set(OPS[op]!.symbol!, { sign: OPS[op]!.symbol!, node });
  }
  graph.nodes.forEach((node, i) => {
    const sign = drawnOp(graph, i);
    if (!isLeaf(node)) found.set(sign, { sign, node });
  });
  return [...found.values()];
}

/** Whether a node of the formula is this operation on these inputs. */
function isSame(node: GraphNode, using: GraphNode, chosen: number[]): boolean {
  return isLike(node, using) && sameInputs(node, chosen, isSymmetric(node.op));
}

const isLike = (one: GraphNode, other: GraphNode): boolean =>
  one.op === other.op && constants(one) === constants(other);

const constants = ({ args, attrs }: GraphNode): string =>
  JSON.stringify([args.map((operand) => ("node" in operand ? null : operand)), attrs]);

function sameInputs(node: GraphNode, chosen: number[], anyOrder: boolean): boolean {
  const found = inputs(node);
  const text = (list: number[]): string => (anyOrder ? list.slice().sort() : list).join();
  return found.length === chosen.length && text(found) === text(chosen);
}

/** What the learner may have meant: the node of the formula that comes nearest to it. */
function nearest(
  graph: Graph,
  using: GraphNode,
  chosen: number[],
  placed: number[],
): { key: string; node: number } | null {
  const open = graph.nodes.flatMap((node, i) => (isLeaf(node) || placed.includes(i) ? [] : [i]));
  const find = (test: (node: GraphNode) => boolean): number | undefined =>
    open.find((node) => test(graph.nodes[node]!));
  const turned = find((node) => isLike(node, using) && sameInputs(node, chosen, true));
  if (turned !== undefined) return { key: "turned", node: turned };
  const other = find((node) => sameInputs(node, chosen, true));
  if (other !== undefined) return { key: "otherOp", node: other };
  const early = find((node) => isLike(node, using) && chosen.some((c) => inputs(node).includes(c)));
  return early === undefined ? null : { key: "otherInputs", node: early };
}
