// The order lab: visit the nodes in any order, and see what is lost. Lessons use it with a goal.

import { effect, useComputed, useSignal } from "@preact/signals";
import { useEffect, useLayoutEffect } from "preact/hooks";

import {
  everyOrder,
  type NodeResult,
  type OrderPath,
  orderPaths,
  type OrderPaths,
} from "../../engine/order";
import { AGAIN } from "../../engine/order-steps";
import { shortNumber } from "../../engine/numbers";
import { type Recipe, RECIPES } from "../../engine/recipes";
import type { Message } from "../../engine/types";
import {
  follow,
  type Goal,
  isReached,
  lookedAt,
  orderOn,
  recipesOn,
  resultOn,
  visit,
} from "../../state/order";
import { say, sayMessage } from "../../state/words";
import { Link, NodeLink, Scroll, Table } from "../parts";
import { useStage } from "../stage";
import { inBrackets, signed, signOf } from "../text";
import { NodeChoice } from "./choice";
import { counted, PathPick } from "./paths";
import { Visits } from "./visits";

const mostPaths = 6;

export function OrderPanel() {
  return <OrderLab />;
}

/**
 * On the stage it stands on. With a goal, what would give it away (recipes, the table of all
 * orders) is left out, `=` for `+=` is as the lesson says, and `onRun` hears after every run whether the goal is reached.
 */
export function OrderLab(props: { goal?: Goal; onRun?: (reached: boolean) => void }) {
  const stage = useStage();
  const { goal, onRun } = props;
  useLayoutEffect(() => {
    stage.setLab(true);
    return () => stage.setLab(false);
  }, [stage]);
  const target = useComputed(() => goal?.node ?? lookedAt(stage));
  const result = useComputed(() => resultOn(stage));
  const done = useComputed(
    () => stage.lab.value && stage.position.value === stage.steps.value.length,
  );
  const paths = useComputed(() =>
    orderPaths(stage.numbers.value, result.value, target.value, mostPaths),
  );
  useLayoutEffect(
    () =>
      effect(() => {
        stage.lost.value = done.value ? paths.value.lost.flatMap((path) => path.edges) : [];
      }),
    [stage],
  );
  useEffect(
    () =>
      effect(() => {
        if (done.value && goal && onRun) onRun(isReached(result.value, goal));
      }),
    [stage, goal?.node, goal?.amount, onRun],
  );
  const own = result.value.nodes.find((one) => one.node === target.value);
  // A goal may be a number that is not the gradient: then to miss the gradient is no mistake.
  const wanted = goal !== undefined && goal.amount !== "correct";
  return (
    <>
      {!goal && <h3>{say("order.title")}</h3>}
      <p class="law">{say("order.rule")}</p>
      <Visits />
      <LeftOut />
      <div class="row small">
        <button type="button" class="main" onClick={() => stage.runVisits(true)} data-run>
          {say("order.run")}
        </button>
        <button type="button" onClick={() => stage.runVisits(false)} aria-disabled={done.value}>
          {say("order.step")}
        </button>
        <button
          type="button"
          onClick={() => stage.undo()}
          aria-disabled={stage.phase.value === "forward"}
        >
          {say("walk.doUndo")}
        </button>
        <button
          type="button"
          onClick={() => stage.rewind()}
          aria-disabled={stage.phase.value === "forward"}
        >
          {say("order.rewind")}
        </button>
      </div>
      {(!goal || stage.overwrite.value) && (
        <label class="check">
          <input
            type="checkbox"
            checked={stage.overwrite.value}
            disabled={!!goal}
            onChange={(event) => stage.arrange(orderOn(stage), event.currentTarget.checked)}
            data-overwrite
          />
          <span>{say("order.overwrite")}</span>
        </label>
      )}
      {!goal && <NodeChoice word="order.of" />}
      {done.value && own ? (
        <Outcome own={own} paths={paths.value} wanted={wanted} />
      ) : (
        <p class="hint">{say("order.notRun")}</p>
      )}
      {!goal && <Recipes />}
      <Results nodes={result.value.nodes} done={done.value} wanted={wanted} />
      {!goal && !stage.overwrite.value && <EveryOrder node={target.value} />}
    </>
  );
}

