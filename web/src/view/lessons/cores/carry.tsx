// Walk back by hand: for each edge choose the token that goes along it, and it moves.

import { useSignal } from "@preact/signals";

import { edgeListsOf, edgesInto, edgesOf, hasTwin, isLeaf, sameEdge } from "../../../engine/graph";
import { agree, shortNumber } from "../../../engine/numbers";
import type { Computed, Edge, Message } from "../../../engine/types";
import { shuffled } from "../../../lessons/shuffle";
import { announce } from "../../../state/announce";
import { say, sayMessage } from "../../../state/words";
import { classNames, inBrackets } from "../../text";
import type { CoreProps } from "./registry";
import { SmallGraph } from "./small-graph";

interface Choice {
  amount: number;
  kind: string; // "product", or the mistake that gives this number
}

const most = 4;

export function Carry({ lesson, block, numbers, done, finish }: CoreProps) {
  const { graph, values, locals } = numbers!;
  const edges = edgeListsOf(graph).flat();
  const sent = useSignal<Edge[]>(done ? edges : []);
  const chosen = useSignal<Edge | null>(null);
  const said = useSignal<(Message & { good: boolean }) | null>(null);
  const label = (node: number): string => graph.nodes[node]!.label;
  const isSent = (edge: Edge): boolean => sent.value.some((one) => sameEdge(one, edge));
  /** What has arrived at a node so far; null if nothing has. */
  const arrived = (node: number): number | null => {
    const from = edgesInto(graph, node).filter(isSent);
    if (node === graph.root) return 1;
    return from.length
      ? from.reduce((sum, { node: at, argument }) => sum + numbers!.grads[at]! * locals[at]![argument]!, 0)
      : null;
  };
  const isReady = (node: number): boolean => edgesInto(graph, node).every(isSent);
  const tell = (key: string, texts: Message["values"], good = false): void => {
    const message = { key: `core.carry.${key}`, values: texts };
    said.value = { ...message, good };
    announce(sayMessage(message));
  };
  const pick = (edge: Edge): void => {
    if (isSent(edge)) return;
    if (!isReady(edge.node)) {
      const waits = edgesInto(graph, edge.node).find((one) => !isSent(one))!;
      tell("waits", { name: label(edge.node), consumer: label(waits.node) });
      return;
    }
    chosen.value = edge;
    said.value = null;
  };
  const send = (edge: Edge, { amount, kind }: Choice): void => {
    const texts = {
      from: label(edge.node),
      to: label(edge.source),
      held: inBrackets(numbers!.grads[edge.node]!),
      local: inBrackets(locals[edge.node]![edge.argument]!),
      amount: shortNumber(amount),
    };
    if (kind !== "product") {
      tell(kind, texts);
      return;
    }
    sent.value = [...sent.value, edge];
    const left = edges.filter((one) => !isSent(one));
    const next = left.find((one) => one.node === edge.node) ?? left.find((one) => isReady(one.node));
    chosen.value = next ?? null;
    tell(left.length ? "moved" : "all", texts, true);
    if (!left.length) finish();
  };
  const edge = chosen.value;
  const last = said.value?.good ? sent.value.at(-1) : undefined;
  return (
    <>
      <SmallGraph
        label={say("core.carry.graph")}
        graph={graph}
        node={(node) => {
          const grad = arrived(node);
          const open = edgesOf(graph, node).find((one) => !isSent(one));
          const turn = grad !== null && isReady(node) && open !== undefined;
          const held = grad === null ? "" : shortNumber(grad);
          return {
            value: shortNumber(values[node]!),
            below: held && say("core.carry.held", { grad: held }),
            spoken: [
              say("core.build.node", { name: label(node), value: shortNumber(values[node]!) }),
              held && say("node.gradIs", { grad: held }),
            ]
              .filter(Boolean)
              .join(", "),
            class: classNames({ next: turn, now: edge?.node === node }),
            ...(!isLeaf(graph.nodes[node]!) && open && { pick: () => pick(open) }),
          };
        }}
        edge={(one) => ({
          text: `×${shortNumber(locals[one.node]![one.argument]!)}`,
          class: classNames({ now: edge !== null && sameEdge(one, edge), later: !isSent(one) }),
          spoken: say("core.carry.edge", {
            from: label(one.node),
            to: label(one.source),
            local: shortNumber(locals[one.node]![one.argument]!),
          }),
          ...(!isSent(one) && { pick: () => pick(one) }),
        })}
        tall
        token={
          last && {
            edge: last,
            text: shortNumber(numbers!.grads[last.node]! * locals[last.node]![last.argument]!),
          }
        }
      />
      {edge ? (
        <div class="row tokens" role="group" aria-label={wayOf(edge)} data-carry={keyOf(edge)}>
          <span>{wayOf(edge)}</span>
          {choicesFor(numbers!, edge, `${lesson} ${block.id} ${keyOf(edge)}`).map((choice) => (
            <button
              key={choice.kind}
              type="button"
              class="token-choice"
              onClick={() => send(edge, choice)}
              data-token={choice.kind}
            >
              {shortNumber(choice.amount)}
            </button>
          ))}
        </div>
      ) : (
        sent.value.length < edges.length && <p class="hint">{say("core.carry.start")}</p>
      )}
      {said.value && (
        <p class={said.value.good ? "said" : "said wrong"} data-said={said.value.key}>
          {sayMessage(said.value)}
        </p>
      )}
    </>
  );

  function keyOf({ node, argument }: Edge): string {
    return `${label(node)}.${argument}`;
  }

  function wayOf(one: Edge): string {
    const which = hasTwin(graph, one) ? say("byhand.operand", { argument: one.argument + 1 }) : "";
    const texts = { from: label(one.node), to: label(one.source) };
    return [say("core.carry.which", texts), which].filter(Boolean).join(" ");
  }
}

/** The right token among those that mistakes give, in an order that does not tell. */
function choicesFor({ graph, locals, grads, values }: Computed, edge: Edge, text: string): Choice[] {
  const held = grads[edge.node]!;
  const local = locals[edge.node]![edge.argument]!;
  const others = edgesOf(graph, edge.node).filter(({ argument }) => argument !== edge.argument);
  const all: Choice[] = [
    { amount: held * local, kind: "product" },
    ...others.map(({ node, argument }) => ({ amount: held * locals[node]![argument]!, kind: "other" })),
    { amount: held + local, kind: "added" },
    { amount: local, kind: "local" },
    { amount: held, kind: "upstream" },
    { amount: -held * local, kind: "sign" },
    { amount: values[edge.source]!, kind: "value" },
  ];
  const found = all.filter(
    ({ amount, kind }, i) =>
      all.findIndex((one) => agree(one.amount, amount, 1e-9)) === i &&
      all.findIndex((one) => one.kind === kind) === i,
  );
  const some = found.slice(0, most);
  return shuffled(some.length, text).map((i) => some[i]!);
}
