// What is selected in a trace: an operation, a module, an edge. With nothing selected, all of it.

import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";

import { inputNames, ruleText } from "../../engine/rules";
import type { Edge } from "../../engine/types";
import { traceStage as stage } from "../../state/trace";
import { say } from "../../state/words";
import { attributeText, groupName, shapeText } from "../../trace/description";
import { normText } from "../../trace/statistics";
import { shortNumber } from "../../engine/numbers";
import { AskPython } from "./ask";
import { FindingList } from "./findings";
import { TensorView } from "./tensor";

const mostListed = 12;

export function TraceInspector() {
  const selection = stage.selection.value;
  if (!selection) return <Overview />;
  return (
    <>
      <p>
        <button type="button" class="link" onClick={() => stage.select(null)}>
          ‹ {say("trace.all")}
        </button>
      </p>
      {selection.kind === "node" && <NodeDetails key={selection.node} node={selection.node} />}
      {selection.kind === "scope" && <ScopeDetails scope={selection.scope} />}
      {selection.kind === "edges" && <EdgeDetails edges={selection.edges} />}
    </>
  );
}

function Overview() {
  const { trace, outline } = stage.document.value!;
  const parameters = trace.names.size;
  return (
    <>
      <h3>{say("trace.overview")}</h3>
      <dl class="facts">
        <dt>{say("trace.opsRecorded")}</dt>
        <dd data-operations>{outline.scopes[0]!.operations}</dd>
        {trace.groups.length > 0 && (
          <>
            <dt>{say("trace.modules")}</dt>
            <dd>{trace.groups.length}</dd>
          </>
        )}
        {parameters > 0 && (
          <>
            <dt>{say("trace.parameters")}</dt>
            <dd>{parameters}</dd>
          </>
        )}
        <dt>{say("trace.sweeps")}</dt>
        <dd>{trace.sweeps.length}</dd>
      </dl>
      {trace.sweeps.length > 1 && <SweepChoice />}
      {trace.reduced && <p class="hint">{say("trace.reduced")}</p>}
      <h3>{say("trace.health")}</h3>
      <FindingList />
      <p class="hint">{say("trace.hint")}</p>
    </>
  );
}

/** Which backward pass is walked. */
function SweepChoice() {
  return (
    <label class="row">
      <span>{say("trace.sweep")}</span>
      <select
        value={String(stage.sweepIndex.value)}
        onChange={(event) => {
          stage.jump(0);
          stage.sweepIndex.value = Number(event.currentTarget.value);
        }}
      >
        {stage.trace.sweeps.map((_, i) => (
          <option key={i} value={String(i)}>
            {i + 1}
          </option>
        ))}
      </select>
    </label>
  );
}

