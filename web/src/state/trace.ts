// One recorded trace being looked at and walked: what is open, what is selected, where the walk is.

import { batch, computed, signal } from "@preact/signals";

import type { Edge, Step } from "../engine/types";
import { planOf, type Plans } from "../layout/nested";
import { type Kept, nodeName, type Sweep, type Trace, type TraceNode } from "../trace/description";
import { type Outline, outlineOf, scopeName, wayTo } from "../trace/outline";
import type { ArraySource } from "../trace/source";
import { isBroken, normText } from "../trace/statistics";
import type { Link } from "./links";
import type { Origin } from "./stage";
import { Walker } from "./walker";
import { say } from "./words";

/** What is open. */
export interface TraceDocument {
  title: string;
  trace: Trace;
  outline: Outline;
  arrays: ArraySource;
  description: unknown; // as it was read: for exports
  origin: Origin;
  session: string; // Python's name for it; "" while it has none
  file?: Blob;
}

/** A preset is called so in every language; what is recorded has a name of its own. */
export const shownTitle = ({ origin, title }: TraceDocument): string =>
  origin.kind === "preset" ? say(`preset.${origin.id}.title`) : title;

export type TraceSelection =
  | null
  | { kind: "node"; node: number }
  | { kind: "scope"; scope: number }
  | { kind: "edges"; edges: Edge[] };

/** What Python found wrong with it: GET api/sessions/ID/health. */
export interface Finding {
  kind: string;
  layer: string;
  nodes: number[];
  text: string;
  chain: string;
  fix: string;
}

export type TraceStep = Pick<Step, "phase" | "node">;

const wholeInSight = 40; // operations: a graph as small begins with everything open
const fewItems = 30; // a single outermost module is open from the start if it has no more

export class TraceStage extends Walker<TraceStep> {
  readonly document = signal<TraceDocument | null>(null);
  readonly earlier = signal<TraceDocument[]>([]); // to go back to
  readonly open = signal<ReadonlySet<number>>(new Set());
  readonly selection = signal<TraceSelection>(null);
  readonly sweepIndex = signal(0);
  readonly findings = signal<Finding[] | null>(null); // null: not known
  readonly noFindings = signal(""); // why they are not known, in the server's words
  /** What should be brought into sight: every object is one wish. */
  readonly wanted = signal<{ item: { node: number } | { scope: number } } | null>(null);

  private plans: Plans = new Map();
  readonly plan = computed(() => {
    const found = this.document.value;
    return found && planOf(found.outline, 0, this.open.value, this.plans);
  });

  readonly sweep = computed<Sweep | undefined>(
    () => this.document.value?.trace.sweeps[this.sweepIndex.value],
  );
  readonly steps = computed<TraceStep[]>(() => {
    const nodes = this.document.value?.trace.nodes ?? [];
    const sweep = this.sweep.value;
    return [
      ...nodes.flatMap(({ op }, node): TraceStep[] => (op ? [{ phase: "forward", node }] : [])),
      ...(sweep?.seeds ?? []).map(({ node }): TraceStep => ({ phase: "seed", node })),
      ...(sweep?.visits ?? []).map((node): TraceStep => ({ phase: "backward", node })),
    ];
  });
  /** By node: after which step it is computed, visited, and has its whole gradient. */
  private readonly times = computed(() => {
    const trace = this.document.value?.trace;
    const computedAt = (trace?.nodes ?? []).map(() => 0);
    const visitedAt = computedAt.map(() => Infinity);
    const completeAt = computedAt.map(() => Infinity);
    this.steps.value.forEach(({ phase, node }, i) => {
      if (phase === "forward") computedAt[node] = i + 1;
      else if (phase === "seed") completeAt[node] = i + 1;
      else {
        visitedAt[node] = i + 1;
        trace!.nodes[node]!.args.forEach((arg, argument) => {
          // Visits come in order, so the last one stays.
          if ("node" in arg && this.pushed(node, argument)) completeAt[arg.node] = i + 1;
        });
      }
    });
    return { computedAt, visitedAt, completeAt };
  });

