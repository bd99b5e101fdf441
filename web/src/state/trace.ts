// One recorded trace being looked at and walked: what is open, what is selected, where the walk is.

import { batch, computed, signal } from "@preact/signals";

import type { Edge, Step } from "../engine/types";
import { matrixBox } from "../layout/matrix";
import { planOf, type Plans, type SizeOf } from "../layout/nested";
import {
  type Counterpart,
  type Finding,
  type Kept,
  nodeName,
  shapeText,
  type Sweep,
  type Trace,
  type TraceNode,
} from "../trace/description";
import {
  around,
  type Item,
  keyOf,
  type Outline,
  outlineOf,
  scopeName,
  wayTo,
} from "../trace/outline";
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
  session?: string; // Python's name for it, once it has one
  findings?: Finding[]; // of its session
  seen?: [open: ReadonlySet<number>, selection: TraceSelection]; // when it was left
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

/** What is wrong with an operation or in a scope. */
interface Marks {
  broken: boolean; // NaN or infinity, in a value or a gradient
  sick: Finding[];
}

const unmarked: Marks = { broken: false, sick: [] };

export type TraceStep = Pick<Step, "phase" | "node">;

const wholeInSight = 40; // operations: a graph as small begins with everything open
const fewMatrices = 24; // operations: a graph as small begins with its arrays as matrices
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
  readonly wanted = signal<{ item: Item } | null>(null);

  private plans: Plans = new Map();
  readonly plan = computed(() => {
    const found = this.document.value;
    return found && planOf(found.outline, 0, this.open.value, this.plans, this.sizeOf.value);
  });
  /** Arrays stand in the boxes as matrices. */
  readonly matrices = signal(false);
  private readonly sizeOf = computed((): SizeOf | undefined => {
    const grads = this.sweep.value?.grads;
    return this.matrices.value
      ? (node) => matrixBox(this.node(node).metas[0]!.shape, Boolean(grads?.get(node)?.[0]))
      : undefined;
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
  readonly times = computed(() => {
    const nodes = this.document.value?.trace.nodes ?? [];
    const computed = nodes.map(() => 0);
    const visited = nodes.map(() => Infinity);
    const complete = [...visited];
    this.steps.value.forEach(({ phase, node }, i) => {
      const times = { forward: computed, seed: complete, backward: visited }[phase];
      times[node] = i + 1;
      if (phase === "backward")
        nodes[node]!.args.forEach((arg, argument) => {
          // Visits come in order, so the last one stays.
          if ("node" in arg && this.pushed(node, argument)) complete[arg.node] = i + 1;
        });
    });
    return { computed, visited, complete };
  });

  /** Nodes in which a value or a gradient is NaN or infinite; with findings, by node and scope. */
  readonly marks = computed(() => {
    const found = this.document.value;
    const broken = new Set<number>();
    const nodes = new Map<number, Marks>();
    const scopes = new Map<number, Marks>();
    const grads = this.sweep.value?.grads;
    // Where Python has looked and found none, infinities are meant: those of a mask.
    const meant = this.findings.value && !this.foundNan();
    found?.trace.nodes.forEach(({ values }, node) => {
      if (meant) return;
      if (values.some(isBroken) || grads?.get(node)?.some(isBroken)) broken.add(node);
    });
    const mark = (node: number, finding?: Finding): void => {
      const home = found?.outline.home[node];
      if (home === undefined) return;
      const places = wayTo(found!.outline, home).map((scope) => [scopes, scope] as const);
      for (const [marked, at] of [[nodes, node] as const, ...places]) {
        const { broken: before, sick } = marked.get(at) ?? unmarked;
        const more = finding && !sick.includes(finding) ? [finding] : [];
        marked.set(at, { broken: before || !finding, sick: [...sick, ...more] });
      }
    };
    for (const node of broken) mark(node);
    for (const finding of this.findings.value ?? [])
      for (const node of finding.nodes) mark(node, finding);
    return { broken, nodes, scopes };
  });

  /** Of two traces in one: the largest accumulated error in a scope, and whether one differs. */
  readonly errors = computed(() => {
    const found = this.document.value;
    const scopes = new Map<number, Pick<Counterpart, "accumulated" | "verdict">>();
    for (const [node, { accumulated, verdict }] of found?.trace.comparison?.nodes ?? [])
      for (const scope of wayTo(found!.outline, found!.outline.home[node]!)) {
        const before = scopes.get(scope);
        scopes.set(scope, {
          accumulated: Math.max(before?.accumulated || 0, accumulated || 0),
          verdict: before?.verdict || verdict,
        });
      }
    return scopes;
  });

  /** How far it is from its counterpart; undefined of what is not compared. */
  errorAt(item: Item): Pick<Counterpart, "accumulated" | "verdict"> | undefined {
    return "node" in item ? this.counterpart(item.node) : this.errors.value.get(item.scope);
  }

  counterpart(node: number): Counterpart | undefined {
    return this.trace.comparison?.nodes.get(node);
  }

  marksAt(item: Item): Marks {
    const { nodes, scopes } = this.marks.value;
    return ("node" in item ? nodes.get(item.node) : scopes.get(item.scope)) ?? unmarked;
  }

  show(document: Omit<TraceDocument, "outline"> & { outline?: Outline }, keep = false): void {
    const found = { ...document, outline: document.outline ?? outlineOf(document.trace) };
    batch(() => {
      const before = this.document.value;
      this.earlier.value = keep && before ? [...this.earlier.value, before] : [];
      if (before) before.seen = [this.open.value, this.selection.value];
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
    const [open, selection] = document.seen ?? [openAtFirst(document.outline), null];
    this.open.value = open;
    // Two traces side by side are compared by colour.
    this.matrices.value =
      !document.trace.comparison && document.outline.scopes[0]!.operations <= fewMatrices;
    this.document.value = document;
    this.selection.value = selection;
    this.wanted.value = null;
    this.findings.value = document.findings ?? document.trace.comparison?.findings ?? null;
    this.noFindings.value = "";
    this.sweepIndex.value = Math.max(0, document.trace.sweeps.length - 1);
    this.position.value = this.startOf(document);
  }

  /** What is to be learned begins at the start; what was recorded is all there. */
  private startOf({ origin }: TraceDocument): number {
    return origin.kind === "preset" ? 0 : this.steps.value.length;
  }

  /** As links name it: a preset, or the session that the page's address names. */
  link(): Link {
    const found = this.document.value;
    if (!found) return {};
    const { origin } = found;
    if (origin.kind === "trace" && !origin.session) return {};
    const selected = this.selection.value;
    const link: Link = {};
    if (origin.kind === "preset") link.preset = origin.id;
    if (this.position.value !== this.startOf(found)) link.step = this.position.value;
    if (selected?.kind === "node") link.select = `~${selected.node}`;
    if (selected?.kind === "edges")
      link.select = `~${selected.edges[0]!.node}.${selected.edges[0]!.argument}`;
    const [open, before] = [this.open.value, openAtFirst(found.outline)];
    // All of it (0) is always open: so a list is there where everything else is closed, too.
    if (open.size !== before.size || [...open].some((scope) => !before.has(scope)))
      link.open = [0, ...open].map((scope) => `~${scope}`);
    return link;
  }

  /** Show what a link names; says whether its selection is there. */
  follow({ step, select, open }: Link): boolean {
    this.position.value = Math.min(step ?? this.position.value, this.steps.value.length);
    const numbers = open?.map((scope) => Number(scope.slice(1)));
    if (numbers) this.open.value = new Set(numbers.filter((n) => n && this.outline.scopes[n]));
    if (!select) return true;
    const [, index, argument] = /^~(\d+)(?:\.(\d+))?$/.exec(select) ?? [];
    const node = index === undefined ? this.find(select) : Number(index);
    if (!this.trace.nodes[node]) return false;
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
    return scope === this.outline.aside
      ? say("trace.aside")
      : scopeName(this.trace, this.outline, scope);
  }

  private foundNan(): Finding | undefined {
    return this.findings.value?.find(({ kind }) => kind == "nan");
  }

  /**
   * Where Python says that it began; else the first value with a NaN or an infinity; if all are
   * finite, the first gradient to arrive.
   */
  firstBroken(): number {
    const cause = this.foundNan()?.nodes[0];
    if (cause !== undefined) return cause;
    const value = this.trace.nodes.findIndex(({ values }) => values.some(isBroken));
    if (value >= 0) return value;
    const { complete } = this.times.value;
    return [...this.marks.value.broken].sort((a, b) => complete[a]! - complete[b]!)[0]!;
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
    return this.times.value.computed[node]! <= this.position.value;
  }

  isVisited(node: number): boolean {
    return this.times.value.visited[node]! <= this.position.value;
  }

  isComplete(node: number): boolean {
    return this.times.value.complete[node]! <= this.position.value;
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
      const shape = shapeText(metas[0]!.shape) || "1";
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

  /** What to begin with: what is selected, else what is wrong. */
  lookAt(): Item | undefined {
    const selected = this.selection.value;
    if (selected?.kind === "scope") return selected;
    const { broken } = this.marks.value;
    const node =
      (selected?.kind === "edges" ? selected.edges[0]!.node : selected?.node) ??
      this.findings.value?.[0]?.nodes[0] ??
      (broken.size ? this.firstBroken() : undefined);
    return node === undefined ? undefined : this.shownFor(node);
  }

  select(selection: TraceSelection): void {
    this.selection.value = selection;
  }

  isChosen(item: Item): boolean {
    const selected = this.selection.value;
    return selected !== null && selected.kind !== "edges" && keyOf(selected) === keyOf(item);
  }

  /** Select a node or a scope, open what is around it, and bring it into sight. */
  reveal(item: Item): void {
    batch(() => {
      this.open.value = new Set([...this.open.value, ...around(this.outline, item)]);
      this.selection.value =
        "node" in item ? { kind: "node", ...item } : { kind: "scope", ...item };
      this.wanted.value = { item };
    });
  }

  /** The item in the drawing that stands for a node: itself, or the closed scope around it. */
  shownFor(node: number): Item {
    const scope = around(this.outline, { node }).find((one) => !this.open.value.has(one));
    return scope ? { scope } : { node };
  }
}

function openAtFirst({ scopes, aside }: Outline): Set<number> {
  const shown = (scope: number): boolean => scope !== aside;
  if (scopes[0]!.operations <= wholeInSight)
    return new Set([...scopes.keys()].filter((scope) => scope && shown(scope)));
  const open = new Set<number>();
  for (let at = 0; ;) {
    const inner = scopes[at]!.items.flatMap((item) => ("scope" in item ? [item.scope] : []));
    const [only, more] = inner.filter(shown);
    if (only === undefined || more || scopes[only]!.items.length > fewItems) return open;
    open.add((at = only));
  }
}

/** The page's one. */
export const traceStage = new TraceStage();

/** Note how long it took from `start` until what changed was drawn. */
export function measureDrawing(name: string, start: number): void {
  requestAnimationFrame(() => setTimeout(() => performance.measure(`gradwalk.${name}`, { start })));
}
