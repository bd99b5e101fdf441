// The same content as the drawing, as tables: for screen readers, and for whoever prefers rows.

import { effectText, expressionText, gatesOf, localText } from "../engine/formulas";
import { edgesOf } from "../engine/graph";
import { shortNumber } from "../engine/numbers";
import { wayDown } from "../state/narrate";
import { say } from "../state/words";
import { LeafInput } from "./leaf";
import { EdgeLink, NodeLink, Scroll, Table } from "./parts";
import { signed } from "./text";
import { useStage } from "./stage";

const named = (name: string): string => `table.${name}`;
const nodeColumns = ["node", "made", "value", "grad", "gates"].map(named);
const edgeColumns = ["edge", "does", "local", "number", "pushed"].map(named);

export function TableView() {
  const stage = useStage();
  const graph = stage.graph.value;
  const { values, locals } = stage.numbers.value;
  const { known, locals: seen, grads, arrived, open, pushed } = stage.standing.value;
  return (
    <Scroll class="tables" label={say("view.table")}>
      <Table class="nodes" caption={say("table.nodes")} columns={nodeColumns}>
        {graph.nodes.map((node, i) => {
          const grad = grads[i]!;
          const expected = stage.expected.value[i]!;
          const partial = grad !== null && arrived[i]! < expected;
          return (
            <tr
              key={i}
              class={stage.current.value?.node === i ? "now" : ""}
              data-row={node.label}
              data-value={known[i] ? values[i] : ""}
              data-grad={grad ?? ""}
            >
              <th scope="row">
                <NodeLink node={i} />
              </th>
              <td translate={!node.op}>{node.op ? expressionText(graph, i) : say("node.leaf")}</td>
              <td>
                {!node.op ? <LeafInput node={i} /> : known[i] ? shortNumber(values[i]!) : "?"}
              </td>
              <td>
                {grad === null ? (open?.[i] ? "?" : "·") : signed(grad)}
                {partial && ` ${say("node.partial", { arrived: arrived[i]!, expected })}`}
                {grad !== null &&
                  !partial &&
                  !node.op &&
                  ` ${say(`node.way.${wayDown(grad)}`)}`}
              </td>
              <td>
                {gatesOf(graph, i)
                  .map((gate) => say(`gate.${gate}`))
                  .join(", ")}
              </td>
            </tr>
          );
        })}
      </Table>
      <Table class="edges" caption={say("table.edges")} columns={edgeColumns}>
        {graph.nodes.flatMap((_, i) =>
          edgesOf(graph, i).map((edge) => {
            const amount = pushed?.[i]![edge.argument];
            return (
              <tr key={`${i}.${edge.argument}`}>
                <th scope="row">
                  <EdgeLink edge={edge} />
                </th>
                <td translate={false}>{effectText(graph, edge)}</td>
                <td translate={false}>{localText(graph, edge)}</td>
                <td>
                  {(seen ? seen[i]![edge.argument] : known[i])
                    ? shortNumber(locals[i]![edge.argument]!)
                    : "?"}
                </td>
                <td>{amount === undefined ? "·" : signed(amount)}</td>
              </tr>
            );
          }),
        )}
      </Table>
    </Scroll>
  );
}
