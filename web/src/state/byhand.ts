// By hand: what is asked on a stage, what was answered, and what may be seen meanwhile.

import { computed, type ReadonlySignal, signal } from "@preact/signals";

import { type Asked, check, type Verdict } from "../engine/byhand";
import { deriveText } from "../engine/derive";
import { expressionText, localText } from "../engine/formulas";
import { edgesInto, edgesOf, isLeaf } from "../engine/graph";
import { readNumber, shortNumber } from "../engine/numbers";
import type { Computed, Graph, Message } from "../engine/types";
import type { Stage, Standing } from "./stage";

export const kinds = ["value", "local", "grad"] as const;
export type Kind = (typeof kinds)[number];

export interface Answer {
  done?: "right" | "revealed";
  typed: string; // last
  message?: Message; // about what was typed
  hints: number; // shown
}

export interface Progress {
  right: number;
  revealed: number;
  total: number;
}

/** Every number is there, and no more of them were revealed than found. */
export const isFound = ({ right, revealed, total }: Progress): boolean =>
  right + revealed === total && right >= revealed;

export const keyOf = (asked: Asked): string =>
  asked.kind === "local"
    ? `local ${asked.edge.node}.${asked.edge.argument}`
    : `${asked.kind} ${asked.node}`;

/** All that can be asked of a graph: values forward, local derivatives, then gradients back. */
export function asksOf({ graph, reached }: Computed, kind: Kind): Asked[] {
  const nodes = graph.nodes.flatMap((_, node) => (reached[node] ? [node] : []));
  if (kind === "grad") return nodes.reverse().map((node) => ({ kind, node }));
  if (kind === "local") {
    return nodes.flatMap((node) => edgesOf(graph, node).map((edge) => ({ kind, edge })));
  }
  return nodes.filter((node) => !isLeaf(graph.nodes[node]!)).map((node) => ({ kind, node }));
}

const unanswered: Answer = { typed: "", hints: 0 };

export class ByHand {
  /** Of the page: which kinds are asked for. */
  readonly chosen = signal<Kind[]>([...kinds]);
  readonly asks: ReadonlySignal<Asked[]>;
  readonly round = signal(0); // how often it was begun again
  // Answers are about certain numbers: with others they are gone.
  private readonly kept = signal<{ numbers?: Computed; answers: Map<string, Answer> }>({
    answers: new Map(),
  });
  private readonly answers = computed(() =>
    this.kept.value.numbers === this.stage.numbers.value
      ? this.kept.value.answers
      : new Map<string, Answer>(),
  );
  readonly standing: ReadonlySignal<Standing> = computed(() => this.seen());
  readonly progress = computed<Progress>(() => {
    const done = this.asks.value.map((asked) => this.answerTo(asked).done);
    return {
      right: done.filter((d) => d === "right").length,
      revealed: done.filter((d) => d === "revealed").length,
      total: done.length,
    };
  });

  /** Without `asks`: all of the kinds chosen. */
  constructor(
    private readonly stage: Stage,
    asks?: Asked[],
  ) {
    this.asks = computed(
      () => asks ?? this.chosen.value.flatMap((kind) => asksOf(stage.numbers.value, kind)),
    );
  }

  answerTo(asked: Asked): Answer {
    return this.answers.value.get(keyOf(asked)) ?? unanswered;
  }

  /** Check what was typed; undefined if it is no number. */
  answer(asked: Asked, typed: string): Verdict | undefined {
    const number = readNumber(typed);
    if (number === undefined) {
      this.keep(asked, { typed, message: { key: "byhand.noNumber" } });
      return undefined;
    }
    const verdict = check(this.stage.numbers.value, asked, number, this.stage.shows.value === "all");
    const { message, right } = verdict;
    this.keep(asked, { typed, message, ...(right && { done: "right" as const }) });
    return verdict;
  }

  reveal(asked: Asked): void {
    this.keep(asked, { done: "revealed", message: { key: "byhand.revealed" } });
  }

  hint(asked: Asked): void {
    this.keep(asked, { hints: this.answerTo(asked).hints + 1 });
  }