  /** Nodes in which a value or a gradient is NaN or infinite, and findings, by node and by scope. */
  readonly marks = computed(() => {
    const found = this.document.value;
    const broken = new Set<number>();
    const sick = new Map<number, Finding[]>();
    const scopes = new Map<number, { broken: number; sick: Set<Finding> }>();
    if (!found) return { broken, sick, scopes };
    const grads = this.sweep.value?.grads;
    found.trace.nodes.forEach(({ values }, node) => {
      if (values.some(isBroken) || grads?.get(node)?.some(isBroken)) broken.add(node);
    });
    for (const finding of this.findings.value ?? []) {
      for (const node of finding.nodes) sick.set(node, [...(sick.get(node) ?? []), finding]);
    }
    for (const node of new Set([...broken, ...sick.keys()])) {
      if (node >= found.outline.home.length) continue;
      for (const scope of wayTo(found.outline, found.outline.home[node]!)) {
        const marks = scopes.get(scope) ?? { broken: 0, sick: new Set() };
        if (broken.has(node)) marks.broken++;
        for (const finding of sick.get(node) ?? []) marks.sick.add(finding);
        scopes.set(scope, marks);
      }
    }
    return { broken, sick, scopes };
  });

  show(document: Omit<TraceDocument, "outline"> & { outline?: Outline }, keep = false): void {
    const found = { ...document, outline: document.outline ?? outlineOf(document.trace) };
    batch(() => {
      const before = this.document.value;
      this.earlier.value = keep && before ? [...this.earlier.value, before] : [];
      this.put(found);
    });
  }

  /** To the trace that was open before this one was opened from it. */
  back(): void {
    const last = this.earlier.value.at(-1);
    if (!last) return;
    batch(() => {
      this.earlier.value = this.earlier.value.slice(0, -1);
      this.put(last);
    });
  }

  private put(document: TraceDocument): void {
    this.playing.value = false;
    this.plans = new Map();
    this.open.value = openAtFirst(document.outline);
    this.document.value = document;
    this.selection.value = null;
    this.findings.value = null;
    this.noFindings.value = "";
    this.sweepIndex.value = Math.max(0, document.trace.sweeps.length - 1);
    // What is to be learned begins at the start; what was recorded is all there.
    this.position.value = document.origin.kind === "preset" ? 0 : this.steps.value.length;
  }

  /** As links name it: only presets can be named. */
  link(): Link {
    const origin = this.document.value?.origin;
    const selected = this.selection.value;
    if (origin?.kind !== "preset") return {};
    const found: Link = { preset: origin.id, step: this.position.value };
    if (selected?.kind === "node") found.select = `~${selected.node}`;
    if (selected?.kind === "edges")
      found.select = `~${selected.edges[0]!.node}.${selected.edges[0]!.argument}`;
    return found;
  }

  /** Show what a link names; says whether its selection is there. */
  follow({ step, select }: Link): boolean {
    this.position.value = Math.min(step ?? this.position.value, this.steps.value.length);
    if (!select) return true;
    const [, index, argument] = /^~(\d+)(?:\.(\d+))?$/.exec(select) ?? [];
    const node = index === undefined ? this.find(select) : Number(index);
    if (!(node >= 0 && node < this.trace.nodes.length)) return false;
    if (argument === undefined) {
      this.select({ kind: "node", node });
      return true;
    }
    const arg = this.node(node).args[Number(argument)];
    if (!arg || !("node" in arg)) return false;
    this.select({ kind: "edges", edges: [{ node, argument: Number(argument), source: arg.node }] });
    return true;
  }

  private find(name: string): number {
    return this.trace.nodes.findIndex((_, node) => this.name(node) === name);
  }

  // -- what is there -----------------------------------------------------------------------------

  get trace(): Trace {
    return this.document.value!.trace;
  }

  get outline(): Outline {
    return this.document.value!.outline;
  }

  node(index: number): TraceNode {
    return this.trace.nodes[index]!;
  }

  name(index: number): string {
    return nodeName(this.trace, index);
  }

  scopeName(scope: number): string {
    return scopeName(this.trace, this.outline, scope);
  }