function NodeDetails({ node }: { node: number }) {
  const { op, args, attrs, metas, values, note, group, line } = stage.node(node);
  const output = useSignal(0);
  const at = Math.min(output.value, metas.length - 1);
  const meta = metas[at]!;
  const value = values[at];
  const gradient = stage.gradient(node, at);
  const steps = stage.stepsAt(node);
  const inputs = args.flatMap((arg, argument): Edge[] =>
    "node" in arg ? [{ node, argument, source: arg.node }] : [],
  );
  return (
    <>
      <h3 translate={false} data-selected={node}>
        {stage.name(node)}
      </h3>
      <dl class="facts">
        <dt>{say("trace.op")}</dt>
        <dd>
          {op ? (
            <code translate={false}>
              {op}
              {attributesOf(attrs)}
            </code>
          ) : (
            say("node.leaf")
          )}
        </dd>
        <dt>{say("trace.shape")}</dt>
        <dd translate={false}>
          {shapeText(meta.shape) || "1"} <span class="soft">{meta.dtype}</span>
        </dd>
        {group >= 0 && (
          <>
            <dt>{say("trace.module")}</dt>
            <dd translate={false}>{groupName(stage.trace.groups[group]!)}</dd>
          </>
        )}
        {line && (
          <>
            <dt>{say("inspect.line")}</dt>
            <dd>
              <code translate={false}>{line[2]}</code>{" "}
              <span class="soft" translate={false}>
                {fileName(line[0])}:{line[1]}
              </span>
            </dd>
          </>
        )}
        {note && (
          <>
            <dt>{say("trace.noGradient")}</dt>
            <dd translate={false}>{note}</dd>
          </>
        )}
      </dl>
      {metas.length > 1 && (
        <label class="row">
          <span>{say("trace.output")}</span>
          <select
            value={String(at)}
            onChange={(event) => (output.value = Number(event.currentTarget.value))}
          >
            {metas.map((_, i) => (
              <option key={i} value={String(i)}>
                {i}
              </option>
            ))}
          </select>
        </label>
      )}
      <div class="row">
        {op && (
          <button type="button" onClick={() => stage.jump(steps.computed)}>
            {say("trace.toComputed")}
          </button>
        )}
        {Number.isFinite(steps.visited) && (
          <button type="button" onClick={() => stage.jump(steps.visited)} data-to-visit>
            {say("trace.toVisit")}
          </button>
        )}
      </div>
      <NodeFindings node={node} />
      {value && <TensorView kept={value} title={say("trace.value")} what="value" />}
      {gradient ? (
        <TensorView kept={gradient} title={say("trace.gradient")} what="gradient" />
      ) : (
        <p class="hint">{say("trace.nothingArrived")}</p>
      )}
      <EdgeLinks title={say("inspect.inputs")} edges={inputs} to={(edge) => edge.source} />
      <EdgeLinks
        title={say("inspect.consumers")}
        edges={stage.outline.consumers[node]!}
        to={(edge) => edge.node}
      />
      <AskPython node={node} output={at} />
    </>
  );
}

function attributesOf(attrs: Record<string, unknown>): string {
  const parts = Object.entries(attrs)
    .slice(0, 8)
    .map(([name, value]) => `${name}=${attributeText(value)}`);
  return parts.length ? `(${parts.join(", ")})` : "";
}

const fileName = (path: string): string => path.split(/[\\/]/).at(-1)!;

function NodeFindings({ node }: { node: number }) {
  const found = stage.marks.value.sick.get(node) ?? [];
  if (!found.length && !stage.marks.value.broken.has(node)) return null;
  return (
    <div class="mistake">
      {stage.marks.value.broken.has(node) && <p>{say("trace.brokenHere")}</p>}
      {found.map(({ text, fix }, i) => (
        <div key={i} translate={false}>
          <p>{text}</p>
          <p class="hint">{fix}</p>
        </div>
      ))}
    </div>
  );
}

function EdgeLinks(props: { title: string; edges: Edge[]; to: (edge: Edge) => number }) {
  if (!props.edges.length) return null;
  return (
    <>
      <h4>{props.title}</h4>
      <ul class="picks">
        {props.edges.slice(0, mostListed).map((edge) => {
          const pushed = stage.pushed(edge.node, edge.argument);
          return (
            <li key={`${edge.node}.${edge.argument}`}>
              <button
                type="button"
                class="link"
                translate={false}
                onClick={() => stage.reveal({ node: props.to(edge) })}
                data-to-node={props.to(edge)}
              >
                {stage.name(props.to(edge))}
              </button>
              <button
                type="button"
                class="link"
                onClick={() => stage.select({ kind: "edges", edges: [edge] })}
                data-to-edge={`${edge.node}.${edge.argument}`}
              >
                {pushed ? say("trace.handed", { norm: normText(pushed) }) : say("trace.edge")}
              </button>
            </li>
          );
        })}
      </ul>
      {props.edges.length > mostListed && (
        <p class="hint">{say("trace.more", { count: props.edges.length - mostListed })}</p>
      )}
    </>
  );
}