/** Nodes that the order does not visit, and a further call of backward. */
function LeftOut() {
  const stage = useStage();
  const order = orderOn(stage);
  const { graph, reached } = stage.numbers.value;
  const rest = graph.nodes.flatMap((_, node) =>
    reached[node] && !order.includes(node) ? [node] : [],
  );
  return (
    <div class="row leftout" role="group" aria-label={say("order.notVisited.title")}>
      <span class="hint">{say("order.notVisited.title")}</span>
      {rest.map((node) => (
        <button
          key={node}
          type="button"
          onClick={() => visit(stage, node)}
          data-add={stage.name(node)}
          aria-label={say("order.add", { name: stage.name(node) })}
        >
          <span aria-hidden="true" translate={false}>
            + {stage.name(node)}
          </span>
        </button>
      ))}
      <button type="button" onClick={() => visit(stage, AGAIN)} data-again>
        + {say("order.again")}
      </button>
    </div>
  );
}

function Recipes() {
  const stage = useStage();
  const problem = useSignal<Message | null>(null);
  const same = recipesOn(stage);
  return (
    <>
      <h4>{say("order.recipes")}</h4>
      <div class="row recipes">
        {RECIPES.map((name) => (
          <button
            key={name}
            type="button"
            aria-pressed={same.includes(name)}
            onClick={() => (problem.value = follow(stage, name))}
            data-recipe={name}
          >
            {say(recipeWord(name))}
          </button>
        ))}
      </div>
      {problem.value && (
        <p class="mistake" role="alert">
          {sayMessage(problem.value)}
        </p>
      )}
      {same.map((name) => (
        <p key={name} class="hint">
          {say(`${recipeWord(name)}.about`)}
        </p>
      ))}
    </>
  );
}

const recipeWord = (name: Recipe): string => `order.recipe.${name}`;

/** One gradient: the sum, and the paths that make the difference. */
function Outcome(props: { own: NodeResult; paths: OrderPaths; wanted: boolean }) {
  const stage = useStage();
  const { own, paths, wanted } = props;
  const { got, correct, lost, extra, firstInversion, wrong } = own;
  const name = stage.name(own.node);
  return (
    <div
      class={wrong && !wanted ? "outcome wrong" : "outcome"}
      data-outcome={name}
      data-got={got}
      data-correct={correct}
      data-lost={lost ?? 0}
      data-extra={extra ?? 0}
    >
      <p class="sum">
        {say("order.sum", {
          name,
          got: shortNumber(got),
          correct: shortNumber(correct),
          lost: inBrackets(lost ?? 0),
          extra: inBrackets(extra ?? 0),
        })}
      </p>
      <p>
        {say(
          wrong
            ? wanted
              ? "order.isOther"
              : "order.isWrong"
            : lost === null && extra === null
              ? "order.isRight"
              : "order.byLuck",
          { name, correct: shortNumber(correct) },
        )}
      </p>
      {firstInversion && (
        <p data-pair={`${stage.name(firstInversion.early)} ${stage.name(firstInversion.late)}`}>
          {say("order.firstPair", {
            early: stage.name(firstInversion.early),
            late: stage.name(firstInversion.late),
            visit: firstInversion.earlyVisit,
          })}
        </p>
      )}
      <PathSums kind="lost" paths={paths.lost} count={paths.lostCount} />
      <PathSums kind="extra" paths={paths.extra} count={paths.extraCount} />
    </div>
  );
}

function PathSums(props: { kind: "lost" | "extra"; paths: OrderPath[]; count: bigint }) {
  const { kind, paths, count } = props;
  if (!count) return null;
  const listed = paths.reduce((sum, path) => sum + BigInt(path.times), 0n);
  return (
    <>
      <p class="title">{say(`order.${kind}Paths`, counted(count))}</p>
      <ul class={`picks paths ${kind}`} data-paths={kind}>
        {paths.map((path, i) => (
          <PathPick key={i} path={path} amount={path.amount}>
            {path.times > 1 &&
              ` ${say("order.times", { times: path.times, amount: signed(path.amount) })}`}
            {path.reason && <span class="reason"> {sayMessage(path.reason)}</span>}
          </PathPick>
        ))}
      </ul>
      {count > listed && <p class="hint">{say("why.morePaths", counted(count - listed))}</p>}
    </>
  );
}

