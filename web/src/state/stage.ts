// A stage: one graph of numbers being walked. The page has one; a lesson has one for every graph in
// it. Components find theirs with useStage() (view/stage.tsx), so that the same views serve both.

import { batch, computed, signal } from "@preact/signals";

import { expand } from "../engine/expand";
import { compute, leavesOf, tangents } from "../engine/graph";
import { computedOrder, orderSteps } from "../engine/order-steps";
import type { Computed, Edge, Graph, Path, Step } from "../engine/types";
import { stepsOf } from "../engine/walk";
import type { ByHand } from "./byhand";
import { narrate } from "./narrate";
import { Walker } from "./walker";

/** Where a graph came from: what a link to it names. */
export type Origin =
  | { kind: "preset"; id: string }
  | { kind: "expression"; source: string; title?: string }
  | { kind: "trace"; title: string; session?: string } // the session that the address names
  | { kind: "lesson"; id: string }
  // A point of the playground's data, after so many steps of training.
  | { kind: "point"; title: string; train: string; trained: number; point: number };

export interface Scene {
  origin: Origin;
  graph: Graph;
  given: number[]; // by node: of leaves the number it was opened with, else anything
  assumed: number[]; // leaves that nobody gave a number
}

export type Selection =
  | null
  | { kind: "node"; node: number }
  | { kind: "edge"; edge: Edge }
  | { kind: "path"; path: Path };

export type Drawing = "nodes" | "edges";

/** A leaf was given another number: what was before, and what the derivatives say of the change. */
export interface Change {
  leaf: number;
  before: Computed;
  predicted: number[]; // by node: the first-order change
}

/** A composite op that is shown open: the name of its result, and the nodes that stand for it. */
export interface Opened {
  label: string;
  op: string;
  nodes: number[];
}

/** What is known after so many steps. */
export interface Standing {
  known: boolean[]; // by node: whether it has its value
  grads: (number | null)[]; // what has arrived; null before anything has
  arrived: number[]; // how many contributions have
  visited: number; // edges
  pushed?: Record<number, number>[]; // by node and argument: what was handed back last
  // By hand: which local derivatives may be seen, by node and argument, and which gradients are
  // asked for.
  locals?: boolean[][];
  open?: boolean[];
}

const empty: Graph = { nodes: [{ op: "", args: [], attrs: {}, label: "x" }], root: 0 };

export class Stage extends Walker {
  readonly scene = signal<Scene>({
    origin: { kind: "expression", source: "x" },
    graph: empty,
    given: [1],
    assumed: [],
  });
  /** The graph's numbers. Change them with setLeaf. */
  readonly numbers = signal<Computed>(compute(empty, [1]));
  readonly opened = signal<Opened[]>([]);
  readonly change = signal<Change | null>(null);
  readonly selection = signal<Selection>(null);
  readonly picked = signal(0); // how often something was picked in the drawing
  readonly drawing = signal<Drawing>("nodes");
  /** What of the walk is seen: early lessons have values only, or the numbers on edges as well. */
  readonly shows = signal<"values" | "edges" | "all">("all");
  /** Whether the order lab is open: then its visits are walked. */
  readonly lab = signal(false);
  /** Of the order lab: the order tried (null: none yet), and `=` instead of `+=`. */
  readonly order = signal<number[] | null>(null);
  readonly overwrite = signal(false);
  readonly lost = signal<Edge[]>([]); // to be marked in the drawing
  /** Numbers are being found by hand, and hidden until they are. */
  readonly byHand = signal<ByHand | null>(null);