function ScopeDetails({ scope }: { scope: number }) {
  const { group, items, operations, first, last } = stage.outline.scopes[scope]!;
  const made = group < 0 ? undefined : stage.trace.groups[group];
  const findings = [...(stage.marks.value.scopes.get(scope)?.sick ?? [])];
  return (
    <>
      <h3 translate={false} data-selected-scope={scope}>
        {made ? groupName(made) : `${first}–${last}`}
      </h3>
      <dl class="facts">
        {made && (
          <>
            <dt>{say("trace.module")}</dt>
            <dd translate={false}>{made.className}</dd>
          </>
        )}
        <dt>{say("trace.opsInside")}</dt>
        <dd>{operations}</dd>
      </dl>
      {findings.map(({ text }, i) => (
        <p key={i} class="mistake" translate={false}>
          {text}
        </p>
      ))}
      <h4>{say("trace.inside")}</h4>
      <ul class="picks">
        {items.slice(0, 2 * mostListed).map((item, i) => (
          <li key={i}>
            <button type="button" class="link" translate={false} onClick={() => stage.reveal(item)}>
              {"node" in item ? stage.name(item.node) : `▸ ${stage.scopeName(item.scope)}`}
            </button>
          </li>
        ))}
      </ul>
      {items.length > 2 * mostListed && (
        <p class="hint">{say("trace.more", { count: items.length - 2 * mostListed })}</p>
      )}
    </>
  );
}

function EdgeDetails({ edges }: { edges: Edge[] }) {
  const chosen = useSignal(0);
  useEffect(() => {
    chosen.value = 0;
  }, [edges]);
  const edge = edges[Math.min(chosen.value, edges.length - 1)]!;
  const { op, args, attrs } = stage.node(edge.node);
  const from = stage.name(edge.source);
  const to = stage.name(edge.node);
  const names = args.map((arg, i) =>
    "node" in arg
      ? stage.name(arg.node)
      : (shortConstant(arg.constant?.elements) ?? inputNames(op)[i] ?? "·"),
  );
  const numbers = Object.fromEntries(
    Object.entries(attrs).filter(([, value]) => typeof value === "number"),
  );
  const rule = ruleText(op, edge.argument, names, to, numbers as Record<string, number>);
  const pushed = stage.pushed(edge.node, edge.argument);
  return (
    <>
      <h3>{say("inspect.edge", { from, to })}</h3>
      {edges.length > 1 && (
        <label class="row">
          <span>{say("trace.edgeOf", { count: edges.length })}</span>
          <select
            value={String(chosen.value)}
            onChange={(event) => (chosen.value = Number(event.currentTarget.value))}
          >
            {edges.slice(0, 60).map((one, i) => (
              <option key={i} value={String(i)}>
                {stage.name(one.node)}
              </option>
            ))}
          </select>
        </label>
      )}
      <p>{say("trace.ruleAbout", { from, to })}</p>
      {rule ? (
        <p class="vjp" translate={false} data-rule={`${edge.node}.${edge.argument}`}>
          {rule}
        </p>
      ) : (
        <p class="hint">{say("inspect.noFormula")}</p>
      )}
      {pushed ? (
        <TensorView kept={pushed} title={say("trace.handedBack")} what="pushed" />
      ) : (
        <p class="hint">{say("trace.nothingHanded")}</p>
      )}
      <div class="row">
        <button
          type="button"
          class="link"
          translate={false}
          onClick={() => stage.reveal({ node: edge.source })}
        >
          {from}
        </button>
        <button
          type="button"
          class="link"
          translate={false}
          onClick={() => stage.reveal({ node: edge.node })}
        >
          {to}
        </button>
      </div>
    </>
  );
}

function shortConstant(elements: number[] | undefined): string | undefined {
  return elements?.length === 1 ? shortNumber(elements[0]!) : undefined;
}
