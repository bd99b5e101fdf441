// Why a gradient is what it is: by edge, by path, as the chain rule, and put to the test.

import { useComputed } from "@preact/signals";

import { deriveMath } from "../../engine/derive";
import { mathSign } from "../../engine/formulas";
import { shortNumber } from "../../engine/numbers";
import { type Why, why } from "../../engine/why";
import { lookedAt } from "../../state/order";
import { say } from "../../state/words";
import { Formula } from "../formula";
import { useStage } from "../stage";
import { EdgeLink, Scroll, Table } from "../parts";
import { inBrackets, signed, signOf } from "../text";
import { NodeChoice } from "./choice";
import { NudgeView } from "./nudge";
import { counted, PathPicks } from "./paths";

const mostPaths = 8;

export function WhyPanel() {
  const stage = useStage();
  const found = useComputed(() => why(stage.numbers.value, lookedAt(stage), mostPaths));
  const { node, gradient, count } = found.value;
  const root = stage.name(stage.graph.value.root);
  return (
    <>
      <h3>{say("why.title")}</h3>
      <NodeChoice word="why.of" />
      <p data-why={stage.name(node)} data-gradient={gradient}>
        {say(Number.isNaN(gradient) ? "why.noGradient" : "why.gradient", {
          name: stage.name(node),
          root,
          gradient: shortNumber(gradient),
        })}
      </p>
      {node === stage.graph.value.root ? (
        <p>{say("why.root", { root })}</p>
      ) : (
        <>
          <ByEdge why={found.value} />
          <ByPath why={found.value} />
          <Cancellation why={found.value} />
          {count > 0n && <DerivationView node={node} />}
        </>
      )}
      <NudgeView node={node} />
    </>
  );
}

function ByEdge({ why: { edges } }: { why: Why }) {
  const stage = useStage();
  const most = Math.max(...edges.map((share) => Math.abs(share.amount)));
  return (
    <>
      <h4>{say("why.byEdge", { count: edges.length })}</h4>
      <Scroll label={say("why.byEdge", { count: edges.length })}>
        <Table class="shares" columns={["why.consumer", "why.edgeProduct", "why.amount"]}>
          {edges.map(({ edge, local, gradient, amount }) => (
            <tr
              key={`${edge.node}.${edge.argument}`}
              data-share={`${stage.name(edge.node)}.${edge.argument}`}
              data-amount={amount}
            >
              <th scope="row">
                <EdgeLink edge={edge} />
              </th>
              <td>
                {shortNumber(gradient)} × {inBrackets(local)}
              </td>
              <td class={signOf(amount)}>
                {signed(amount)}
                <span class="bar" style={{ inlineSize: `${share(amount, most)}%` }} />
              </td>
            </tr>
          ))}
        </Table>
      </Scroll>
    </>
  );
}

const share = (amount: number, most: number): number =>
  Number.isFinite(amount / most) ? (100 * Math.abs(amount)) / most : 0;

function ByPath({ why: { paths, count, dead, gradient } }: { why: Why }) {
  return (
    <>
      <h4 data-paths={String(count)}>{say("why.byPath", counted(count))}</h4>
      <PathPicks paths={paths} count={count} />
      {/* 0 times an infinity is not nothing */}
      {dead > 0n && !Number.isNaN(gradient) && <p class="hint">{say("why.dead", counted(dead))}</p>}
    </>
  );
}

function Cancellation({ why: { cancellation, gradient } }: { why: Why }) {
  const word = Number.isNaN(cancellation)
    ? "unknown"
    : cancellation > 1 + 1e-9
      ? gradient
        ? "some"
        : "all"
      : gradient
        ? "none"
        : "zero";
  return (
    <p data-cancellation={cancellation}>
      {say(`why.cancel.${word}`, { ratio: shortNumber(cancellation) })}
    </p>
  );
}

/** The chain rule: in symbols, with the rules, in numbers. */
function DerivationView({ node }: { node: number }) {
  const stage = useStage();
  const { lines, whole } = deriveMath(stage.numbers.value, node);
  return (
    <details open>
      <summary>{say("why.derivation")}</summary>
      <Scroll class="derivation" label={say("why.derivation")}>
        {lines.map(({ node: of, left, right }) => (
          <div key={of} class="line">
            {right.map((part, i) => (
              <Formula key={i} markup={[...(i ? [] : left), mathSign("="), ...part]} />
            ))}
          </div>
        ))}
        {whole && lines.length > 1 && (
          <div class="line">
            <p class="hint">{say("why.whole")}</p>
            <Formula markup={whole.left} />
            {whole.right.map((sum, i) =>
              // Term by term, so that it breaks where there is no room.
              sum.map((term, j) => (
                <Formula key={`${i}.${j}`} markup={[mathSign(j ? "+" : "="), ...term]} />
              )),
            )}
          </div>
        )}
      </Scroll>
    </details>
  );
}