  readonly graph = computed(() => this.numbers.value.graph);
  private readonly rightSteps = computed<Step[]>(() => stepsOf(this.numbers.value));
  readonly steps = computed<Step[]>(() => {
    if (this.shows.value !== "all") {
      return this.rightSteps.value.filter(({ phase }) => phase === "forward");
    }
    if (!this.lab.value) return this.rightSteps.value;
    const numbers = this.numbers.value;
    return orderSteps(numbers, this.order.value ?? computedOrder(numbers), this.overwrite.value);
  });
  readonly standing = computed<Standing>(
    () =>
      this.byHand.value?.standing.value ??
      standingAt(this.graph.value, this.steps.value, this.position.value),
  );
  /** As it is drawn: what is on its way has not arrived. */
  readonly inSight = computed<Standing>(() => {
    const flight = this.flight.value;
    if (!flight || flight.undone) return this.standing.value;
    return standingAt(this.graph.value, this.steps.value, flight.step);
  });
  /** Of the steps done, the one that made the first NaN or infinity. */
  readonly cause = computed(() => {
    const { values } = this.numbers.value;
    const done = this.byHand.value ? [] : this.steps.value.slice(0, this.position.value);
    return done.find((step) =>
      step.phase === "backward"
        ? step.pushes.some(({ after }) => !Number.isFinite(after))
        : !Number.isFinite(values[step.node]),
    );
  });
  /** By node: how many contributions its gradient is made of. */
  readonly expected = computed(
    () => standingAt(this.graph.value, this.rightSteps.value, Infinity).arrived,
  );

  private settled = true;

  open(scene: Scene): void {
    batch(() => {
      this.playing.value = false;
      this.scene.value = scene;
      this.numbers.value = compute(scene.graph, scene.given);
      this.opened.value = [];
      this.change.value = null;
      this.selection.value = null;
      this.position.value = 0;
      this.land();
      this.order.value = null;
      this.overwrite.value = false;
    });
  }

  // -- walking -----------------------------------------------------------------------------------

  narrate(): string {
    return narrate(this);
  }

  /** By hand there are none: a step would give the answers away. */
  protected override stepAt(index: number): Step | undefined {
    return this.byHand.value ? undefined : super.stepAt(index);
  }

  protected override go(position: number): void {
    if (!this.byHand.value) super.go(position);
  }

  // -- editing -----------------------------------------------------------------------------------

  /** Give a leaf another number; everything is computed again, the position stays. */
  setLeaf(leaf: number, value: number): void {
    const before = this.numbers.value;
    if (Object.is(before.values[leaf], value)) return;
    const again = !this.settled && this.change.value?.leaf === leaf;
    const base = again && this.change.value ? this.change.value.before : before;
    const values = before.values.slice();
    values[leaf] = value;
    batch(() => {
      this.settled = false;
      this.numbers.value = compute(before.graph, values);
      this.change.value = { leaf, before: base, predicted: firstOrder(base, leaf, value) };
      if (this.selection.value?.kind === "path") this.selection.value = null;
    });
  }

  /** The next edit of the same leaf is a change of its own. */
  settle(): void {
    this.settled = true;
  }

  forgetChange(): void {
    this.change.value = null;
    this.settled = true;
  }

  /** All leaves as the scene was opened. */
  reset(): void {
    this.show(
      this.scene.value.given,
      this.opened.value.map(({ label }) => label),
    );
  }

  // -- composite ops -----------------------------------------------------------------------------

  /** Show a composite op open, by the name of its result: tanh as exponentials. */
  openNode(label: string): void {
    this.show(this.leafValues(), [...this.opened.value.map((o) => o.label), label]);
  }

  closeNode(label: string): void {
    const others = this.opened.value.map((o) => o.label).filter((other) => other !== label);
    this.show(this.leafValues(), others);
  }

  /** The leaves' numbers now, by the nodes of the scene's graph: opening a node adds no leaves. */
  private leafValues(): number[] {
    const { graph, values } = this.numbers.value;
    const leaves = leavesOf(graph).map((leaf) => values[leaf]!);
    return this.scene.value.graph.nodes.map((node) => (node.op ? NaN : leaves.shift()!));
  }

