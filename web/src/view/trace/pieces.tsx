// What the views of a trace are made of.

import type { ComponentChildren } from "preact";

import { traceStage as stage } from "../../state/trace";
import { say } from "../../state/words";
import type { Item } from "../../trace/outline";
import { Link } from "../parts";

/** One line of `<dl class="facts">`: what nothing is known of is left out. Names are no words. */
export function Fact(props: { word: string; name?: boolean; children: ComponentChildren }) {
  if (!props.children) return null;
  return (
    <>
      <dt>{say(props.word)}</dt>
      <dd translate={!props.name}>{props.children}</dd>
    </>
  );
}

/** The way to an operation, a leaf or a module, wherever it is. */
export function ItemLink({ item, text }: { item: Item; text?: string }) {
  const name = "node" in item ? stage.name(item.node) : `▸ ${stage.scopeName(item.scope)}`;
  return (
    <Link translate={false} onClick={() => stage.reveal(item)}>
      {text ?? name}
    </Link>
  );
}

/** A list of which only the beginning is shown. */
export function Picks<T>(props: {
  of: T[];
  most: number;
  class?: string;
  children: (one: T) => ComponentChildren;
}) {
  const { of: all, most, children } = props;
  return (
    <>
      <ul class={props.class ?? "picks"}>
        {all.slice(0, most).map((one, i) => (
          <li key={i}>{children(one)}</li>
        ))}
      </ul>
      {all.length > most && <p class="hint">{say("trace.more", { count: all.length - most })}</p>}
    </>
  );
}

/** One of several things, by number. */
export function Choice(props: {
  label: string;
  value: number;
  options: (string | number)[];
  choose: (index: number) => void;
}) {
  if (props.options.length < 2) return null;
  return (
    <label class="row">
      <span>{props.label}</span>
      <select
        value={String(props.value)}
        onChange={(event) => props.choose(Number(event.currentTarget.value))}
        translate={false}
      >
        {props.options.map((option, i) => (
          <option key={i} value={String(i)}>
            {option}
          </option>
        ))}
      </select>
    </label>
  );
}

/** What went wrong, if anything did. */
export function Failure({ text }: { text: string }) {
  return text ? (
    <p class="mistake" role="alert">
      {text}
    </p>
  ) : null;
}
