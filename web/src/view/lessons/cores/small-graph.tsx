// A small graph whose nodes and edges can be picked, for cores that walk it in a way of their own.
// Where it is narrow, the inputs stand above and the root below.

import { useSignal } from "@preact/signals";
import { useEffect, useMemo, useRef } from "preact/hooks";

import { sameEdge } from "../../../engine/graph";
import type { Edge, Graph } from "../../../engine/types";
import { type Line, sheetOf } from "../../../layout/sheet";
import { say } from "../../../state/words";
import { asButton, Scroll } from "../../parts";
import { asIs, classNames, drawnOp, within } from "../../text";

export interface NodeLook {
  value: string; // below its name
  below?: string; // a third line
  spoken: string;
  class?: string;
  pick?: () => void;
}

export interface EdgeLook {
  text?: string; // near its consumer
  spoken?: string;
  class?: string;
  pick?: () => void;
}

/** A number on its way back along an edge. */
export interface Token {
  edge: Edge;
  text: string;
}

interface Looks {
  label: string;
  graph: Graph;
  node: (node: number) => NodeLook;
  edge?: (edge: Edge) => EdgeLook;
  there?: (node: number) => boolean; // nodes that are not yet have their place kept
  tall?: boolean; // room for the third line
  token?: Token | null;
}

const boxWidth = 92;
const narrow = 560;
const margin = 12;
const letter = 8.4;

export function SmallGraph(props: Looks) {
  const { graph, there = () => true } = props;
  const frame = useRef<HTMLDivElement>(null);
  const down = useSignal(false);
  useEffect(() => {
    const watcher = new ResizeObserver(() => {
      down.value = frame.current!.clientWidth < narrow;
    });
    watcher.observe(frame.current!);
    return () => watcher.disconnect();
  }, []);
  const boxHeight = props.tall ? 62 : 46;
  const sheet = useMemo(() => {
    const texts = { local: 5 * letter, pushed: 0, stroke: 2 };
    const spaces = down.value ? { gap: 48, rows: 20 } : { gap: 84, rows: 22 };
    const measures = { boxWidth, boxHeight, ...spaces, down: down.value, textHeight: 16 };
    return sheetOf(graph, measures, () => texts);
  }, [graph, down.value, boxHeight]);
  const width = sheet.width + 2 * margin;
  const height = sheet.height + 2 * margin;
  const shown = sheet.lines.filter(({ edge }) => there(edge.node));
  const carried = props.token && shown.find(({ edge }) => sameEdge(edge, props.token!.edge));
  return (
    <div ref={frame}>
      <Scroll label={props.label} class="small-graph">
        <svg
          viewBox={`${-margin} ${-margin} ${width} ${height}`}
          style={{ inlineSize: `${width * 1.15}px`, minInlineSize: `${width * 0.8}px` }}
          role="group"
          aria-label={say("core.graph", { root: graph.nodes[graph.root]!.label })}
        >
          {shown.map((line) => (
            <SmallEdge
              key={`${line.edge.node}.${line.edge.argument}`}
              line={line}
              down={down.value}
              name={`${graph.nodes[line.edge.node]!.label}.${line.edge.argument}`}
              look={props.edge?.(line.edge) ?? {}}
            />
          ))}
          {sheet.boxes
            .filter(({ node }) => there(node))
            .map(({ node, x, y }) => (
              <g key={node} transform={`translate(${x} ${y})`}>
                <SmallNode graph={graph} node={node} height={boxHeight} look={props.node(node)} />
              </g>
            ))}
          {carried && <Carried line={carried} text={props.token!.text} />}
        </svg>
      </Scroll>
    </div>
  );
}

function SmallEdge(props: { line: Line; down: boolean; name: string; look: EdgeLook }) {
  const { look, down } = props;
  const { curve, to, local } = props.line;
  const tip = down ? `M${to.x} ${to.y}l-4 -8h8z` : `M${to.x} ${to.y}l-8 -4v8z`;
  return (
    <g class={`edge ${look.class ?? ""}`}>
      {look.pick && (
        <path
          class="reach"
          d={curve}
          {...asButton(look.pick)}
          aria-label={look.spoken}
          data-edge={props.name}
        />
      )}
      <g aria-hidden="true">
        <path class="line" d={curve} />
        <path class="tip" d={tip} />
        {look.text && (
          <text
            {...asIs}
            class="local"
            x={down ? local.x : local.x + local.width}
            y={local.y + 13}
            text-anchor={down ? "start" : "end"}
          >
            {look.text}
          </text>
        )}
      </g>
    </g>
  );
}

function SmallNode(props: { graph: Graph; node: number; height: number; look: NodeLook }) {
  const { graph, node, look } = props;
  const { label, op } = graph.nodes[node]!;
  const room = boxWidth - 16;
  const names = { node: true, leaf: !op, [look.class ?? ""]: Boolean(look.class) };
  return (
    <g class={classNames(names)}>
      <rect
        class="box"
        width={boxWidth}
        height={props.height}
        rx={10}
        {...(look.pick ? asButton(look.pick) : { role: "img" })}
        aria-label={look.spoken}
        data-small={label}
      />
      <g aria-hidden="true">
        <text {...asIs} class="name" x={9} y={19}>
          {label}
        </text>
        <text {...asIs} class="sign" x={boxWidth - 9} y={19} text-anchor="end">
          {op ? drawnOp(graph, node) : ""}
        </text>
        <text class="value" x={9} y={37} {...within(look.value, room, letter)}>
          {look.value}
        </text>
        {look.below && (
          <text class="below-value" x={9} y={55} {...within(look.below, room, letter)}>
            {look.below}
          </text>
        )}
      </g>
    </g>
  );
}

function Carried({ line, text }: { line: Line; text: string }) {
  const { node, argument } = line.edge;
  return (
    <g
      key={`${node}.${argument}`}
      class="token carried"
      style={{ offsetPath: `path("${line.curve}")` }}
      aria-hidden="true"
    >
      <rect x={-25} y={-13} width={50} height={26} rx={13} />
      <text y={5} text-anchor="middle" {...within(text, 44, letter)}>
        {text}
      </text>
    </g>
  );
}
