// What is selected: a node, an edge with its local derivative, a path with its product.

import { canExpand } from "../../engine/expand";
import { gatesOf, localFormula, mathName, mathSign, nodeFormula } from "../../engine/formulas";
import { edgesInto, edgesOf, leavesOf } from "../../engine/graph";
import { shortNumber } from "../../engine/numbers";
import type { Edge, Path } from "../../engine/types";
import { pathsTo } from "../../engine/why";
import { wayDown } from "../../state/narrate";
import { say } from "../../state/words";
import { Formula, mathElements } from "../formula";
import { lazy } from "../lazy";
import { LeafInput } from "../leaf";
import { Link, NodeLink, nodesOn, operandText, pathText } from "../parts";
import { draggable } from "../scrub";
import { useStage } from "../stage";
import { asIs, signed, signOf } from "../text";
import { PathPicks } from "./paths";

const mostPaths = 12;
const EdgeCurve = lazy(() => import("../curve").then((part) => part.EdgeCurve));

export function InspectPanel() {
  const stage = useStage();
  const selection = stage.selection.value;
  if (selection?.kind === "node") return <NodeDetails node={selection.node} />;
  if (selection?.kind === "edge") return <EdgeDetails edge={selection.edge} />;
  if (selection?.kind === "path") return <PathDetails path={selection.path} />;
  return <Leaves />;
}

/** With nothing selected: the leaves, to be edited. */
function Leaves() {
  const stage = useStage();
  const leaves = leavesOf(stage.graph.value);
  const { assumed, given, graph } = stage.scene.value;
  const opened = leavesOf(graph).map((leaf) => given[leaf]);
  const moved =
    !stage.change.value &&
    leaves.some((leaf, i) => !Object.is(stage.numbers.value.values[leaf], opened[i]));
  return (
    <>
      <h3>{say("inspect.leaves")}</h3>
      <p>{say("inspect.leavesAbout")}</p>
      <div class="leaves">
        {leaves.map((leaf) => (
          <label key={leaf}>
            <span class="name dragged" translate={false} {...draggable(stage, leaf)}>
              {stage.name(leaf)}
            </span>
            <LeafInput node={leaf} />
          </label>
        ))}
      </div>
      {moved && (
        <div class="row">
          <button type="button" onClick={() => stage.reset()}>
            {say("change.reset")}
          </button>
        </div>
      )}
      {assumed.length > 0 && (
        <p class="hint">{say("inspect.assumed", { names: stage.names(assumed) })}</p>
      )}
      <p class="hint">{say("inspect.nothing")}</p>
    </>
  );
}

function NodeDetails({ node }: { node: number }) {
  const stage = useStage();
  const numbers = stage.numbers.value;
  const { graph } = numbers;
  const { known, grads, arrived } = stage.standing.value;
  const leaf = graph.nodes[node]!.op === "";
  const grad = grads[node]!;
  const expected = stage.expected.value[node]!;
  const line = graph.nodes[node]!.line;
  const complete = grad !== null && arrived[node] === expected;
  return (
    <>
      <h3>{say(leaf ? "inspect.leaf" : "inspect.node", { name: stage.name(node) })}</h3>
      {!leaf && <Formula markup={nodeFormula(graph, node)} block />}
      <dl class="facts">
        <dt>{say("table.value")}</dt>
        <dd>
          {leaf ? (
            <LeafInput node={node} />
          ) : known[node] ? (
            shortNumber(numbers.values[node]!)
          ) : (
            "?"
          )}
        </dd>
        <dt>{say("table.grad")}</dt>
        <dd class={grad === null ? "" : signOf(grad)}>
          {grad === null ? say("inspect.noGrad") : signed(grad)}
          {grad !== null &&
            !complete &&
            ` ${say("node.partial", { arrived: arrived[node]!, expected })}`}
        </dd>
        {line && (
          <>
            <dt>{say("inspect.line")}</dt>
            <dd>
              <code translate={false}>{line[2] || `${line[0]}:${line[1]}`}</code>
            </dd>
          </>
        )}
      </dl>
      {leaf && complete && (
        <p>
          {say(`inspect.way.${wayDown(grad)}`, {
            name: stage.name(node),
            root: stage.name(graph.root),
          })}
        </p>
      )}
      {gatesOf(graph, node).map((gate) => (
        <p key={gate}>{say(`gate.${gate}.about`)}</p>
      ))}
      <OpenOrClose node={node} />
      <EdgeList title={say("inspect.inputs")} edges={edgesOf(graph, node)} to={(e) => e.source} />
      <EdgeList
        title={say("inspect.consumers")}
        edges={edgesInto(graph, node)}
        to={(e) => e.node}
      />
      <PathList node={node} />
    </>
  );
}

