// One point of the data: what the network makes of it, and the way into its graph.

import { batch } from "@preact/signals";

import { shortNumber } from "../../engine/numbers";
import { session } from "../../playground/session";
import { writeSettings } from "../../playground/settings";
import { announce } from "../../state/announce";
import { place, stage } from "../../state/studio";
import { language, say, type Values } from "../../state/words";
import { Icon } from "../icon";

const MOST_NODES = 1200; // that the stage draws

/** Its loss on the stage, at a step of the walk: as it is before the next step of the training. */
export function openPoint(point: number, walked = 0): void {
  const { trainer, settings } = session;
  const shown = trainer.points[point];
  if (!shown || tooLarge()) return;
  session.stop();
  session.point.value = point;
  const { graph, given } = trainer.graphOf(shown);
  const title = say("play.pointTitle", { point: point + 1, count: trainer.steps });
  const train = writeSettings(settings.peek());
  batch(() => {
    const origin = { kind: "point" as const, title, train, trained: trainer.steps, point };
    stage.open({ origin, graph, given, assumed: [] });
    place.value = { kind: "graph" };
    stage.position.value = Math.min(walked, stage.steps.value.length);
  });
  announce(say("page.opened", { title, count: graph.nodes.length }));
}

const tooLarge = (): boolean => session.trainer.model.graph.nodes.length > MOST_NODES;

export function PointView() {
  void session.look.value;
  const at = session.point.value;
  const { points } = session.trainer;
  const { x, y } = points[at]!;
  const { loss, score } = session.trainer.judge(points[at]!);
  const move = (by: number): void => {
    session.point.value = (at + by + points.length) % points.length;
  };
  const digits = session.settings.value.data === "digits";
  const values: Values = digits
    ? { digit: y }
    : { x: x.map(shortNumber).join(", "), y: y > 0 ? "+1" : "−1" };
  return (
    <div class="one-point">
      <div class="row">
        <button type="button" class="glyph" aria-label={say("play.previous")} onClick={() => move(-1)}>
          <Icon name="back" />
        </button>
        <strong data-point={at}>{say("play.point", { point: at + 1 })}</strong>
        <button type="button" class="glyph" aria-label={say("play.next")} onClick={() => move(1)}>
          <Icon name="next" />
        </button>
        {!tooLarge() && (
          <button type="button" onClick={() => openPoint(at)} data-open-point>
            {say("play.walk")}
          </button>
        )}
      </div>
      <p>
        {say(digits ? "play.digitAbout" : "play.pointAbout", { ...values, score: shortNumber(score), loss: shortNumber(loss) })}
      </p>
      {tooLarge() && (
        <p>
          {say("play.tooLarge", {
            count: session.trainer.model.graph.nodes.length.toLocaleString(language.value),
            most: MOST_NODES.toLocaleString(language.value),
          })}
        </p>
      )}
    </div>
  );
}
