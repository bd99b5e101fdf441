// The list of lessons, or one of them.

import type { ComponentChildren } from "preact";
import { useEffect, useRef } from "preact/hooks";

import { type Entry, entries, failed, list, offered, opened } from "../../lessons/library";
import { doneOf, forget } from "../../lessons/progress";
import type { Block, Lesson } from "../../lessons/reader";
import { problemOf } from "../../lessons/quantities";
import { announce } from "../../state/announce";
import { boot } from "../../state/boot";
import { place } from "../../state/studio";
import { language, say, sayMessage } from "../../state/words";
import { Completion } from "./completion";
import { CoreBlock } from "./core";
import { GraphBlock } from "./graph";
import { ByHandBlock, OrderBlock } from "./practice";
import { LessonLink, Prose } from "./prose";
import { QuestionBlock } from "./question";

export function LessonPlace() {
  const { id = list } = place.value;
  if (!offered) return <Notice word="lesson.notHere" />;
  if (failed.value) {
    return (
      <Notice word="lesson.notLoaded">
        <button type="button" class="main" onClick={() => (failed.value = false)}>
          {say("lesson.again")}
        </button>
      </Notice>
    );
  }
  if (!entries.value) return <Notice word="lesson.loading" />;
  if (id === list) return <List entries={entries.value} />;
  if (!entries.value.some((entry) => entry.id === id)) {
    return <List entries={entries.value} unknown={id} />;
  }
  const shown = opened.value;
  return shown ? (
    <LessonView key={`${shown.entry.language} ${shown.entry.id}`} {...shown} />
  ) : (
    <Notice word="lesson.loading" />
  );
}

function Notice(props: { word: string; children?: ComponentChildren }) {
  return (
    <div class="lesson">
      <p>{say(props.word)}</p>
      {props.children}
    </div>
  );
}

function List(props: { entries: Entry[]; unknown?: string }) {
  const about = boot.scorm ? "lesson.aboutPlatform" : "lesson.about";
  return (
    <div class="lesson list">
      <h2>{say("lesson.title")}</h2>
      <p>{say(props.unknown ? "lesson.unknown" : about, { name: props.unknown ?? "" })}</p>
      <ol>
        {props.entries.map((entry) => (
          <li key={entry.id} lang={entry.language} data-entry={entry.id}>
            <h3>
              <span>{entry.order}</span> <LessonLink id={entry.id}>{entry.title}</LessonLink>
            </h3>
            <Count {...entry} done={doneOf(entry.id, entry.tasks)} />
          </li>
        ))}
      </ol>
      <Completion />
    </div>
  );
}

/** Minutes, and how much is done. */
function Count(props: { minutes: number; done: number; tasks: number }) {
  const { done, tasks, minutes } = props;
  const complete = tasks > 0 && done === tasks;
  return (
    <p
      class="count"
      lang={language.value}
      data-done={done}
      data-tasks={tasks}
      data-complete={complete}
    >
      <span>{say("lesson.minutes", { count: minutes })}</span>
      <progress value={done} max={Math.max(tasks, 1)} aria-label={say("lesson.progress")} />
      <span>{say("lesson.doneOf", { done, tasks })}</span>
      {complete && <span class="tick">✓ {say("lesson.complete")}</span>}
    </p>
  );
}

function LessonView({ entry, lesson }: { entry: Entry; lesson: Lesson }) {
  const title = useRef<HTMLHeadingElement>(null);
  const tasks = lesson.tasks.map((block) => block.id);
  const done = doneOf(entry.id, tasks);
  // Where a link leads; what gets the focus is where we are, and is no reason to scroll.
  const here = useRef<string>();
  const { at = "" } = place.value;
  useEffect(() => {
    if (at === here.current) return;
    here.current = at;
    // Links of old say which block it is of all.
    const id = lesson.blocks[Number(at) - 1]?.id ?? at;
    const now = movedTo(lesson, id);
    if (now) {
      place.value = { ...place.peek(), id: now };
      return;
    }
    const target = document.getElementById(`at-${id}`) ?? title.current!;
    target.focus({ preventScroll: true });
    if (target === title.current) scrollTo(0, 0);
    else target.scrollIntoView({ block: "start" });
  }, [at]);
  const follow = (event: FocusEvent): void => {
    const block = (event.target as Element).closest("[id^=at-]");
    if (!block) return;
    here.current = block.id.slice(3);
    if (place.peek().at !== here.current) place.value = { ...place.peek(), at: here.current };
  };
  const complete = done === tasks.length;
  const before = useRef(complete);
  useEffect(() => {
    if (complete && !before.current) announce(say("lesson.allDone"));
    before.current = complete;
  }, [complete]);
  const all = entries.value!;
  const order = all.findIndex(({ id }) => id === entry.id);
  return (
    <article class="lesson" lang={entry.language} onFocusIn={follow}>
      <nav class="row" lang={language.value} aria-label={say("lesson.title")}>
        <LessonLink id={list}>{say("lesson.all")}</LessonLink>
      </nav>
      <h2 ref={title} tabindex={-1}>
        {entry.title}
      </h2>
      <Count minutes={entry.minutes} done={done} tasks={tasks.length} />
      {lesson.parts.map((part, i) =>
        part.kind === "block" ? (
          <BlockView key={i} lesson={entry.id} block={part.block} />
        ) : (
          <Prose key={i} part={part} />
        ),
      )}
      <footer lang={language.value}>
        {complete && (
          <p class="feedback right" data-all-done>
            ✓ {say("lesson.allDone")}
          </p>
        )}
        <Count minutes={entry.minutes} done={done} tasks={tasks.length} />
        <nav class="row" aria-label={say("lesson.others")}>
          <Neighbour word="lesson.previous" entry={all[order - 1]} />
          <Neighbour word="lesson.next" entry={all[order + 1]} />
          {done > 0 && (
            <button type="button" onClick={() => forget(entry.id)} data-forget>
              {say("lesson.forget")}
            </button>
          )}
        </nav>
      </footer>
    </article>
  );
}

/** The lesson that a block has moved to, so that old links still find it. */
function movedTo({ head, blocks }: Lesson, id: string): string | undefined {
  if (!id || blocks.some((block) => block.id === id)) return undefined;
  const pair = head.moved?.split(/\s+/).find((text) => text.startsWith(`${id}=`));
  return pair?.slice(id.length + 1);
}

function Neighbour({ word, entry }: { word: string; entry: Entry | undefined }) {
  if (!entry) return null;
  return (
    <span data-way={word}>
      {say(word)} <LessonLink id={entry.id}>{entry.title}</LessonLink>
    </span>
  );
}

function BlockView(props: { lesson: string; block: Block }) {
  const { block } = props;
  const problem = problemOf(block);
  if (problem) {
    const values = { kind: block.kind, line: block.line, problem: sayMessage(problem) };
    return (
      <p class="mistake" data-problem={block.id}>
        {say("lesson.broken", values)}
      </p>
    );
  }
  switch (block.kind) {
    case "graph":
      return (
        <div id={`at-${block.id}`} tabindex={-1} data-graph={block.id}>
          <GraphBlock block={block} step={block.step} />
        </div>
      );
    case "question":
      return <QuestionBlock {...props} />;
    case "order":
      return <OrderBlock {...props} />;
    case "byhand":
      return <ByHandBlock {...props} />;
    case "core":
      return <CoreBlock {...props} />;
  }
}
