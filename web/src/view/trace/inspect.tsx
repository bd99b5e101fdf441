// What is selected in a trace: an operation, a module, an edge. With nothing selected, all of it.

import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";

import { shortNumber } from "../../engine/numbers";
import { inputNames, ruleText } from "../../engine/rules";
import type { Edge } from "../../engine/types";
import { hasServer } from "../../state/server";
import { traceStage as stage } from "../../state/trace";
import { say } from "../../state/words";
import {
  attributeText,
  groupName,
  lineText,
  parameterCount,
  shapeText,
} from "../../trace/description";
import type { Item } from "../../trace/outline";
import { normText } from "../../trace/statistics";
import { Link } from "../parts";
import { EdgeArithmetic } from "./arithmetic";
import { AskPython } from "./ask";
import { FindingList, FindingText } from "./findings";
import { Choice, Fact, ItemLink, Picks } from "./pieces";
import { TensorView } from "./tensor";

const mostListed = 12;

export function TraceInspector() {
  const selection = stage.selection.value;
  if (!selection) return <Overview />;
  return (
    <>
      <p>
        <Link onClick={() => stage.select(null)}>‹ {say("trace.all")}</Link>
      </p>
      {selection.kind === "node" && <NodeDetails key={selection.node} node={selection.node} />}
      {selection.kind === "scope" && <ScopeDetails scope={selection.scope} />}
      {selection.kind === "edges" && <EdgeDetails edges={selection.edges} />}
    </>
  );
}

function Overview() {
  const { trace, outline } = stage.document.value!;
  return (
    <>
      <h3>{say("trace.overview")}</h3>
      {!hasServer && <p class="hint">{say("trace.replay")}</p>}
      <dl class="facts">
        <Fact word="trace.opsRecorded">
          <span data-operations>{outline.scopes[0]!.operations}</span>
        </Fact>
        <Fact word="trace.modules">{trace.groups.length}</Fact>
        <Fact word="trace.parameters">{parameterCount(trace)}</Fact>
        <Fact word="trace.sweeps">{String(trace.sweeps.length)}</Fact>
      </dl>
      <Choice
        label={say("trace.sweep")}
        value={stage.sweepIndex.value}
        options={trace.sweeps.map((_, i) => i + 1)}
        choose={(index) => {
          stage.jump(0);
          stage.sweepIndex.value = index;
        }}
      />
      {trace.reduced && <p class="hint">{say("trace.reduced")}</p>}
      <h3>{say(trace.comparison ? "trace.differences" : "trace.health")}</h3>
      <FindingList />
      {trace.comparison && <p class="hint">{say("trace.colours")}</p>}
      <p class="hint">{say("trace.hint")}</p>
    </>
  );
}

function NodeDetails({ node }: { node: number }) {
  const { op, args, attrs, metas, values, note, group, line } = stage.node(node);
  const output = useSignal(0);
  const at = output.value;
  const { shape, dtype } = metas[at]!;
  const value = values[at];
  const gradient = stage.gradient(node, at);
  const { computed, visited } = stage.times.value;
  const inputs = args.flatMap((arg, argument): Edge[] =>
    "node" in arg ? [{ node, argument, source: arg.node }] : [],
  );
  return (
    <>
      <h3 translate={false} data-selected={node}>
        {stage.name(node)}
      </h3>
      <dl class="facts">
        <Fact word="trace.op">
          {op ? <code translate={false}>{op + attributesOf(attrs)}</code> : say("node.leaf")}
        </Fact>
        <Fact word="trace.shape" name>
          {shapeText(shape) || "1"} <span class="soft">{dtype}</span>
        </Fact>
        <Fact word="trace.module" name>
          {group >= 0 && groupName(stage.trace.groups[group]!)}
        </Fact>
        <Fact word="inspect.line" name>
          {line && [<code>{line[2]}</code>, " ", <span class="soft">{lineText(line)}</span>]}
        </Fact>
        <Fact word="trace.noGradient" name>
          {note}
        </Fact>
        <CounterpartFact node={node} />
      </dl>
      <Choice
        label={say("trace.output")}
        value={at}
        options={metas.map((_, i) => i)}
        choose={(index) => (output.value = index)}
      />
      <div class="row">
        {op && (
          <button type="button" onClick={() => stage.jump(computed[node]!)}>
            {say("trace.toComputed")}
          </button>
        )}
        {Number.isFinite(visited[node]) && (
          <button type="button" onClick={() => stage.jump(visited[node]!)}>
            {say("trace.toVisit")}
          </button>
        )}
      </div>
      <ItemFindings item={{ node }} />
      {value && (
        <TensorView
          kept={value}
          title={say("trace.value")}
          what="value"
          element={at ? undefined : (index) => ({ node, part: "value", index })}
        />
      )}
      {gradient ? (
        <TensorView
          kept={gradient}
          title={say("trace.gradient")}
          what="gradient"
          element={at ? undefined : (index) => ({ node, part: "gradient", index })}
        />
      ) : (
        <p class="hint">{say("trace.nothingArrived")}</p>
      )}
      <EdgeLinks word="inspect.inputs" edges={inputs} to="source" />
      <EdgeLinks word="inspect.consumers" edges={stage.outline.consumers[node]!} to="node" />
      <AskPython node={node} output={at} />
    </>
  );
}