  private show(given: number[], labels: string[]): void {
    let numbers = compute(this.scene.value.graph, given);
    let opened: Opened[] = [];
    for (const label of labels) {
      const at = numbers.graph.nodes.findIndex((node) => node.label === label);
      const found = at < 0 ? undefined : expand(numbers, at);
      if (!found) continue; // it was part of another that is closed now
      const { op } = numbers.graph.nodes[at]!;
      opened = opened.map((one) => ({
        ...one,
        nodes: found.origin.flatMap((was, i) => (one.nodes.includes(was) ? [i] : [])),
      }));
      opened.push({ label, op, nodes: found.inside });
      numbers = compute(found.graph, found.given);
    }
    this.walkAnew(() => {
      this.forgetChange();
      this.selection.value = null;
      this.order.value = null;
      this.opened.value = opened;
      this.numbers.value = numbers;
    });
  }

  /** Other steps: who was at the end stays there, who was on the way back begins it again. */
  private walkAnew(change: () => void): void {
    const atEnd = this.position.value === this.steps.value.length;
    const forward = this.phase.value === "forward";
    batch(() => {
      this.land();
      change();
      const last = this.steps.value.length;
      this.position.value = atEnd
        ? last
        : forward
          ? Math.min(this.position.value, this.turn)
          : this.turn;
    });
  }

  // -- the order lab -----------------------------------------------------------------------------

  /** Walk the visits of the order lab, or the right ones again. */
  setLab(on: boolean): void {
    if (on === this.lab.value) return;
    this.walkAnew(() => {
      this.playing.value = false;
      this.lab.value = on;
      this.lost.value = [];
      // The lab is about the way back: the values are there.
      if (on) this.position.value = Math.max(this.position.value, this.turn);
    });
  }

  /** Visit the nodes in this order. */
  arrange(order: number[], overwrite = this.overwrite.value): void {
    this.walkAnew(() => {
      this.playing.value = false;
      this.order.value = order;
      this.overwrite.value = overwrite;
      if (this.selection.value?.kind === "path") this.selection.value = null;
    });
  }

  /** Visit by visit, or all of them. */
  runVisits(all: boolean): void {
    this.move(all ? Infinity : Math.max(this.turn, this.position.value) + 1);
  }

  /** Before the first visit. */
  rewind(): void {
    this.move(this.turn);
  }

  // -- selecting ---------------------------------------------------------------------------------

  select(selection: Selection): void {
    this.selection.value = selection;
  }

  /** Selected in the drawing: whoever shows selections should show this one. */
  pick(selection: Selection): void {
    batch(() => {
      this.select(selection);
      this.picked.value += 1;
    });
  }

  selectNode(node: number): void {
    this.select({ kind: "node", node });
  }

  selectEdge(edge: Edge): void {
    this.select({ kind: "edge", edge });
  }

  selectPath(path: Path): void {
    this.select({ kind: "path", path });
  }

  name(node: number): string {
    return this.graph.value.nodes[node]?.label ?? "";
  }

  names(nodes: number[], between = ", "): string {
    return nodes.map((node) => this.name(node)).join(between);
  }
}

function standingAt(graph: Graph, steps: Step[], position: number): Standing {
  const count = graph.nodes.length;
  const standing: Standing = {
    known: graph.nodes.map((node) => node.op === ""), // leaves are given
    grads: new Array<number | null>(count).fill(null),
    arrived: new Array<number>(count).fill(0),
    visited: 0,
    pushed: graph.nodes.map(() => ({})),
  };
  for (const step of steps.slice(0, position)) {
    if (step.phase === "forward") standing.known[step.node] = true;
    else if (step.phase === "seed") {
      standing.grads[step.node] = 1;
      standing.arrived[step.node] = 1;
    } else {
      for (const push of step.pushes) {
        standing.grads[push.edge.source] = push.after;
        standing.arrived[push.edge.source]! += 1;
        standing.visited += 1;
        standing.pushed![push.edge.node]![push.edge.argument] = push.amount;
      }
    }
  }
  return standing;
}

/** By node: how far it moves when a leaf moves to `value`, by its derivatives alone. */
function firstOrder(base: Computed, leaf: number, value: number): number[] {
  const by = value - base.values[leaf]!;
  return tangents(base, leaf).map((slope) => (slope === 0 ? 0 : slope * by));
}
