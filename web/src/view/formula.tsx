// MathML as the engine describes it, as elements.

import { type ComponentChildren, h } from "preact";

import type { Markup } from "../engine/formulas";
import { asIs } from "./text";

export function Formula(props: { markup: Markup[]; block?: boolean }) {
  return (
    <math {...asIs} display={props.block ? "block" : "inline"}>
      {mathElements(props.markup)}
    </math>
  );
}

/** What stands inside a <math>. */
export function mathElements(content: (Markup | string)[]): ComponentChildren {
  return content.map((part) => {
    if (typeof part === "string") return part;
    const [tag, ...inside] = part;
    return h(tag, null, mathElements(inside));
  });
}