/** A composite op opens into what it is made of, and closes again. */
function OpenOrClose({ node }: { node: number }) {
  const stage = useStage();
  const made = stage.graph.value.nodes[node]!;
  const around = stage.opened.value.findLast(({ nodes }) => nodes.includes(node));
  return (
    <div class="row">
      {canExpand(made) && (
        <button type="button" onClick={() => stage.openNode(made.label)} data-open={made.label}>
          {say("inspect.open", { op: made.op })}
        </button>
      )}
      {around && (
        <button
          type="button"
          onClick={() => stage.closeNode(around.label)}
          data-close={around.label}
        >
          {say("inspect.close", { op: around.op })}
        </button>
      )}
    </div>
  );
}

function EdgeList(props: { title: string; edges: Edge[]; to: (edge: Edge) => number }) {
  const stage = useStage();
  if (!props.edges.length) return null;
  return (
    <>
      <h4>{props.title}</h4>
      <ul class="picks">
        {props.edges.map((edge) => (
          <li key={`${edge.node}.${edge.argument}`}>
            <Link onClick={() => stage.selectEdge(edge)}>
              {say("inspect.edgeTo", {
                name: stage.name(props.to(edge)) + operandText(stage, edge),
                local: shortNumber(stage.numbers.value.locals[edge.node]![edge.argument]!),
              })}
            </Link>
          </li>
        ))}
      </ul>
    </>
  );
}

function PathList({ node }: { node: number }) {
  const stage = useStage();
  const numbers = stage.numbers.value;
  if (node === numbers.graph.root || !numbers.reached[node]) return null;
  const { paths, count } = pathsTo(numbers, node, mostPaths);
  return (
    <>
      <h4>{say("inspect.paths", { count: Number(count) })}</h4>
      <PathPicks paths={paths} count={count} />
    </>
  );
}

function EdgeDetails({ edge }: { edge: Edge }) {
  const stage = useStage();
  const { graph, locals, grads } = stage.numbers.value;
  const { known, arrived } = stage.standing.value;
  const from = stage.name(edge.source);
  const to = stage.name(edge.node);
  const local = locals[edge.node]![edge.argument]!;
  const received = arrived[edge.node] === stage.expected.value[edge.node] && arrived[edge.node];
  const formula = localFormula(graph, edge);
  return (
    <>
      <h3>{say("inspect.edge", { from, to }) + operandText(stage, edge)}</h3>
      <p>{say("inspect.edgeAbout", { from, to })}</p>
      <p class="derivative" data-derivative={`${to}.${edge.argument}`}>
        <math {...asIs}>
          {mathElements([mathName(`∂${to}/∂${from}`), mathSign("=")])}
          {formula ? mathElements(formula) : <mtext>{say("inspect.noFormula")}</mtext>}
        </math>
        {known[edge.node] && (
          <math {...asIs}>
            <mo>=</mo>
            <mn class={signOf(local)} data-number={local}>
              {shortNumber(local)}
            </mn>
          </math>
        )}
      </p>
      {received ? (
        <p>
          {say("inspect.hands", {
            from,
            to,
            grad: shortNumber(grads[edge.node]!),
            local: shortNumber(local),
            amount: shortNumber(grads[edge.node]! * local),
          })}
        </p>
      ) : (
        <p class="hint">{say("inspect.handsLater", { to, from })}</p>
      )}
      <div class="row">
        <NodeLink node={edge.source} />
        <NodeLink node={edge.node} />
      </div>
      {/* Last: it loads by itself, and nothing moves when it comes. */}
      {!stage.byHand.value && <EdgeCurve edge={edge} />}
    </>
  );
}

function PathDetails({ path }: { path: Path }) {
  const stage = useStage();
  const end = nodesOn(path).at(-1)!;
  return (
    <>
      <h3>{say("inspect.path", { path: pathText(stage, path) })}</h3>
      <p class="product">
        {path.factors.map((factor, i) => (
          <span key={i}>
            {i > 0 && " × "}
            <span class={signOf(factor)}>{shortNumber(factor)}</span>
          </span>
        ))}
        {" = "}
        <strong class={signOf(path.product)} data-product={path.product}>
          {shortNumber(path.product)}
        </strong>
      </p>
      <p>{say("inspect.pathAbout", { name: stage.name(end) })}</p>
      <PathList node={end} />
    </>
  );
}
