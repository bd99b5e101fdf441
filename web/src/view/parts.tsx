// What several views are made of: tables, buttons, places to type a number.

import type { ComponentChildren, JSX, Ref } from "preact";

import { hasTwin } from "../engine/graph";
import type { Edge, Path } from "../engine/types";
import type { Stage } from "../state/stage";
import { asTable } from "../state/studio";
import { say } from "../state/words";
import { Icon, type IconName } from "./icon";
import { useStage } from "./stage";

/** Columns are keys of words; the children are its rows. */
export function Table(props: {
  columns: string[];
  class?: string;
  caption?: string;
  children: ComponentChildren;
}) {
  return (
    <table class={props.class}>
      {props.caption && <caption>{props.caption}</caption>}
      <thead>
        <tr>
          {props.columns.map((word) => (
            <th key={word} scope="col">
              {say(word)}
            </th>
          ))}
        </tr>
      </thead>
      <tbody>{props.children}</tbody>
    </table>
  );
}

/** What may be wider than there is room: it scrolls by itself, by keys too. */
export function Scroll(props: {
  label: string;
  class?: string;
  children: ComponentChildren;
  onKeyDown?: (event: KeyboardEvent) => void;
}) {
  return (
    <div
      onKeyDown={props.onKeyDown}
      class={props.class ? `scroll ${props.class}` : "scroll"}
      tabindex={0}
      role="group"
      aria-label={props.label}
    >
      {props.children}
    </div>
  );
}

export function NumberInput({
  field,
  ...props
}: JSX.InputHTMLAttributes & { field?: Ref<HTMLInputElement> }) {
  return (
    <input
      ref={field}
      class="number"
      autocomplete="off"
      autocapitalize="off"
      spellcheck={false}
      {...props}
    />
  );
}

/** Looks like a link, and does something here. */
export function Link(props: JSX.ButtonHTMLAttributes) {
  return <button type="button" class="link" {...props} />;
}

/** The name of a node, which selects it. */
export function NodeLink({ node }: { node: number }) {
  const stage = useStage();
  return (
    <Link onClick={() => stage.selectNode(node)} translate={false}>
      {stage.name(node)}
    </Link>
  );
}

/** An edge from an input to its consumer, which selects it. */
export function EdgeLink({ edge }: { edge: Edge }) {
  const stage = useStage();
  return (
    <Link onClick={() => stage.selectEdge(edge)} translate={false}>
      {stage.names([edge.source, edge.node], " → ") + operandText(stage, edge)}
    </Link>
  );
}

/** Which operand it is, where that tells an edge from another. */
export const operandText = ({ graph }: Stage, edge: Edge): string =>
  hasTwin(graph.value, edge) ? ` (${say("byhand.operand", { argument: edge.argument + 1 })})` : "";

/** A path in words: `d → b → a`, and `f → a (operand 1)`. */
export const pathText = (stage: Stage, { edges }: Path): string =>
  edges.reduce(
    (text, edge) => `${text} → ${stage.name(edge.source)}${operandText(stage, edge)}`,
    stage.name(stage.graph.value.root),
  );

/** A button with a sign on it; what it does is its name. */
export function GlyphButton(props: {
  word: string;
  glyph: string | { icon: IconName };
  off?: boolean;
  run: () => void;
}) {
  return (
    <button
      type="button"
      class="glyph"
      aria-label={say(props.word)}
      title={say(props.word)}
      aria-disabled={props.off}
      onClick={props.run}
    >
      {typeof props.glyph === "string" ? (
        <span aria-hidden="true">{props.glyph}</span>
      ) : (
        <Icon name={props.glyph.icon} />
      )}
    </button>
  );
}

/** The graph as a drawing, or as tables. */
export function TableSwitch() {
  return (
    <button
      type="button"
      aria-pressed={asTable.value}
      onClick={() => (asTable.value = !asTable.value)}
    >
      {say("view.table")}
    </button>
  );
}

/** Makes a button of a shape in a drawing. */
export const asButton = (run: () => void) => ({
  role: "button" as const,
  tabindex: 0,
  onClick: run,
  onKeyDown: (event: KeyboardEvent): void => {
    if (event.key !== "Enter" && event.key !== " ") return;
    event.preventDefault();
    run();
  },
});

/** Follow a pointer that is down in a box until it is let go. */
export function followPointer(
  box: Element,
  pointer: number,
  move: (event: PointerEvent) => void,
  end: () => void,
): void {
  const done = new AbortController();
  const listen = (name: string, act: (event: PointerEvent) => void): void =>
    box.addEventListener(
      name,
      (event) => {
        if ((event as PointerEvent).pointerId === pointer) act(event as PointerEvent);
      },
      { signal: done.signal },
    );
  const stop = (): void => {
    done.abort();
    end();
  };
  box.setPointerCapture(pointer);
  listen("pointermove", move);
  listen("pointerup", stop);
  listen("pointercancel", stop);
}

/** The nodes of a path, from the root down. */
export const nodesOn = ({ edges }: Path): number[] => [
  ...edges.map((edge) => edge.node),
  ...edges.slice(-1).map((edge) => edge.source),
];
