// The text of a lesson as elements.

import type { ComponentChildren } from "preact";

import { openLesson } from "../../lessons/library";
import type { Inline, Part } from "../../lessons/reader";
import { writeLink } from "../../state/links";

export function Words({ text }: { text: Inline[] }): ComponentChildren {
  return text.map((part, i) => {
    if (typeof part === "string") return part;
    const inside = <Words text={part.inside} />;
    if (part.tag !== "a")
      return (
        <part.tag key={i} translate={part.tag === "code" ? false : undefined}>
          {inside}
        </part.tag>
      );
    const to = part.to!;
    return to.startsWith("https://") ? (
      <a key={i} href={to} rel="noopener" target="_blank">
        {inside}
      </a>
    ) : (
      <LessonLink key={i} id={to}>
        {inside}
      </LessonLink>
    );
  });
}

export function LessonLink(props: { id: string; children: ComponentChildren }) {
  return (
    <a
      href={writeLink({ lesson: props.id })}
      data-lesson={props.id}
      onClick={(event) => {
        if (event.ctrlKey || event.metaKey || event.shiftKey) return;
        event.preventDefault();
        openLesson(props.id);
      }}
    >
      {props.children}
    </a>
  );
}

export function Prose({ part }: { part: Exclude<Part, { kind: "block" }> }) {
  switch (part.kind) {
    case "heading":
    case "paragraph": {
      const Text = part.kind === "paragraph" ? "p" : part.level === 2 ? "h3" : "h4";
      return (
        <Text>
          <Words text={part.text} />
        </Text>
      );
    }
    case "code":
      return (
        <pre class="listing scroll" tabindex={0} translate={false}>
          {part.text}
        </pre>
      );
    case "list": {
      const items = part.items.map((text, i) => (
        <li key={i}>
          <Words text={text} />
        </li>
      ));
      return part.numbered ? <ol>{items}</ol> : <ul class="bullets">{items}</ul>;
    }
  }
}
