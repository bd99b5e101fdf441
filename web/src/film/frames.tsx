// A walk as pictures: the page's own drawing, made beside the page at every step, as SVG that needs
// nothing else.

import { render } from "preact";

import { leavesOf } from "../engine/graph";
import { whatHappened } from "../state/narrate";
import { Stage } from "../state/stage";
import { fontFaces } from "../state/export";
import { titleOf } from "../state/studio";
import { say } from "../state/words";
import { GraphView } from "../view/graph";
import { StageProvider } from "../view/stage";

export const width = 1920;
export const height = 1080;
const space = "http://www.w3.org/2000/svg";
const edge = 70; // around everything
const band = { top: 130, bottom: 190 }; // for the title, and for the sentence
/** What a picture needs of the style of the page. */
const styled = [
  "fill", "fill-opacity", "stroke", "stroke-width", "stroke-dasharray", "stroke-linecap",
  "stroke-linejoin", "opacity", "paint-order", "font-family", "font-size", "font-weight",
  "font-style", "text-anchor",
]; // prettier-ignore

export interface Film {
  title: string;
  frames: SVGGElement[]; // each fills the picture
  fonts: string;
}

/** Every step of a walk, from before the first to after the last. */
export async function filmOf(stage: Stage, tell: (done: number, all: number) => void): Promise<Film> {
  const title = titleOf(stage.scene.value.origin);
  const copy = new Stage();
  const { graph, values } = stage.numbers.value;
  const given = graph.nodes.map((_, i) => values[i]!);
  copy.open({ origin: stage.scene.value.origin, graph, given, assumed: [] });
  for (const leaf of leavesOf(graph)) copy.setLeaf(leaf, values[leaf]!);
  copy.forgetChange();
  copy.drawing.value = stage.drawing.value;
  const box = document.createElement("div");
  box.className = "film";
  box.ariaHidden = "true";
  box.inert = true;
  document.body.append(box);
  try {
    render(
      <StageProvider stage={copy}>
        <GraphView quiet />
      </StageProvider>,
      box,
    );
    const all = copy.steps.value.length;
    const frames: SVGGElement[] = [];
    for (let at = 0; at <= all; at++) {
      copy.position.value = at;
      copy.flight.value = null;
      await new Promise((drawn) => setTimeout(drawn));
      frames.push(frameOf(box.querySelector<SVGGElement>(".graph > svg > g")!, title, copy, at));
      tell(at, all);
    }
    return { title, frames, fonts: await fontFaces() };
  } finally {
    render(null, box);
    box.remove();
    copy.close();
  }
}

function element<K extends keyof SVGElementTagNameMap>(
  name: K,
  attributes: Record<string, string | number> = {},
): SVGElementTagNameMap[K] {
  const made = document.createElementNS(space, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, String(value));
  return made;
}

function frameOf(drawing: SVGGElement, title: string, stage: Stage, at: number): SVGGElement {
  const page = getComputedStyle(document.documentElement);
  const body = getComputedStyle(document.body);
  const frame = element("g");
  const paper = getComputedStyle(drawing.closest(".graph")!).backgroundColor;
  frame.append(element("rect", { width, height, fill: paper }));
  const text = (words: string, x: number, y: number, size: number, more = {}): void => {
    const line = element("text", { x, y, "font-size": size, fill: body.color, ...more });
    line.setAttribute("font-family", page.fontFamily);
    line.textContent = words;
    frame.append(line);
  };
  text(title, edge, 86, 46, { "font-weight": 700 });
  const count = say("walk.count", { step: at, steps: stage.steps.value.length });
  text(count, width - edge, 84, 32, { "text-anchor": "end" });
  const shown = drawing.getBBox();
  const room = { width: width - 2 * edge, height: height - band.top - band.bottom };
  const zoom = Math.min(room.width / shown.width, room.height / shown.height, 2.6);
  const x = (width - shown.width * zoom) / 2 - shown.x * zoom;
  const y = band.top + (room.height - shown.height * zoom) / 2 - shown.y * zoom;
  const picture = copied(drawing) as SVGGElement;
  picture.setAttribute("transform", `translate(${round(x)} ${round(y)}) scale(${round(zoom)})`);
  frame.append(picture);
  lines(whatHappened(stage), `34px ${page.fontFamily}`, width - 2 * edge)
    .slice(0, 3)
    .forEach((line, i) => text(line, edge, height - band.bottom + 62 + 46 * i, 34));
  return frame;
}