  restart(): void {
    this.round.value += 1;
    this.kept.value = { answers: new Map() };
  }

  private keep(asked: Asked, more: Partial<Answer>): void {
    const answers = new Map(this.answers.value);
    answers.set(keyOf(asked), { ...this.answerTo(asked), ...more });
    this.kept.value = { numbers: this.stage.numbers.value, answers };
  }

  /** What is asked for is hidden until it is answered; what is not asked for may help. */
  private seen(): Standing {
    const numbers = this.stage.numbers.value;
    const { graph, grads } = numbers;
    const asked = new Map(this.asks.value.map((one) => [keyOf(one), this.answerTo(one).done]));
    const open = (key: string): boolean => asked.has(key) && !asked.get(key);
    const known = graph.nodes.map((_, node) => !open(`value ${node}`));
    const back = this.asks.value.some(({ kind }) => kind === "grad");
    const shown = graph.nodes.map((_, node) => {
      const given = back && node === graph.root; // the walk back begins with 1
      return asked.get(`grad ${node}`) || (given && !asked.has(`grad ${node}`))
        ? grads[node]!
        : null;
    });
    return {
      known,
      locals: graph.nodes.map((_, node) =>
        graph.nodes[node]!.args.map((_, argument) => {
          const key = `local ${node}.${argument}`;
          if (asked.has(key)) return !open(key);
          // A local derivative may be the value of an input: not before all of those are known.
          return known[node]! && edgesOf(graph, node).every((edge) => known[edge.source]);
        }),
      ),
      grads: shown,
      open: graph.nodes.map((_, node) => open(`grad ${node}`)),
      arrived: shown.map((grad, node) => (grad === null ? 0 : this.stage.expected.value[node]!)),
      visited: 0,
    };
  }
}

const own = new WeakMap<Stage, ByHand>();

/** The exercise of the page's panel: kept while other panels are looked at. */
export function byHandOn(stage: Stage): ByHand {
  const found = own.get(stage) ?? new ByHand(stage);
  own.set(stage, found);
  return found;
}

/** Hints from vague to nearly the answer. */
export function hintsFor(computed: Computed, asked: Asked, known: boolean[]): Message[] {
  const { graph } = computed;
  const formula = (text: string): Message => ({
    key: "byhand.hint.formula",
    values: { formula: text },
  });
  const name = (node: number): string => graph.nodes[node]!.label;
  if (asked.kind === "value") {
    const texts = [
      expressionText(graph, asked.node),
      expressionText(inNumbers(computed, known), asked.node),
    ];
    return [...new Set(texts)].map((text) => formula(`${name(asked.node)} = ${text}`));
  }
  if (asked.kind === "local") {
    const [to, from] = [name(asked.edge.node), name(asked.edge.source)];
    const text = localText(graph, asked.edge);
    return [
      { key: "byhand.hint.local", values: { to, from } },
      ...(text ? [formula(`∂${to}/∂${from} = ${text}`)] : []),
    ];
  }
  if (asked.node === graph.root)
    return [{ key: "byhand.hint.root", values: { name: name(asked.node) } }];
  const consumers = edgesInto(graph, asked.node)
    .filter((edge) => computed.reached[edge.node])
    .map((edge) => name(edge.node));
  const line = deriveText(computed, asked.node).lines.find(({ node }) => node === asked.node);
  return [
    {
      key: "byhand.hint.grad",
      values: { name: name(asked.node), count: consumers.length, consumers: consumers.join(", ") },
    },
    ...(line?.right.slice(0, -1) ?? []).map((text) => formula(`${line!.left} = ${text}`)),
  ];
}

/** The graph with numbers for names, where they are known. */
function inNumbers({ graph, values }: Computed, known: boolean[]): Graph {
  const text = (value: number): string =>
    value < 0 ? `(${shortNumber(value)})` : shortNumber(value);
  const nodes = graph.nodes.map((node, i) =>
    known[i] ? { ...node, label: text(values[i]!) } : node,
  );
  return { ...graph, nodes };
}