/** Every node: what it got, and what it should have. */
function Results(props: { nodes: NodeResult[]; done: boolean; wanted: boolean }) {
  const stage = useStage();
  const { nodes, done } = props;
  const marked = done && !props.wanted; // what is wrong
  const { grads } = stage.standing.value;
  const columns = ["node", "got", "correct", ...(done ? ["lost", "extra", "pair"] : [])];
  return (
    <Scroll label={say("order.table")}>
      <Table class="gradients" columns={columns.map((column) => `order.column.${column}`)}>
        {nodes
          .slice()
          .reverse()
          .map((one) => {
            const got = done ? one.got : (grads[one.node] ?? null);
            const pair = one.firstInversion;
            return (
              <tr
                key={one.node}
                class={marked && one.wrong ? "wrong" : ""}
                data-result={stage.name(one.node)}
                data-got={got ?? ""}
                data-correct={one.correct}
                data-lost={done ? (one.lost ?? 0) : ""}
                data-extra={done ? (one.extra ?? 0) : ""}
              >
                <th scope="row">
                  <NodeLink node={one.node} />
                </th>
                <td class={got === null ? "" : signOf(got)}>
                  {got === null ? "·" : shortNumber(got)}
                  {marked && one.wrong && (
                    <span class="cross">
                      {" "}
                      ✗<span class="hidden"> {say("order.wrong")}</span>
                    </span>
                  )}
                </td>
                <td>{shortNumber(one.correct)}</td>
                {done && <td>{one.lost === null ? "·" : shortNumber(one.lost)}</td>}
                {done && <td>{one.extra === null ? "·" : shortNumber(one.extra)}</td>}
                {done && (
                  <td>
                    {pair &&
                      say("order.pair", {
                        early: stage.name(pair.early),
                        late: stage.name(pair.late),
                      })}
                  </td>
                )}
              </tr>
            );
          })}
      </Table>
    </Scroll>
  );
}

/** What all orders of the nodes that are visited make of one gradient. */
function EveryOrder({ node }: { node: number }) {
  const stage = useStage();
  const visited = useComputed(() =>
    [...new Set(orderOn(stage))]
      .filter((one) => one !== AGAIN)
      .sort((a, b) => b - a)
      .join(),
  );
  const target = useSignal(node);
  target.value = node;
  const outcomes = useComputed(() =>
    visited.value
      ? everyOrder(stage.numbers.value, target.value, visited.value.split(",").map(Number))
      : null,
  );
  const name = stage.name(node);
  const nodes = visited.value
    .split(",")
    .filter(Boolean)
    .map((one) => stage.name(Number(one)));
  if (!outcomes.value)
    return nodes.length ? (
      <p class="hint">{say("order.tooManyOrders", { count: nodes.length })}</p>
    ) : null;
  const right = stage.numbers.value.grads[node]!;
  const total = outcomes.value.reduce((sum, { orders }) => sum + orders.length, 0);
  return (
    <>
      <h4>{say("order.every", { count: total, names: nodes.join(", ") })}</h4>
      <ul class="every">
        {outcomes.value.map(({ got, orders }) => (
          <li key={got} data-orders={orders.length} data-gives={got}>
            <span class="bar" style={{ inlineSize: `${(100 * orders.length) / total}%` }} />
            <span>
              {say("order.gives", { count: orders.length, name, got: shortNumber(got) })}
              {Math.abs(got - right) <= 1e-9 * Math.abs(right) && ` ${say("order.thatIsRight")}`}
            </span>
            <Link onClick={() => stage.arrange(orders[0]!, false)}>
              {say("order.showOne", { order: stage.names(orders[0]!) })}
            </Link>
          </li>
        ))}
      </ul>
    </>
  );
}