const round = (value: number): number => Math.round(value * 1000) / 1000;

/** An element of the drawing without what is only for the page, with its style as attributes. */
function copied(from: SVGElement): SVGElement | null {
  const name = from.localName;
  if (name === "foreignObject" || from.classList.contains("reach")) return null;
  const style = getComputedStyle(from);
  if (style.display === "none" || style.visibility === "hidden") return null;
  const made = document.createElementNS(space, name) as SVGElement;
  for (const { name: key, value } of from.attributes) {
    if (/^(d|x|y|x1|x2|y1|y2|cx|cy|r|rx|ry|dx|dy|width|height|transform|textLength|lengthAdjust)$/.test(key))
      made.setAttribute(key, value);
  }
  const parent = from.parentElement && getComputedStyle(from.parentElement);
  for (const key of styled) {
    const value = style.getPropertyValue(key);
    // What is inherited need not be said again; opacity is not.
    if (key === "opacity" ? value === "1" : parent?.getPropertyValue(key) === value && name === "tspan")
      continue;
    if (name === "g" && key !== "opacity") continue;
    made.setAttribute(key, value);
  }
  for (const child of from.childNodes) {
    if (child instanceof SVGElement) {
      const inside = copied(child);
      if (inside) made.append(inside);
    } else if (child instanceof Text) made.append(child.data);
  }
  return made;
}

/** A text in lines of at most this width. */
function lines(text: string, font: string, most: number): string[] {
  const measure = document.createElement("canvas").getContext("2d")!;
  measure.font = font;
  const found: string[] = [];
  for (const word of text.split(" ")) {
    const longer = found.length ? `${found.at(-1)} ${word}` : word;
    if (found.length && measure.measureText(longer).width <= most) found[found.length - 1] = longer;
    else found.push(word);
  }
  return found;
}

function picture(fonts: string, title: string): SVGSVGElement {
  const svg = element("svg", { width, height, viewBox: `0 0 ${width} ${height}` });
  const name = element("title");
  name.textContent = title;
  const style = element("style");
  style.textContent = fonts;
  svg.append(name, style);
  return svg;
}

const textOf = (svg: SVGSVGElement): string => new XMLSerializer().serializeToString(svg);

/** One step as a picture. */
export function still({ title, fonts }: Film, frame: SVGGElement): string {
  const svg = picture(fonts, title);
  svg.append(frame.cloneNode(true));
  return textOf(svg);
}

/** All steps in one picture that moves; where nothing moves it shows the last. */
export function animated({ title, fonts, frames }: Film, seconds: number): string {
  const svg = picture(fonts, title);
  const hold = frames.length + 1; // the last one stays twice as long
  frames.forEach((frame, i) => {
    const shown = frame.cloneNode(true) as SVGGElement;
    const last = i === frames.length - 1;
    const from = i / hold;
    const to = last ? 1 : (i + 1) / hold;
    shown.setAttribute("visibility", last ? "visible" : "hidden");
    const times = [...new Set([0, from, to, 1])];
    const values = times.map((time) => (time >= from && (time < to || last) ? "visible" : "hidden"));
    const times4 = times.map((time) => Math.round(time * 1e5) / 1e5);
    shown.append(
      element("animate", {
        attributeName: "visibility",
        calcMode: "discrete",
        dur: `${hold * seconds}s`,
        repeatCount: "indefinite",
        keyTimes: times4.join(";"),
        values: values.join(";"),
      }),
    );
    svg.append(shown);
  });
  return textOf(svg);
}

/** A picture as a PNG of the same size. */
export async function png(svg: string): Promise<Uint8Array<ArrayBuffer>> {
  const image = new Image(width, height);
  const address = URL.createObjectURL(new Blob([svg], { type: "image/svg+xml" }));
  try {
    image.src = address;
    await image.decode();
    const canvas = document.createElement("canvas");
    canvas.width = width;
    canvas.height = height;
    canvas.getContext("2d")!.drawImage(image, 0, 0);
    const blob = await new Promise<Blob | null>((done) => canvas.toBlob(done, "image/png"));
    return new Uint8Array(await blob!.arrayBuffer());
  } finally {
    URL.revokeObjectURL(address);
  }
}