  /** The first value with a NaN or an infinity; if all are finite, the first gradient. */
  firstBroken(): number {
    const { broken } = this.marks.value;
    const value = this.trace.nodes.findIndex(({ values }) => values.some(isBroken));
    const visited = this.sweep.value?.visits.find((node) => broken.has(node));
    return value >= 0 ? value : (visited ?? Math.min(...broken));
  }

  /** The recorded gradient of a node. */
  gradient(node: number, output = 0): Kept | null {
    return this.sweep.value?.grads.get(node)?.[output] ?? null;
  }

  /** What went back along an operand. */
  pushed(node: number, argument: number): Kept | null {
    return this.sweep.value?.pushed.get(node)?.[argument] ?? null;
  }

  isKnown(node: number): boolean {
    return this.times.value.computedAt[node]! <= this.position.value;
  }

  isVisited(node: number): boolean {
    return this.times.value.visitedAt[node]! <= this.position.value;
  }

  isComplete(node: number): boolean {
    return this.times.value.completeAt[node]! <= this.position.value;
  }

  /** The steps at which it is computed and visited. */
  stepsAt(node: number): { computed: number; visited: number } {
    const { computedAt, visitedAt } = this.times.value;
    return { computed: computedAt[node]!, visited: visitedAt[node]! };
  }

  narrate(): string {
    const step = this.current.value;
    if (!step) return say("trace.notBegun");
    const begin = say("walk.step", {
      step: this.position.value,
      steps: this.steps.value.length,
      phase: say(`phase.${step.phase}`),
    });
    return [begin, ...this.sentences(step)].join(" ");
  }

  private sentences({ phase, node }: TraceStep): string[] {
    const name = this.name(node);
    if (phase === "seed") return [say("walk.seed", { name })];
    const { op, args, metas, values } = this.node(node);
    if (phase === "forward") {
      const shape = metas[0]!.shape.join("×") || "1";
      return [say("trace.forward", { name, op, shape, norm: normText(values[0]) })];
    }
    const sent = args.flatMap((arg, argument) => {
      const pushed = this.pushed(node, argument);
      return "node" in arg && pushed
        ? [say("trace.push", { name: this.name(arg.node), norm: normText(pushed) })]
        : [];
    });
    return [say("trace.backward", { name, norm: normText(this.gradient(node)) }), ...sent];
  }

  // -- opening and selecting ---------------------------------------------------------------------

  toggle(scope: number): void {
    const open = new Set(this.open.value);
    if (!open.delete(scope)) open.add(scope);
    batch(() => {
      this.open.value = open;
      this.selection.value = { kind: "scope", scope };
    });
  }

  closeAll(): void {
    this.open.value = new Set();
    this.wanted.value = { item: { scope: 0 } };
  }

  select(selection: TraceSelection): void {
    this.selection.value = selection;
  }

  /** Select a node or a scope, open what is around it, and bring it into sight. */
  reveal(item: { node: number } | { scope: number }): void {
    const inside =
      "node" in item ? this.outline.home[item.node]! : this.outline.scopes[item.scope]!.above;
    batch(() => {
      this.open.value = new Set([...this.open.value, ...wayTo(this.outline, inside).slice(1)]);
      this.selection.value =
        "node" in item ? { kind: "node", ...item } : { kind: "scope", ...item };
      this.wanted.value = { item };
    });
  }

  /** The item in the drawing that stands for a node: itself, or the closed scope around it. */
  shownFor(node: number): { node: number } | { scope: number } {
    const way = wayTo(this.outline, this.outline.home[node]!);
    const closed = way.find((scope) => scope > 0 && !this.open.value.has(scope));
    return closed === undefined ? { node } : { scope: closed };
  }
}

function openAtFirst(outline: Outline): Set<number> {
  const { scopes } = outline;
  if (scopes[0]!.operations <= wholeInSight) return new Set(scopes.keys());
  const open = new Set<number>();
  for (let at = 0; ;) {
    const inner = scopes[at]!.items.flatMap((item) => ("scope" in item ? [item.scope] : []));
    if (inner.length !== 1 || scopes[inner[0]!]!.items.length > fewItems) return open;
    open.add((at = inner[0]!));
  }
}

/** The page's one. */
export const traceStage = new TraceStage();
