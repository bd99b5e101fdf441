// src/widget.ts
var settable = ["position", "selection", "values"];
function render({ model, el }) {
  const box = document.createElement("div");
  box.style.cssText = "width: 100%; min-height: 240px; resize: vertical; overflow: hidden";
  const frame = document.createElement("iframe");
  frame.setAttribute("sandbox", "allow-scripts");
  frame.title = String(model.get("title"));
  frame.style.cssText = "display: block; width: 100%; height: 100%; border: 0";
  frame.srcdoc = String(model.get("_page"));
  const send = (wanted) => frame.contentWindow?.postMessage({ gradwalk: "set", ...wanted }, "*");
  const begin = () => send({
    theme: shade = shadeOf(el),
    ...Object.fromEntries(settable.map((name) => [name, model.get(name)]))
  });
  let shade = shadeOf(el);
  const reshade = () => {
    if (shade !== shadeOf(el)) send({ theme: shade = shadeOf(el) });
  };
  let hearing = false;
  const hear = ({ source, data }) => {
    if (source !== frame.contentWindow || data?.gradwalk !== "is") return;
    hearing = true;
    for (const name of [...settable, "steps"]) {
      if (name in data) model.set(name, data[name]);
    }
    hearing = false;
    model.save_changes();
  };
  const changes = settable.map((name) => [
    `change:${name}`,
    () => {
      if (!hearing) send({ [name]: model.get(name) });
    }
  ]);
  const resize = () => {
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
function shadeOf(el) {
  const [red = 0, green = 0, blue = 0] = getComputedStyle(el).color.match(/[\d.]+/g)?.map(Number) ?? [];
  return 0.3 * red + 0.6 * green + 0.1 * blue > 127 ? "dark" : "light";
}
var widget_default = { render };
export {
  widget_default as default
};
