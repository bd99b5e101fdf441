// Typed expressions: `e = a·b; tanh(e + c)` becomes a graph. Nothing is executed. The reader
// (grammar.ts) finds every mistake; what it lets pass is turned into steps, operands first.

import { plainName, Reader, type Sentence, type Token, Wrong } from "./grammar";
import { leavesOf } from "./graph";
import { attributesOf, OPS } from "./ops";
import { own } from "./own";
import { tables } from "./tables";
import type { Graph, GraphNode, Message, Mistake, Operand } from "./types";

export interface Built {
  graph: Graph;
  values: number[]; // by node: those of the leaves
  assumed: number[]; // leaves that were given no number, and are 1
  unused: string[]; // assigned, but no part of what is differentiated
}

/** What its author may not have meant; the command line says the same. */
export function notesOf({ graph, assumed, unused }: Built): Message[] {
  const names = assumed.map((leaf) => graph.nodes[leaf]!.label);
  const root = graph.nodes[graph.root]!;
  return [
    ...(names.length
      ? [{ key: "note.assumed", values: { value: DEFAULT, names: names.join(", ") } }]
      : []),
    ...["e", "π"].filter((name) => names.includes(name)).map((name) => ({ key: `note.${name}` })),
    ...(unused.length
      ? [{ key: "note.unused", values: { root: root.label, names: unused.join(", ") } }]
      : []),
    ...(root.op ? [] : [{ key: "note.constant" }]),
  ];
}

const DEFAULT = 1;
const SPELLED: Record<string, string> = {
  add: "+",
  sub: "-",
  mul: "*",
  div: "/",
  pow: "^",
  neg: "neg",
};
const OP_OF = Object.fromEntries(Object.entries(SPELLED).map(([op, sign]) => [sign, op]));

interface StepOf {
  kind: "number" | "name" | "apply";
  text: string;
  arity: number; // of an op; else 0
}

interface Statement {
  name: string; // "" if it has none
  steps: StepOf[];
  text: string;
  line: number;
}

/**
 * The graph of what was typed, at these values of leaves; or what is wrong with it. With `typed`
 * a number in the source is stronger than one in `values`. Names that are no leaf change nothing.
 */
export function parse(
  source: string,
  values: Record<string, number> = {},
  typed = false,
): Built | { mistake: Mistake } {
  try {
    const built = build(statements(source));
    const { assumed, graph } = built;
    const given = Object.fromEntries(
      Object.entries(values).map(([name, value]) => [plainName(name), value]),
    );
    for (const leaf of typed ? assumed : leavesOf(graph)) {
      const value = own(given, graph.nodes[leaf]!.label);
      if (value === undefined) continue;
      built.values[leaf] = Number(value);
      built.assumed = built.assumed.filter((other) => other !== leaf);
    }
    return built;
  } catch (error) {
    if (error instanceof Wrong) return { mistake: error.mistake };
    throw error;
  }
}

/** All statements in prefix form: what tests/inspect/grammar.json pins. */
export function treeText(source: string): string | { mistake: Mistake } {
  try {
    return statements(source).map(prefix).join("; ");
  } catch (error) {
    if (error instanceof Wrong) return { mistake: error.mistake };
    throw error;
  }
}

function prefix({ name, steps }: Statement): string {
  const stack: string[] = [];
  for (const step of steps) {
    if (step.kind !== "apply") stack.push(step.text);
    else stack.push(`(${[step.text, ...stack.splice(stack.length - step.arity)].join(" ")})`);
  }
  return name ? `(= ${name} ${stack[0]})` : stack[0]!;
}

const statements = (source: string): Statement[] =>
  new Reader(source).read().map((sentence) => statement(source, sentence));

function statement(source: string, { name, body }: Sentence): Statement {
  const begin = (name ?? body[0]!).start;
  return {
    name: name?.text ?? "",
    steps: new Nesting(body).steps(),
    text: source.slice(begin, body.at(-1)!.end).split(/\s+/).join(" "),
    line: source.slice(0, begin).split("\n").length,
  };
}

/** How tokens nest, by Python's precedences. The reader has checked that they do. */
class Nesting {
  private at = 0;
  private readonly found: StepOf[] = [];

  constructor(private readonly tokens: Token[]) {}

  steps(): StepOf[] {
    this.sum();
    return this.found;
  }

  private apply(text: string, arity: number): void {
    this.found.push({ kind: "apply", text, arity });
  }

  private takes(...signs: string[]): string | undefined {
    const token = this.tokens[this.at];
    if (!token || token.kind !== "sign" || !signs.includes(token.text)) return undefined;
    this.at++;
    return token.text;
  }

  private sum(): void {
    this.product();
    for (let sign; (sign = this.takes("+", "-")); this.apply(sign, 2)) this.product();
  }

  private product(): void {
    this.signed();
    for (let sign; (sign = this.takes("*", "/")); this.apply(sign, 2)) this.signed();
  }

