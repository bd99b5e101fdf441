// A component whose code loads when it is first shown: a part of the page (web/parts.mjs).

import { signal } from "@preact/signals";
import type { ComponentType } from "preact";
import { useEffect } from "preact/hooks";

import { say } from "../state/words";

/** `const Curve = lazy(() => import("./curve").then((part) => part.Curve))` */
export function lazy<Props extends object>(
  load: () => Promise<ComponentType<Props>>,
): ComponentType<Props> {
  const state = signal<{ shown?: ComponentType<Props>; failed?: boolean }>({});
  const begin = (): void => {
    state.value = {};
    load().then(
      (shown) => (state.value = { shown }),
      () => (state.value = { failed: true }),
    );
  };
  return (props: Props) => {
    useEffect(() => {
      if (!state.peek().shown) begin();
    }, []);
    const { shown: Shown, failed } = state.value;
    if (Shown) return <Shown {...props} />;
    if (!failed) return <p class="loading" role="status">{say("part.loading")}</p>;
    return (
      <p class="mistake" role="alert">
        {say("part.failed")}{" "}
        <button type="button" onClick={begin}>
          {say("part.again")}
        </button>
      </p>
    );
  };
}
