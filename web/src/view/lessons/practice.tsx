// The order lab with a goal, and numbers to be found by hand, in a lesson.

import { useSignal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { useCallback, useMemo } from "preact/hooks";

import { agree } from "../../engine/numbers";
import { everyOrder } from "../../engine/order";
import { isDone } from "../../lessons/progress";
import { asksOfBlock, goalOf } from "../../lessons/quantities";
import type { Block } from "../../lessons/reader";
import { asksOf, isFound, type Progress } from "../../state/byhand";
import type { Goal } from "../../state/order";
import type { Stage } from "../../state/stage";
import { ChangeView } from "../change";
import { ByHandWork } from "../panels/byhand";
import { OrderLab } from "../panels/order";
import { StageProvider } from "../stage";
import { Drawing, OnStage, useBlockStage } from "./graph";
import { complete, Explained, Hints, Shown, Task, type TaskOf } from "./task";

export function OrderBlock(props: TaskOf) {
  const { lesson, block } = props;
  const stage = useBlockStage(block);
  const goal = useMemo(() => {
    if (stage) stage.overwrite.value = block.overwrite;
    return stage && goalOf(stage.numbers.peek(), block.goal);
  }, [stage]);
  const tried = useSignal(false);
  const heard = useCallback(
    (reached: boolean) => {
      tried.value = true;
      if (reached) complete({ lesson, block });
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
        <After {...props}>
          {tried.value && !block.overwrite && <Shown answer={anOrder(stage, goal)} />}
        </After>
      </Task>
    )
  );
}

export function ByHandBlock(props: TaskOf) {
  const { lesson, block } = props;
  const stage = useBlockStage(block);
  const asks = useMemo(() => stage && asksOn(stage, block), [stage]);
  const heard = useCallback(
    (progress: Progress) => {
      if (isFound(progress)) complete({ lesson, block });
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
              {block.shows === "all" && <ChangeView />}
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

/** One that reaches the goal, if trying all of them finds it. */
function anOrder(stage: Stage, { node, amount }: Goal): string | undefined {
  // What is right comes first in it.
  const found = everyOrder(stage.numbers.peek(), node)?.find(
    ({ got }) => amount === "correct" || agree(got, amount),
  );
  return found && stage.names(found.orders[0]!);
}

function After({ lesson, block, children }: TaskOf & { children?: ComponentChildren }) {
  return isDone(lesson, block.id) ? (
    <Explained says={block.explain} />
  ) : (
    <Hints hints={block.hints}>{children}</Hints>
  );
}