/** Where its counterpart in the other trace is, and how far they are apart. */
function CounterpartFact({ node }: { node: number }) {
  const found = stage.counterpart(node);
  if (!found || found.other < 0) return null;
  const { own, accumulated } = found;
  return (
    <Fact word="trace.counterpart">
      <ItemLink item={{ node: found.other }} />{" "}
      {!Number.isNaN(own) && (
        <span class="soft">
          {say("trace.errors", { own: shortNumber(own), accumulated: shortNumber(accumulated) })}
        </span>
      )}
    </Fact>
  );
}

function attributesOf(attrs: Record<string, unknown>): string {
  const parts = Object.entries(attrs)
    .slice(0, 8)
    .map(([name, value]) => `${name}=${attributeText(value)}`);
  return parts.length ? `(${parts.join(", ")})` : "";
}

function ItemFindings({ item }: { item: Item }) {
  const { broken, sick } = stage.marksAt(item);
  if (!broken && !sick.length) return null;
  return (
    <div class="mistake">
      {broken && <p>{say("trace.brokenHere")}</p>}
      {sick.map((finding, i) => (
        <FindingText key={i} finding={finding} />
      ))}
    </div>
  );
}

function EdgeLinks(props: { word: string; edges: Edge[]; to: "source" | "node" }) {
  if (!props.edges.length) return null;
  return (
    <>
      <h4>{say(props.word)}</h4>
      <Picks of={props.edges} most={mostListed}>
        {(edge) => {
          const pushed = stage.pushed(edge.node, edge.argument);
          return (
            <>
              <ItemLink item={{ node: edge[props.to] }} />
              <Link
                onClick={() => stage.select({ kind: "edges", edges: [edge] })}
                data-to-edge={`${edge.node}.${edge.argument}`}
              >
                {pushed ? say("trace.handed", { norm: normText(pushed) }) : say("trace.edge")}
              </Link>
            </>
          );
        }}
      </Picks>
    </>
  );
}

function ScopeDetails({ scope }: { scope: number }) {
  const { group, items, operations } = stage.outline.scopes[scope]!;
  const made = stage.trace.groups[group];
  return (
    <>
      <h3 translate={false} data-selected-scope={scope}>
        {made ? groupName(made) : stage.scopeName(scope)}
      </h3>
      <dl class="facts">
        <Fact word="trace.module" name>
          {made?.className}
        </Fact>
        <Fact word="trace.opsInside">{operations}</Fact>
      </dl>
      <ItemFindings item={{ scope }} />
      <h4>{say("trace.inside")}</h4>
      <Picks of={items} most={2 * mostListed}>
        {(item) => <ItemLink item={item} />}
      </Picks>
    </>
  );
}

function EdgeDetails({ edges }: { edges: Edge[] }) {
  const chosen = useSignal(0);
  useEffect(() => {
    chosen.value = 0;
  }, [edges]);
  const { node, source, argument } = edges[chosen.value] ?? edges[0]!;
  const { op, args, attrs } = stage.node(node);
  const [from, to] = [stage.name(source), stage.name(node)];
  const names = args.map((arg, i) => {
    if ("node" in arg) return stage.name(arg.node);
    const [number, more] = arg.constant?.elements ?? [];
    return number === undefined || more !== undefined
      ? (inputNames(op)[i] ?? "·")
      : shortNumber(number);
  });
  const numbers = Object.fromEntries(
    Object.entries(attrs).filter(([, value]) => typeof value === "number"),
  );
  const rule = ruleText(op, argument, names, to, numbers as Record<string, number>);
  const pushed = stage.pushed(node, argument);
  return (
    <>
      <h3>{say("inspect.edge", { from, to })}</h3>
      <Choice
        label={say("trace.edgeOf", { count: edges.length })}
        value={chosen.value}
        options={edges.slice(0, 60).map((one) => stage.name(one.node))}
        choose={(index) => (chosen.value = index)}
      />
      <p>{say("trace.ruleAbout", { from, to })}</p>
      {rule ? (
        <p class="vjp" translate={false} data-rule={`${node}.${argument}`}>
          {rule}
        </p>
      ) : (
        <p class="hint">{say("inspect.noFormula")}</p>
      )}
      <EdgeArithmetic edge={{ node, source, argument }} />
      {pushed ? (
        <TensorView kept={pushed} title={say("trace.handedBack")} what="pushed" />
      ) : (
        <p class="hint">{say("trace.nothingHanded")}</p>
      )}
      <div class="row">
        <ItemLink item={{ node: source }} />
        <ItemLink item={{ node }} />
      </div>
    </>
  );
}
