// The visits of the order lab, to be put into any order: dragged, or moved by keys and buttons.

import { useSignal } from "@preact/signals";
import { useId, useRef } from "preact/hooks";

import { AGAIN } from "../../engine/order-steps";
import { leaveOut, move, orderOn, visit, visitName } from "../../state/order";
import { say } from "../../state/words";
import { followPointer } from "../parts";
import { useStage } from "../stage";
import { classNames } from "../text";

export function Visits() {
  const stage = useStage();
  const id = useId();
  const list = useRef<HTMLUListElement>(null);
  const picked = useSignal(0);
  const dragged = useSignal(false);
  const order = orderOn(stage);
  const at = Math.min(picked.value, order.length - 1);
  const visited =
    stage.steps.value.slice(0, stage.position.value).filter(({ phase }) => phase !== "forward")
      .length - 1; // without the first seed

  const moveTo = (from: number, to: number): void => {
    if (to < 0 || to >= order.length) return;
    picked.value = to;
    move(stage, from, to);
  };
  const out = (): void => leaveOut(stage, at);
  const repeat = (): void => visit(stage, order[at]!, at + 1);

  const key = (event: KeyboardEvent): void => {
    const by = { ArrowLeft: -1, ArrowUp: -1, ArrowRight: 1, ArrowDown: 1 }[event.key];
    if (event.ctrlKey || event.metaKey) return;
    if (by && (event.shiftKey || event.altKey)) moveTo(at, at + by);
    else if (by) picked.value = Math.max(0, Math.min(order.length - 1, at + by));
    else if (event.key === "Home") picked.value = 0;
    else if (event.key === "End") picked.value = order.length - 1;
    else if (event.key === "Delete" || event.key === "Backspace") out();
    else if (event.key === "+" && order.length) repeat();
    else return;
    event.preventDefault();
  };

  const drag = (event: PointerEvent): void => {
    const from = place(event.target);
    if (event.button !== 0 || from < 0) return;
    picked.value = from;
    const box = list.current!;
    const follow = (now: PointerEvent): void => {
      const under = document.elementFromPoint(now.clientX, now.clientY);
      const to = box.contains(under) ? place(under) : -1;
      if (to < 0 || to === picked.value) return;
      // Only past its middle: else two visits of different widths would change places to and fro.
      const { left, width } = box.children[to]!.getBoundingClientRect();
      const mine = box.children[picked.value]!.getBoundingClientRect();
      const sameRow = now.clientY >= mine.top && now.clientY <= mine.bottom;
      const past = now.clientX > left + width / 2;
      if (sameRow && past !== to > picked.value) return;
      dragged.value = true;
      moveTo(picked.value, to);
    };
    followPointer(box, event.pointerId, follow, () => (dragged.value = false));
  };

  return (
    <>
      <ul
        class={dragged.value ? "visits dragged" : "visits"}
        ref={list}
        role="listbox"
        tabindex={0}
        aria-label={say("order.visits")}
        aria-describedby={`${id}-keys`}
        aria-orientation="horizontal"
        aria-activedescendant={order.length ? `${id}-${at}` : undefined}
        onKeyDown={key}
        onPointerDown={drag}
        data-arrows
        data-order={order.map((node) => (node === AGAIN ? "-" : stage.name(node))).join(" ")}
      >
        {order.map((node, i) => {
          const again = node === AGAIN;
          return (
            <li
              key={i}
              id={`${id}-${i}`}
              role="option"
              aria-selected={i === at}
              class={classNames({ again, done: i < visited, next: i === visited })}
              data-place={i}
              translate={again}
            >
              <span class="ordinal" aria-hidden="true">
                {i + 1}
              </span>{" "}
              {visitName(stage, node)}
            </li>
          );
        })}
      </ul>
      {!order.length && <p class="hint">{say("order.empty")}</p>}
      <div class="row small" role="group" aria-label={say("order.change")}>
        <Button word="order.earlier" glyph="←" off={at <= 0} run={() => moveTo(at, at - 1)} />
        <Button
          word="order.later"
          glyph="→"
          off={at >= order.length - 1}
          run={() => moveTo(at, at + 1)}
        />
        <Button word="order.leaveOut" glyph="−" off={!order.length} run={out} />
        <Button word="order.repeat" glyph="+" off={!order.length} run={repeat} />
      </div>
      <p class="hint" id={`${id}-keys`}>
        {say("order.keys")}
      </p>
    </>
  );
}

const place = (target: EventTarget | null): number =>
  Number((target as Element | null)?.closest<HTMLElement>("[data-place]")?.dataset.place ?? -1);

function Button(props: { word: string; glyph: string; off: boolean; run: () => void }) {
  return (
    <button
      type="button"
      aria-disabled={props.off}
      onClick={() => !props.off && props.run()}
      data-visit={props.word}
    >
      <span aria-hidden="true">{props.glyph} </span>
      {say(props.word)}
    </button>
  );
}
