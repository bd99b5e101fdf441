// The studio in a notebook: what anywidget loads. It puts the page into a frame of its own, so that
// several do not disturb each other nor the notebook, and carries position, selection and the
// leaves' numbers between page (state/notebook.ts) and Python.

import type { Told, Wanted } from "./state/notebook";

/** What anywidget gives: https://anywidget.dev/en/afm */
interface Model {
  get(name: string): unknown;
  set(name: string, value: unknown): void;
  save_changes(): void;
  on(event: string, heard: () => void): void;
  off(event: string, heard: () => void): void;
}

const settable = ["position", "selection", "values"] as const;

function render({ model, el }: { model: Model; el: HTMLElement }): () => void {
  const box = document.createElement("div");
  box.style.cssText = "width: 100%; min-height: 240px; resize: vertical; overflow: hidden";
  const frame = document.createElement("iframe");
  frame.setAttribute("sandbox", "allow-scripts");
  frame.title = String(model.get("title"));
  frame.style.cssText = "display: block; width: 100%; height: 100%; border: 0";
  frame.srcdoc = String(model.get("_page"));

  const send = (wanted: Omit<Wanted, "gradwalk">): void =>
    frame.contentWindow?.postMessage({ gradwalk: "set", ...wanted }, "*");
  // A frame that is moved in the notebook begins anew: it is told again where it was.
  const begin = (): void =>
    send({
      theme: (shade = shadeOf(el)),
      ...Object.fromEntries(settable.map((name) => [name, model.get(name)])),
    });
  let shade = shadeOf(el);
  const reshade = (): void => {
    if (shade !== shadeOf(el)) send({ theme: (shade = shadeOf(el)) });
  };

  let hearing = false; // what the page itself says is not told to it again
  const hear = ({ source, data }: MessageEvent<Told | null>): void => {
    if (source !== frame.contentWindow || data?.gradwalk !== "is") return;
    hearing = true;
    for (const name of [...settable, "steps"] as const) {
      if (name in data) model.set(name, data[name]);
    }
    hearing = false;
    model.save_changes();
  };
  const changes = settable.map((name): [string, () => void] => [
    `change:${name}`,
    () => {
      if (!hearing) send({ [name]: model.get(name) });
    },
  ]);
  const resize = (): void => {
    box.style.height = `${Number(model.get("height"))}px`;
  };
  changes.push(["change:height", resize]);

  resize();
  frame.addEventListener("load", begin);
  window.addEventListener("message", hear);
  for (const [event, heard] of changes) model.on(event, heard);
  const themes = new MutationObserver(reshade);
  for (const element of [document.documentElement, document.body]) {
    themes.observe(element, { attributes: true });
  }
  box.append(frame);
  el.append(box);
  return () => {
    themes.disconnect();
    window.removeEventListener("message", hear);
    for (const [event, heard] of changes) model.off(event, heard);
    box.remove();
  };
}

/** Whether the notebook is dark: then its text is light. (Each has its own way to say so.) */
function shadeOf(el: HTMLElement): "light" | "dark" {
  const [red = 0, green = 0, blue = 0] =
    getComputedStyle(el)
      .color.match(/[\d.]+/g)
      ?.map(Number) ?? [];
  return 0.3 * red + 0.6 * green + 0.1 * blue > 127 ? "dark" : "light";
}

export default { render }; // the one form that anywidget loads
