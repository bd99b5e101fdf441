// The order lab with a goal, and numbers to be found by hand, in a lesson.

import { useCallback, useMemo } from "preact/hooks";

import { isDone } from "../../lessons/progress";
import { asksOfBlock, goalOf } from "../../lessons/quantities";
import type { Block } from "../../lessons/reader";
import { asksOf, type Progress } from "../../state/byhand";
import type { Stage } from "../../state/stage";
import { ChangeView } from "../change";
import { ByHandWork } from "../panels/byhand";
import { OrderLab } from "../panels/order";
import { StageProvider } from "../stage";
import { Drawing, OnStage, useBlockStage } from "./graph";
import { complete, Explained, Hints, Task, type TaskOf } from "./task";

export function OrderBlock(props: TaskOf) {
  const { lesson, block } = props;
  const stage = useBlockStage(block);
  const goal = useMemo(() => {
    if (stage) stage.overwrite.value = block.overwrite;
    return stage && goalOf(stage.numbers.peek(), block.goal);
  }, [stage]);
  const heard = useCallback(
    (reached: boolean) => {
      if (reached && !isDone(lesson, block.id)) complete({ lesson, block });
    },
    [lesson, block],
  );
  return (
    stage &&
    goal && (
      <Task {...props}>
        <OnStage stage={stage} class="stage practice">
          <Drawing />
          <div class="panel">
            <ChangeView />
            <OrderLab goal={goal} onRun={heard} />
          </div>
        </OnStage>
        <After {...props} />
      </Task>
    )
  );
}

export function ByHandBlock(props: TaskOf) {
  const { lesson, block } = props;
  const stage = useBlockStage(block);
  const asks = useMemo(() => stage && asksOn(stage, block), [stage]);
  const heard = useCallback(
    ({ right, revealed, total }: Progress) => {
      if (right + revealed === total && !isDone(lesson, block.id)) complete({ lesson, block });
    },
    [lesson, block],
  );
  return (
    stage &&
    asks && (
      <Task {...props}>
        <div class="stage practice">
          <StageProvider stage={stage}>
            <Drawing />
            <div class="panel">
              <ChangeView />
              <ByHandWork asks={asks} onProgress={heard} />
            </div>
          </StageProvider>
        </div>
        <After {...props} />
      </Task>
    )
  );
}

function asksOn(stage: Stage, block: Block): ReturnType<typeof asksOfBlock> {
  const numbers = stage.numbers.peek();
  return asksOfBlock(numbers, block.asks, (kind) => asksOf(numbers, kind));
}

function After({ lesson, block }: TaskOf) {
  return isDone(lesson, block.id) ? (
    <Explained says={block.explain} />
  ) : (
    <Hints hints={block.hints} />
  );
}
