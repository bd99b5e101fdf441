// Links of version 1, both ways, as text: what a link means on a stage is in address.ts.
// A link that opened once opens the same in every later release (tests/studio/links.json).

import type { Edge, Graph, Message } from "../engine/types";
import { edgesOf, hasTwin } from "../engine/graph";
import { exactNumber, readNumber } from "../engine/numbers";

export interface Link {
  preset?: string;
  source?: string;
  set?: [name: string, value: number][];
  train?: string; // the playground's settings
  trained?: number; // its steps
  point?: number; // of its data: the graph of its loss
  lesson?: string;
  at?: string; // a block's id; in links of old, its number
  step?: number;
  select?: string;
  panel?: string;
  drawing?: "nodes" | "edges";
  open?: string[]; // composite ops shown open
  order?: string[];
  overwrite?: boolean;
  lang?: string;
}

export interface ReadLink {
  link: Link;
  problems: Message[];
}

const version = "1";

/** Read what follows the # of an address. What is wrong with it is told, the rest is used. */
export function readLink(fragment: string): ReadLink {
  const link: Link = {};
  const problems: Message[] = [];
  const parts = fragment.replace(/^#/, "").split("&").filter(Boolean);
  if (!parts.length) return { link, problems };
  let found = "";
  for (const part of parts) {
    const cut = part.indexOf("=");
    const key = cut < 0 ? part : part.slice(0, cut);
    const value = decode(cut < 0 ? "" : part.slice(cut + 1));
    if (key === "v") found = value;
    else if (key !== "token" && !put(link, key, value)) {
      problems.push({ key: "link.part", values: { part: `${key}=${value}`.slice(0, 80) } });
    }
  }
  if (found !== version && Object.keys(link).length + problems.length > 0) {
    const wrong: Message = found
      ? { key: "link.version", values: { version: found } }
      : { key: "link.part", values: { part: fragment.slice(0, 80) } };
    return { link: {}, problems: [wrong] };
  }
  return { link, problems };
}

/** Whether the part was understood. */
function put(link: Link, key: string, value: string): boolean {
  if (key === "preset" || key === "lesson" || key === "at" || key === "panel" || key === "lang") {
    if (!/^[\w-]{1,60}$/.test(value)) return false;
    link[key] = value;
  } else if (key === "source" || key === "select") {
    if (!value || value.length > 10_000) return false;
    link[key] = value;
  } else if (key === "step" || key === "trained" || key === "point") {
    if (!/^\d{1,7}$/.test(value)) return false;
    link[key] = Number(value);
  } else if (key === "train") {
    if (!/^[\w:.,-]{1,400}$/.test(value)) return false;
    link.train = value;
  } else if (key === "drawing") {
    if (value !== "nodes" && value !== "edges") return false;
    link.drawing = value;
  } else if (key === "overwrite") {
    if (value !== "1" && value !== "0") return false;
    link.overwrite = value === "1";
  } else if (key === "order" || key === "open") {
    link[key] = value ? value.split(",") : [];
  } else if (key === "set") {
    const pairs = value.split(",");
    link.set = pairs.flatMap((pair): [string, number][] => {
      const cut = pair.lastIndexOf(":");
      const number = readNumber(pair.slice(cut + 1));
      return cut < 1 || number === undefined ? [] : [[pair.slice(0, cut), number]];
    });
    return link.set.length === pairs.length;
  } else return false;
  return true;
}

export function writeLink(link: Link): string {
  const parts: string[] = [];
  const add = (key: string, value: string | number | undefined): void => {
    if (value !== undefined) parts.push(`${key}=${encode(String(value))}`);
  };
  add("preset", link.preset);
  add("source", link.source);
  add(
    "set",
    link.set?.map(([name, value]) => `${name}:${exactNumber(value)}`).join(",") || undefined,
  );
  add("train", link.train);
  add("trained", link.trained || undefined);
  add("point", link.point);
  add("lesson", link.lesson);
  add("at", link.at);
  add("step", link.step);
  add("select", link.select);
  add("panel", link.panel);
  add("drawing", link.drawing === "edges" ? "edges" : undefined);
  add("open", link.open?.join(",") || undefined);
  add("order", link.order?.join(","));
  add("overwrite", link.overwrite ? 1 : undefined);
  add("lang", link.lang);
  return parts.length ? `#v=${version}&${parts.join("&")}` : "";
}

/** A + stays a +, as people write it; brackets are hidden from who guesses where a link ends. */
function encode(text: string): string {
  return encodeURIComponent(text)
    .replace(/[!'()*]/g, (sign) => `%${sign.charCodeAt(0).toString(16).toUpperCase()}`)
    .replace(/%(2C|3A|2B|3D)/g, (code) => decodeURIComponent(code));
}

function decode(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

// -- names of nodes, edges and paths ------------------------------------------------------------

/** What a link calls a node: its name if that is unique and plain, else ~ and its number. */
export function nodeToken(graph: Graph, node: number): string {
  const label = graph.nodes[node]!.label;
  const plain = /^[\p{L}_][\p{L}\p{N}_]*$/u.test(label);
  return plain && graph.nodes.findIndex((n) => n.label === label) === node ? label : `~${node}`;
}

export function findNode(graph: Graph, token: string): number | undefined {
  const at = token.startsWith("~")
    ? Number(token.slice(1))
    : graph.nodes.findIndex((node) => node.label === token);
  return Number.isInteger(at) && at >= 0 && at < graph.nodes.length ? at : undefined;
}

export function edgeToken(graph: Graph, edge: Edge): string {
  return `${nodeToken(graph, edge.node)}.${edge.argument}`;
}

/** A path from the root down; the argument is named only where two edges join the same nodes. */
export function pathToken(graph: Graph, edges: Edge[]): string {
  const tokens = edges.map((edge) => {
    return hasTwin(graph, edge) ? edgeToken(graph, edge) : nodeToken(graph, edge.node);
  });
  const last = edges.at(-1);
  return [...tokens, ...(last ? [nodeToken(graph, last.source)] : [])].join(">");
}

/** A node, an edge or the edges of a path. */
export function findSelection(
  graph: Graph,
  text: string,
): { node: number } | { edge: Edge } | { edges: Edge[] } | undefined {
  const tokens = text.split(">").map((token) => {
    const [name = "", argument] = token.split(".");
    return { node: findNode(graph, name), argument: argument && Number(argument) };
  });
  const first = tokens[0]!;
  if (first.node === undefined) return undefined;
  if (tokens.length === 1) {
    if (first.argument === undefined) return { node: first.node };
    const edge = edgesOf(graph, first.node).find((e) => e.argument === first.argument);
    return edge && { edge };
  }
  const edges: Edge[] = [];
  for (const [i, token] of tokens.slice(0, -1).entries()) {
    const to = tokens[i + 1]!.node;
    const edge =
      token.node === undefined
        ? undefined
        : edgesOf(graph, token.node).find(
            (e) =>
              e.source === to && (token.argument === undefined || e.argument === token.argument),
          );
    if (!edge) return undefined;
    edges.push(edge);
  }
  return { edges };
}
