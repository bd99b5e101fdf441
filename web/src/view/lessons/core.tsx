// The interactive core of a lesson: a component of its own.

import { useMemo } from "preact/hooks";

import { isDone } from "../../lessons/progress";
import { numbersOf } from "../../lessons/quantities";
import { cores } from "./cores/registry";
import { complete, Explained, Hints, Task, type TaskOf } from "./task";

export function CoreBlock(props: TaskOf) {
  const { lesson, block } = props;
  const numbers = useMemo(() => numbersOf(block), [block]);
  const Core = cores[block.core]!;
  const done = isDone(lesson, block.id);
  return (
    <Task {...props}>
      <div class="core" data-core={block.core}>
        <Core
          lesson={lesson}
          block={block}
          numbers={numbers}
          done={done}
          finish={() => complete({ lesson, block })}
        />
      </div>
      {done ? <Explained says={block.explain} /> : <Hints hints={block.hints} />}
    </Task>
  );
}