  private signed(): void {
    let negated = 0;
    for (let sign; (sign = this.takes("+", "-"));) if (sign === "-") negated++;
    this.power();
    for (; negated > 0; negated--) this.apply("neg", 1);
  }

  private power(): void {
    this.atom();
    if (this.takes("^")) {
      this.signed();
      this.apply("^", 2);
    }
  }

  private atom(): void {
    const token = this.tokens[this.at++]!;
    if (token.kind === "sign") {
      this.sum();
      this.at++; // the closing bracket
    } else if (token.kind === "function") {
      this.at++;
      let arity = 1;
      this.sum();
      for (; this.takes(","); arity++) this.sum();
      this.at++;
      const op = tables.functions[token.text]![0];
      this.apply(SPELLED[op] ?? op, arity);
    } else this.found.push({ kind: token.kind, text: token.text, arity: 0 });
  }
}

// -- from steps to a graph -----------------------------------------------------------------------

interface Made extends GraphNode {
  value?: number; // of a leaf
}

/** A number stays a number until it meets a name, so 2·3·x has one constant, 6. */
function build(program: Statement[]): Built {
  const nodes: Made[] = [];
  const names = new Map<string, number>();
  const assumed = new Set<number>();
  const add = (node: Made): { node: number } => ({ node: nodes.push(node) - 1 });
  const leaf = (label: string, value: number): { node: number } =>
    add({ op: "", args: [], attrs: {}, label, value });

  const variable = (name: string): Operand => {
    const known = names.get(name);
    if (known !== undefined) return { node: known };
    const made = leaf(name, DEFAULT);
    assumed.add(made.node);
    names.set(name, made.node);
    return made;
  };

  const apply = (text: string, args: Operand[], at: Statement): Operand => {
    const name = OP_OF[text] ?? text;
    const op = OPS[name]!;
    if (args.every((a) => "constant" in a)) {
      const numbers = args.map((a) => (a as { constant: number }).constant);
      return { constant: op.value(...numbers, ...attributesOf(op, {})) };
    }
    const line: GraphNode["line"] = ["expression", at.line, at.text, ""];
    const [base, exponent] = args;
    if (name === "pow" && "constant" in exponent!) {
      const attrs = { exponent: exponent.constant }; // a constant exponent is no input
      return add({ op: "power", args: [base!], attrs, label: "", line });
    }
    const attrs = op.attributes as Record<string, number>;
    return add({ op: name, args, attrs: { ...attrs }, label: "", line });
  };

  let result: Operand = { constant: NaN };
  for (const at of program) {
    const stack: Operand[] = [];
    for (const step of at.steps) {
      if (step.kind === "name") stack.push(variable(step.text));
      else if (step.kind === "number") {
        const known = Number(own(tables.constants, step.text) ?? step.text);
        stack.push({ constant: known });
      } else stack.push(apply(step.text, stack.splice(stack.length - step.arity), at));
    }
    result = stack[0]!;
    if (!at.name) continue;
    if ("constant" in result) result = leaf(at.name, result.constant);
    nodes[result.node]!.label ||= at.name;
    names.set(at.name, result.node);
  }
  const root = "node" in result ? result : leaf("", result.constant);
  return ordered(nodes, root.node, names, assumed, program);
}

/** What the root is made of, inputs first, and a name for every node. */
function ordered(
  nodes: Made[],
  root: number,
  names: Map<string, number>,
  assumed: Set<number>,
  program: Statement[],
): Built {
  const place = new Map<number, number>();
  const order: number[] = [];
  const stack = [{ node: root, next: 0 }];
  const seen = new Set([root]);
  while (stack.length) {
    const top = stack.at(-1)!;
    const operand = nodes[top.node]!.args[top.next++];
    if (!operand) {
      place.set(top.node, order.push(top.node) - 1);
      stack.pop();
    } else if ("node" in operand && !seen.has(operand.node)) {
      seen.add(operand.node);
      stack.push({ node: operand.node, next: 0 });
    }
  }
  if (!nodes[root]!.label && !names.has("out")) nodes[root]!.label = "out";
  let count = 0;
  for (const index of order) {
    const node = nodes[index]!;
    if (node.label) continue;
    do count++;
    while (names.has(`v${count}`));
    node.label = `v${count}`;
  }
  const moved = order.map((index): GraphNode => {
    const { value: _, ...node } = nodes[index]!;
    const args = node.args.map((a) => ("node" in a ? { node: place.get(a.node)! } : a));
    return { ...node, args };
  });
  return {
    graph: { nodes: moved, root: place.get(root)! },
    values: order.map((index) => nodes[index]!.value ?? NaN),
    assumed: [...assumed].filter((i) => place.has(i)).map((i) => place.get(i)!),
    unused: program.flatMap((s) => (s.name && !place.has(names.get(s.name)!) ? [s.name] : [])),
  };
}
