// A trace as a table: one module at a time, with the way up and down.

import { useSignal } from "@preact/signals";

import { traceStage as stage } from "../../state/trace";
import { say } from "../../state/words";
import { shapeText } from "../../trace/description";
import { type Item, wayTo } from "../../trace/outline";
import { normText } from "../../trace/statistics";

const most = 40; // rows at once

export function TraceTable() {
  const scope = useSignal(0);
  const from = useSignal(0);
  const at = scope.value < stage.outline.scopes.length ? scope.value : 0;
  const { items } = stage.outline.scopes[at]!;
  const go = (wanted: number): void => {
    scope.value = wanted;
    from.value = 0;
  };
  const columns = ["node", "op", "shape", "norm", "gradientNorm", "marks"].map((name) => (
    <th key={name} scope="col">
      {say(`trace.column.${name}`)}
    </th>
  ));
  return (
    <div class="tables scroll" tabindex={0} role="group" aria-label={say("view.table")}>
      <nav aria-label={say("trace.way")} class="row">
        {wayTo(stage.outline, at).map((above) => (
          <button
            key={above}
            type="button"
            class="link"
            aria-current={above === at ? "location" : undefined}
            onClick={() => go(above)}
          >
            {above === 0 ? (
              say("trace.all")
            ) : (
              <span translate={false}>{stage.scopeName(above)}</span>
            )}
          </button>
        ))}
      </nav>
      <table class="nodes">
        <caption>{say("trace.inside")}</caption>
        <thead>
          <tr>{columns}</tr>
        </thead>
        <tbody>
          {items.slice(from.value, from.value + most).map((item, i) => (
            <Row key={i} item={item} go={go} />
          ))}
        </tbody>
      </table>
      {items.length > most && (
        <div class="row">
          <button
            type="button"
            aria-disabled={from.value === 0}
            onClick={() => (from.value = Math.max(0, from.value - most))}
          >
            {say("trace.earlier")}
          </button>
          <button
            type="button"
            aria-disabled={from.value + most >= items.length}
            onClick={() => from.value + most < items.length && (from.value += most)}
          >
            {say("trace.later")}
          </button>
          <span>
            {say("trace.rows", {
              first: from.value + 1,
              last: Math.min(from.value + most, items.length),
              count: items.length,
            })}
          </span>
        </div>
      )}
    </div>
  );
}

function Row({ item, go }: { item: Item; go: (scope: number) => void }) {
  if ("scope" in item) {
    const { group, operations } = stage.outline.scopes[item.scope]!;
    const { broken = 0, sick } = stage.marks.value.scopes.get(item.scope) ?? {};
    return (
      <tr data-row-scope={item.scope}>
        <th scope="row">
          <button type="button" class="link" onClick={() => go(item.scope)}>
            ▸ <span translate={false}>{stage.scopeName(item.scope)}</span>
          </button>
        </th>
        <td translate={false}>{stage.trace.groups[group]?.className}</td>
        <td colSpan={3}>{say("trace.operations", { count: operations })}</td>
        <td>
          <Marks broken={broken > 0} sick={sick?.size ?? 0} />
        </td>
      </tr>
    );
  }
  const { node } = item;
  const { op, metas, values } = stage.node(node);
  return (
    <tr class={stage.current.value?.node === node ? "now" : ""} data-row={stage.name(node)}>
      <th scope="row">
        <button
          type="button"
          class="link"
          translate={false}
          onClick={() => stage.select({ kind: "node", node })}
        >
          {stage.name(node)}
        </button>
      </th>
      <td>{op ? <span translate={false}>{op}</span> : say("node.leaf")}</td>
      <td translate={false}>{shapeText(metas[0]!.shape) || "1"}</td>
      <td>{stage.isKnown(node) ? normText(values[0]) : "?"}</td>
      <td>{stage.isComplete(node) ? normText(stage.gradient(node)) : "·"}</td>
      <td>
        <Marks
          broken={stage.marks.value.broken.has(node)}
          sick={stage.marks.value.sick.get(node)?.length ?? 0}
        />
      </td>
    </tr>
  );
}

function Marks({ broken, sick }: { broken: boolean; sick: number }) {
  return (
    <>
      {broken && <span class="broken">{say("trace.broken")}</span>}
      {sick > 0 && <span class="sick">{say("trace.findings", { count: sick })}</span>}
    </>
  );
}
