// One edge of the drawing: it leads from an input to its consumer; gradients go back along it. Its
// width is the size of what was handed back, its colour and its dashes the sign.

import { effectText } from "../engine/formulas";
import { sameEdge } from "../engine/graph";
import { shortNumber } from "../engine/numbers";
import type { Edge, Step } from "../engine/types";
import type { Placed, Point } from "../layout/labels";
import type { Line } from "../layout/sheet";
import { strokeOf } from "../layout/strokes";
import { say } from "../state/words";
import { asButton } from "./parts";
import { asIs, classNames, signed, signOf } from "./text";
import { useStage } from "./stage";

export function EdgeView({ line, down }: { line: Line; down: boolean }) {
  const stage = useStage();
  const { edge } = line;
  const graph = stage.graph.value;
  const { known: knownNodes, locals, pushed } = stage.standing.value;
  const known =
    stage.shows.value !== "values" &&
    (locals ? locals[edge.node]![edge.argument]! : knownNodes[edge.node]!);
  const local = stage.numbers.value.locals[edge.node]![edge.argument]!;
  const onEdges = stage.drawing.value === "edges";
  const done = pushed?.[edge.node]![edge.argument];
  const next = handed(stage.next.value, edge);
  const now = handed(stage.current.value, edge);
  // What is on its way is a token; it is written here when it has landed.
  const flying = now !== undefined && stage.flight.value?.undone === false;
  const arrived = flying ? stage.inSight.value.pushed?.[edge.node]![edge.argument] : done;
  const selection = stage.selection.value;
  const isAmong = (edges: Edge[]): boolean => edges.some((one) => sameEdge(one, edge));
  const onPath = selection?.kind === "path" && isAmong(selection.path.edges);
  const chosen = selection?.kind === "edge" && sameEdge(selection.edge, edge);
  const classes = classNames({
    edge: true,
    later: !known,
    now: now !== undefined,
    next: next !== undefined,
    selected: chosen || onPath,
    path: onPath,
    lost: isAmong(stage.lost.value),
    [arrived === undefined ? "waiting" : signOf(arrived)]: true,
  });
  const from = stage.name(edge.source);
  const to = stage.name(edge.node);
  const label = known ? (onEdges ? effectText(graph, edge) : `×${shortNumber(local)}`) : "";
  const spoken = [
    say("edge.of", { from, to, argument: edge.argument + 1 }),
    known ? say("edge.localIs", { local: shortNumber(local) }) : "",
    done !== undefined ? say("edge.pushed", { amount: shortNumber(done) }) : "",
    next !== undefined ? say("edge.willPush", { amount: shortNumber(next) }) : "",
  ];
  const { width, opacity } = arrived === undefined ? { width: 1.6, opacity: 1 } : strokeOf(arrived);
  const atSource =
    flying || (arrived === undefined && next === undefined)
      ? ""
      : now !== undefined
        ? say("edge.lands", { amount: signed(now) })
        : arrived !== undefined
          ? signed(arrived)
          : say("edge.ghost", { amount: signed(next!) });
  return (
    <g class={classes} style={{ "--width": `${width}px`, "--solid": opacity }}>
      <path
        class="reach"
        d={line.curve}
        {...asButton(() => stage.pick({ kind: "edge", edge }))}
        aria-pressed={chosen}
        aria-label={spoken.filter(Boolean).join(", ")}
        data-edge={`${to}.${edge.argument}`}
        data-local={known ? local : ""}
        data-pushed={done ?? ""}
        data-next={next ?? ""}
      />
      <g aria-hidden="true">
        <path class="halo" d={line.curve} />
        <path class="line" d={line.curve} />
        <path class="tip" d={tip(line.to, down, 8)} />
        {(arrived !== undefined || next !== undefined) && (
          <path class="tip back" d={tip(line.from, down, -7 - width)} />
        )}
        {label && (
          <EdgeText spot={line.local} kind={`local ${signOf(local)}`} end="to" down={down}>
            {label}
          </EdgeText>
        )}
        {atSource && (
          <EdgeText
            spot={line.pushed}
            kind={`pushed ${signOf(arrived ?? next ?? 0)}`}
            end="from"
            down={down}
          >
            {atSource}
          </EdgeText>
        )}
      </g>
    </g>
  );
}

/** A text beside an edge, at its end of the room it has; crowded ones come when asked for. */
function EdgeText(props: {
  spot: Placed;
  kind: string;
  end: "from" | "to";
  down: boolean;
  children: string;
}) {
  const { x, y, width, clear } = props.spot;
  const atEnd = props.end === "to" && !props.down;
  return (
    <text
      {...asIs}
      class={`${props.kind}${clear ? "" : " crowded"}`}
      x={atEnd ? x + width : x}
      y={y + 11.5}
      text-anchor={atEnd ? "end" : "start"}
    >
      {props.children}
    </text>
  );
}

/** The head of an arrow: it points along the edge, or against it if `size` is negative. */
function tip({ x, y }: Point, down: boolean, size: number): string {
  const half = Math.abs(size) / 2;
  return down
    ? `M${x} ${y}l${-half} ${-size}h${2 * half}z`
    : `M${x} ${y}l${-size} ${-half}v${2 * half}z`;
}

/** What a step hands along an edge; undefined if nothing. */
function handed(step: Step | undefined, edge: Edge): number | undefined {
  if (step?.phase !== "backward" || step.node !== edge.node) return undefined;
  return step.pushes.find((push) => push.edge.argument === edge.argument)?.amount;
}
