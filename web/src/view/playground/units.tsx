// What each hidden unit gives over the plane, layer by layer. One that is chosen fills the plane.

import { useSignalEffect } from "@preact/signals";
import { useRef } from "preact/hooks";

import { session } from "../../playground/session";
import { theme } from "../../state/studio";
import { say } from "../../state/words";
import { heatMap, paletteOf } from "./paint";

export function Units() {
  const box = useRef<HTMLDivElement>(null);
  useSignalEffect(() => {
    void [session.drawn.value, theme.value];
    for (const canvas of box.current?.querySelectorAll("canvas") ?? []) {
      // Of the plane a small picture has every second cell.
      const step = session.maps.size > 24 ? 2 : 1;
      const image = heatMap(session.maps, Number(canvas.dataset.map), paletteOf(canvas), step);
      if (canvas.width !== image.width) canvas.width = canvas.height = image.width;
      canvas.getContext("2d")!.putImageData(image, 0, 0);
    }
  });
  const pixels = session.settings.value.data === "digits"; // other settings, other units
  if (session.maps.nodes.length === 1) return null;
  const { layers } = session.trainer.model;
  let map = 0;
  return (
    <div class="units" ref={box}>
      <p class="title">{say(pixels ? "play.pixels" : "play.units")}</p>
      {layers.slice(0, pixels ? 1 : -1).map(({ units }, layer) => (
        <div key={layer} class="unit-row" role="group" aria-label={say("play.unitsOf", { layer: layer + 1 })}>
          {units.map((node, unit) => (
            <Unit key={node} map={(map += 1)} layer={layer + 1} unit={unit + 1} />
          ))}
        </div>
      ))}
    </div>
  );
}

function Unit({ map, layer, unit }: { map: number; layer: number; unit: number }) {
  const chosen = session.map.value === map;
  const name = say("play.unit", { layer, unit });
  return (
    <button
      type="button"
      aria-pressed={chosen}
      aria-label={name}
      title={name}
      onClick={() => (session.map.value = chosen ? 0 : map)}
    >
      <canvas data-map={map} />
    </button>
  );
}
