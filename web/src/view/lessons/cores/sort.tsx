// Topological sort: watch the visit go down to the leaves and write on the way up, then do it.

import { useSignal } from "@preact/signals";
import { useEffect, useMemo } from "preact/hooks";

import { edgesOf } from "../../../engine/graph";
import { shortNumber } from "../../../engine/numbers";
import type { Graph, Message } from "../../../engine/types";
import { announce } from "../../../state/announce";
import { say, sayMessage } from "../../../state/words";
import { classNames } from "../../text";
import type { CoreProps } from "./registry";
import { SmallGraph } from "./small-graph";

interface Move {
  kind: "enter" | "write";
  node: number;
}

const pace = 700; // milliseconds a move is looked at

export function Sort({ numbers, done, finish }: CoreProps) {
  const { graph, values } = numbers!;
  const moves = useMemo(() => movesOf(graph), [graph]);
  const at = useSignal(0); // moves watched
  const playing = useSignal(false);
  const own = useSignal<number[] | null>(done ? written(moves) : null); // null: watching
  const said = useSignal<(Message & { good: boolean }) | null>(null);
  const label = (node: number): string => graph.nodes[node]!.label;
  const watched = moves.slice(0, at.value);
  const list = own.value ?? written(watched);
  const waiting = waitingIn(watched);
  const now = own.value ? undefined : watched.at(-1);

  const tell = (key: string, texts: Message["values"] = {}, good = true): void => {
    const message = { key: `core.sort.${key}`, values: texts };
    said.value = { ...message, good };
    announce(sayMessage(message));
  };
  const go = (to: number): void => {
    at.value = Math.min(moves.length, Math.max(0, to));
    const move = moves[at.value - 1];
    if (!move) said.value = null;
    else if (at.value === moves.length) tell("watched", { names: written(moves).map(label).join(", ") });
    else tell(move.kind, { name: label(move.node) });
  };
  useEffect(() => {
    if (!playing.value) return undefined;
    const timer = setInterval(() => {
      go(at.value + 1);
      if (at.value === moves.length) playing.value = false;
    }, pace);
    return () => clearInterval(timer);
  }, [playing.value]);

  const pick = (node: number): void => {
    const before = own.value!;
    if (before.includes(node)) {
      tell("again", { name: label(node) }, false);
      return;
    }
    const missing = edgesOf(graph, node).find(({ source }) => !before.includes(source));
    if (missing) {
      tell("tooEarly", { name: label(node), input: label(missing.source) }, false);
      return;
    }
    own.value = [...before, node];
    if (own.value.length < graph.nodes.length) tell("write", { name: label(node) });
    else {
      tell("sorted", { names: own.value.slice().reverse().map(label).join(", ") });
      finish();
    }
  };
  return (
    <>
      <SmallGraph
        label={say("core.sort.graph")}
        graph={graph}
        tall
        node={(node) => ({
          value: shortNumber(values[node]!),
          below: list.includes(node) ? say("core.sort.place", { place: list.indexOf(node) + 1 }) : "",
          spoken: [
            say("core.build.node", { name: label(node), value: shortNumber(values[node]!) }),
            list.includes(node) && say("core.sort.place", { place: list.indexOf(node) + 1 }),
          ]
            .filter(Boolean)
            .join(", "),
          class: classNames({
            now: now?.node === node,
            next: !own.value && waiting.includes(node),
            done: list.includes(node),
          }),
          ...(own.value && { pick: () => pick(node) }),
        })}
      />
      <p class="line-up">
        {say("core.sort.list")}{" "}
        <strong translate={false} data-list={list.map(label).join(" ")}>
          {list.length ? list.map(label).join(", ") : "–"}
        </strong>
        {!own.value && waiting.length > 0 && (
          <>
            {" "}
            <span class="hint">
              {say("core.sort.waiting", { names: waiting.map(label).join(", ") })}
            </span>
          </>
        )}
      </p>
      <div class="row">
        {own.value === null ? (
          <>
            <button type="button" onClick={() => go(at.value - 1)} aria-disabled={at.value === 0}>
              {say("walk.doUndo")}
            </button>
            <button
              type="button"
              class="main"
              onClick={() => go(at.value + 1)}
              aria-disabled={at.value === moves.length}
              data-next-move
            >
              {say("core.sort.step")}
            </button>
            <button type="button" onClick={() => (playing.value = !playing.value)} aria-pressed={playing.value}>
              {say("core.sort.play")}
            </button>
            <button
              type="button"
              onClick={() => {
                playing.value = false;
                own.value = [];
                tell("yourTurn");
              }}
              data-own
            >
              {say("core.sort.own")}
            </button>
          </>
        ) : (
          <>
            <button
              type="button"
              onClick={() => (own.value = own.value!.slice(0, -1))}
              aria-disabled={!own.value.length}
            >
              {say("walk.doUndo")}
            </button>
            <button
              type="button"
              onClick={() => {
                own.value = null;
                at.value = 0;
                said.value = null;
              }}
            >
              {say("core.sort.watch")}
            </button>
          </>
        )}
      </div>
      {said.value && (
        <p class={said.value.good ? "said" : "said wrong"} data-said={said.value.key}>
          {sayMessage(said.value)}
        </p>
      )}
    </>
  );
}

/** Depth first from the root: a node is entered, then its inputs, then it is written down. */
function movesOf(graph: Graph): Move[] {
  const seen = new Set<number>();
  const visit = (node: number): Move[] => {
    if (seen.has(node)) return [];
    seen.add(node);
    const below = edgesOf(graph, node).flatMap(({ source }) => visit(source));
    return [{ kind: "enter", node }, ...below, { kind: "write", node }];
  };
  return visit(graph.root);
}

const written = (moves: Move[]): number[] =>
  moves.flatMap(({ kind, node }) => (kind === "write" ? [node] : []));

/** Entered, and not written yet. */
const waitingIn = (moves: Move[]): number[] => {
  const list = written(moves);
  return moves.flatMap(({ kind, node }) => (kind === "enter" && !list.includes(node) ? [node] : []));
};
