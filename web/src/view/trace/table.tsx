// A trace as a table: one module at a time, with the way up and down.

import { useSignal } from "@preact/signals";

import { traceStage as stage } from "../../state/trace";
import { say } from "../../state/words";
import { shapeText } from "../../trace/description";
import { type Item, wayTo } from "../../trace/outline";
import { normText } from "../../trace/statistics";
import { Link, Scroll, Table } from "../parts";

const most = 40; // rows at once
const columns = ["node", "op", "shape", "norm", "gradientNorm", "marks"];

export function TraceTable() {
  const scope = useSignal(0);
  const from = useSignal(0);
  const at = scope.value < stage.outline.scopes.length ? scope.value : 0;
  const { items } = stage.outline.scopes[at]!;
  const go = (wanted: number): void => {
    scope.value = wanted;
    from.value = 0;
  };
  const turn = (word: string, by: number) => (
    <button
      type="button"
      aria-disabled={!items[from.value + by]}
      onClick={() => items[from.value + by] && (from.value += by)}
    >
      {say(word)}
    </button>
  );
  return (
    <Scroll class="tables" label={say("view.table")}>
      <nav aria-label={say("trace.way")} class="row">
        {wayTo(stage.outline, at).map((above) => (
          <Link
            key={above}
            aria-current={above === at ? "location" : undefined}
            onClick={() => go(above)}
          >
            {above ? <span translate={false}>{stage.scopeName(above)}</span> : say("trace.all")}
          </Link>
        ))}
      </nav>
      <Table
        class="nodes"
        caption={say("trace.inside")}
        columns={columns.map((name) => `trace.column.${name}`)}
      >
        {items.slice(from.value, from.value + most).map((item, i) => (
          <Row key={i} item={item} go={go} />
        ))}
      </Table>
      {items.length > most && (
        <div class="row">
          {turn("trace.earlier", -most)}
          {turn("trace.later", most)}
          <span>
            {say("trace.rows", {
              first: from.value + 1,
              last: Math.min(from.value + most, items.length),
              count: items.length,
            })}
          </span>
        </div>
      )}
    </Scroll>
  );
}

function Row({ item, go }: { item: Item; go: (scope: number) => void }) {
  const { broken, sick } = stage.marksAt(item);
  const marks = (
    <td>
      {broken && <span class="broken">{say("trace.broken")}</span>}
      {sick.length > 0 && <span class="sick">{say("trace.findings", { count: sick.length })}</span>}
    </td>
  );
  if ("scope" in item) {
    const { group, operations } = stage.outline.scopes[item.scope]!;
    return (
      <tr data-row-scope={item.scope}>
        <th scope="row">
          <Link onClick={() => go(item.scope)}>
            ▸ <span translate={false}>{stage.scopeName(item.scope)}</span>
          </Link>
        </th>
        <td translate={false}>{stage.trace.groups[group]?.className}</td>
        <td colSpan={3}>{say("trace.operations", { count: operations })}</td>
        {marks}
      </tr>
    );
  }
  const { node } = item;
  const { op, metas, values } = stage.node(node);
  return (
    <tr class={stage.current.value?.node === node ? "now" : ""} data-row={stage.name(node)}>
      <th scope="row">
        <Link translate={false} onClick={() => stage.select({ kind: "node", node })}>
          {stage.name(node)}
        </Link>
      </th>
      <td translate={!op}>{op || say("node.leaf")}</td>
      <td translate={false}>{shapeText(metas[0]!.shape) || "1"}</td>
      <td>{stage.isKnown(node) ? normText(values[0]) : "?"}</td>
      <td>{stage.isComplete(node) ? normText(stage.gradient(node)) : "·"}</td>
      {marks}
    </tr>
  );
}
