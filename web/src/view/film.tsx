// Saving a walk: as pictures, as one that moves, as pictures for a video.

import { useSignal } from "@preact/signals";

import { animated, filmOf, png, still } from "../film/frames";
import { zip } from "../film/zip";
import { saveFile } from "../state/export";
import { say } from "../state/words";
import { useStage } from "./stage";

const kinds = ["animated", "frames", "pngs"] as const;

export function FilmDialog({ close }: { close: () => void }) {
  const stage = useStage();
  const told = useSignal("");
  const busy = useSignal(false);
  const save = async (kind: (typeof kinds)[number]): Promise<void> => {
    if (busy.value) return;
    busy.value = true;
    try {
      const tell = (step: number, steps: number): void => {
        told.value = say("film.drawing", { step, steps });
      };
      const film = await filmOf(stage, tell);
      if (kind === "animated") {
        const seconds = 1 / stage.speed.value;
        saveFile([animated(film, Math.max(1.2, seconds))], film.title, "svg", "image/svg+xml");
      } else {
        const files = [];
        for (const [i, frame] of film.frames.entries()) {
          const picture = still(film, frame);
          const number = String(i).padStart(3, "0");
          if (kind === "frames") {
            files.push({ name: `${number}.svg`, bytes: new TextEncoder().encode(picture) });
          } else files.push({ name: `${number}.png`, bytes: await png(picture) });
          tell(i, film.frames.length - 1);
        }
        saveFile(zip(files), film.title, "zip", "application/zip");
      }
      told.value = say("film.saved");
    } catch {
      told.value = say("film.failed");
    } finally {
      busy.value = false;
    }
  };
  return (
    <dialog
      ref={(dialog) => {
        if (dialog && !dialog.open) dialog.showModal();
      }}
      class="help share"
      aria-labelledby="film-title"
      onClose={close}
    >
      <h2 id="film-title">{say("film.title")}</h2>
      <p>{say("film.about")}</p>
      <ul class="ways">
        {kinds.map((kind) => (
          <li key={kind}>
            <button
              type="button"
              aria-disabled={busy.value}
              onClick={() => void save(kind)}
              data-film={kind}
            >
              {say(`film.${kind}`)}
            </button>
            <span class="hint">{say(`film.${kind}.about`)}</span>
          </li>
        ))}
      </ul>
      <p role="status" data-told>
        {told.value}
      </p>
      <div class="row ends">
        <span />
        <button type="button" onClick={close}>
          {say("share.close")}
        </button>
      </div>
    </dialog>
  );
}
