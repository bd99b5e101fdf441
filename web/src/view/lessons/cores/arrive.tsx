// Several tokens arrive at one node. Two boxes receive them: one with `=`, one with `+=`.

import { useSignal } from "@preact/signals";

import { edgesInto, sameEdge } from "../../../engine/graph";
import { shortNumber } from "../../../engine/numbers";
import { nudge } from "../../../engine/nudge";
import type { Edge, Message } from "../../../engine/types";
import { nodeCalled } from "../../../lessons/quantities";
import { announce } from "../../../state/announce";
import { say, sayMessage } from "../../../state/words";
import type { CoreProps } from "./registry";
import { SmallGraph } from "./small-graph";

const tiny = 1e-6;

export function Arrive({ block, numbers, done, finish }: CoreProps) {
  const { graph, values, locals, grads } = numbers!;
  const name = block.data.node!;
  const node = nodeCalled(graph, name);
  const uses = edgesInto(graph, node);
  const sent = useSignal<Edge[]>(done ? uses : []);
  const said = useSignal<Message | null>(null);
  const measured = useSignal(done);
  const label = (at: number): string => graph.nodes[at]!.label;
  const amount = (edge: Edge): number => grads[edge.node]! * locals[edge.node]![edge.argument]!;
  const isSent = (edge: Edge): boolean => sent.value.some((one) => sameEdge(one, edge));
  const whole = sent.value.length === uses.length;
  const replaced = sent.value.length ? amount(sent.value.at(-1)!) : 0;
  const added = sent.value.reduce((sum, edge) => sum + amount(edge), 0);
  const slope = Math.round((nudge(numbers!, node, tiny).real / tiny) * 1000) / 1000;
  const tell = (key: string, texts: Message["values"] = {}): void => {
    said.value = { key: `core.arrive.${key}`, values: texts };
    announce(sayMessage(said.value));
  };
  const send = (edge: Edge): void => {
    if (isSent(edge)) return;
    const before = sent.value.length ? shortNumber(added) : "0";
    sent.value = [...sent.value, edge];
    const texts = { amount: shortNumber(amount(edge)), name };
    tell(sent.value.length > 1 ? "second" : "first", { ...texts, before, after: shortNumber(added) });
  };
  const choose = (right: boolean): void => {
    if (!measured.value) tell("measureFirst");
    else if (!right) tell("wrong", { slope: shortNumber(slope), got: shortNumber(replaced) });
    else {
      tell("right", { slope: shortNumber(slope) });
      finish();
    }
  };
  const last = sent.value.at(-1);
  return (
    <>
      <SmallGraph
        label={say("core.arrive.graph")}
        graph={graph}
        node={(at) => ({
          value: shortNumber(values[at]!),
          spoken: say("core.build.node", { name: label(at), value: shortNumber(values[at]!) }),
          class: at === node ? "now" : "",
        })}
        edge={(edge) => ({
          text: `×${shortNumber(locals[edge.node]![edge.argument]!)}`,
          class: isSent(edge) ? "now" : "",
          ...(edge.source === node &&
            !isSent(edge) && {
              pick: () => send(edge),
              spoken: say("core.arrive.send", { amount: shortNumber(amount(edge)), number: edge.argument + 1 }),
            }),
        })}
        token={last && !done ? { edge: last, text: shortNumber(amount(last)) } : null}
      />
      <div class="row tokens">
        {uses.map((edge, i) => (
          <button
            key={i}
            type="button"
            class="token-choice"
            aria-disabled={isSent(edge)}
            onClick={() => send(edge)}
            data-send={i}
          >
            {say("core.arrive.send", { amount: shortNumber(amount(edge)), number: i + 1 })}
          </button>
        ))}
        <button type="button" onClick={() => (sent.value = [])} aria-disabled={!sent.value.length} data-empty>
          {say("core.arrive.empty")}
        </button>
      </div>
      <div class="boxes">
        <Receiver sign="=" name={name} got={replaced} some={sent.value.length > 0} />
        <Receiver sign="+=" name={name} got={added} some={sent.value.length > 0} />
        <p class="receiver">
          <span>{say("core.arrive.measured", { name, root: label(graph.root) })}</span>
          {measured.value ? (
            <strong data-measured={slope}>{shortNumber(slope)}</strong>
          ) : (
            <button
              type="button"
              onClick={() => {
                measured.value = true;
                tell("isMeasured", { slope: shortNumber(slope) });
              }}
              data-measure
            >
              {say("core.arrive.measure")}
            </button>
          )}
        </p>
      </div>
      {whole && !done && (
        <div class="row" role="group" aria-label={say("core.arrive.which")}>
          <span>{say("core.arrive.which")}</span>
          {["=", "+="].map((sign) => (
            <button
              key={sign}
              type="button"
              onClick={() => choose(sign === "+=")}
              data-box={sign}
              translate={false}
            >
              {sign}
            </button>
          ))}
        </div>
      )}
      {said.value && (
        <p class="said" data-said={said.value.key}>
          {sayMessage(said.value)}
        </p>
      )}
    </>
  );
}

function Receiver(props: { sign: string; name: string; got: number; some: boolean }) {
  return (
    <p class="receiver" data-receiver={props.sign} data-got={props.some ? props.got : ""}>
      <code translate={false}>
        {props.name}.grad {props.sign} …
      </code>
      <strong>{props.some ? shortNumber(props.got) : "·"}</strong>
    </p>
  );
}
