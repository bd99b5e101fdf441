// Training: the loop that python.ts writes as Python, with the same numbers in the same order.

import type { Graph } from "../engine/types";
import { type Point, pointsOf } from "./data";
import { buildModel, firstNumbers, type Model } from "./model";
import { Plan } from "./plan";
import { Random } from "./random";
import type { Settings } from "./settings";

/** Changes the parameters by their gradients; `state` has two numbers for each, at first 0. */
type Update = (p: Float64Array, g: Float64Array, state: [Float64Array, Float64Array]) => void;

const SLOTS = 1 << 16; // that a plan may use: more points at once would leave the fast memory

export class Trainer {
  readonly points: Point[];
  readonly model: Model;
  readonly losses: number[] = []; // of each step's batch, before the step
  readonly parameters: Float64Array;
  readonly gradients: Float64Array; // as the last step found them
  private readonly plan: Plan;
  private readonly random: Random;
  private readonly update: Update;
  private readonly state: [Float64Array, Float64Array];
  private order: number[] = []; // of the points that this epoch has still to use

  constructor(readonly settings: Settings) {
    this.random = new Random(settings.seed);
    this.points = pointsOf(settings, this.random);
    const classes = settings.data === "digits" ? 10 : 2;
    this.model = buildModel(settings, this.points[0]!.x.length, classes);
    const { graph, parameters } = this.model;
    const most = Math.max(1, Math.floor(SLOTS / graph.nodes.length));
    this.plan = new Plan(graph, parameters, Math.min(settings.batch, 2 ** Math.floor(Math.log2(most))));
    this.parameters = firstNumbers(settings, this.model, this.random);
    this.gradients = new Float64Array(this.parameters.length);
    this.state = [new Float64Array(this.parameters.length), new Float64Array(this.parameters.length)];
    this.update = updateOf(settings);
    this.put();
  }

  get steps(): number {
    return this.losses.length;
  }

  /** Forward, zero_grad, backward, update. */
  step(): number {
    const { plan, model, gradients } = this;
    const { batch, zero } = this.settings;
    if (!this.order.length) this.order = this.random.shuffle([...this.points.keys()]);
    const chosen = this.order.splice(0, batch);
    for (const node of model.parameters) if (zero) plan.grads[node] = 0;
    let losses: number[] = [];
    // Python's one backward pass comes to the last point's part of the graph first.
    for (let end = batch; end > 0; end -= plan.copies) {
      const part = chosen.slice(end - plan.copies, end).map((at) => this.points[at]!);
      losses = [...this.forward(part), ...losses];
      plan.backward(1 / batch);
    }
    const loss = losses.reduce((sum, one) => sum + one, 0) * (1 / batch);
    model.parameters.forEach((node, i) => (gradients[i] = plan.grads[node]!));
    this.update(this.parameters, gradients, this.state);
    this.put();
    this.losses.push(loss);
    return loss;
  }

  /** The losses of at most as many points as the plan has copies. */
  private forward(points: Point[]): number[] {
    const { plan, model } = this;
    const { values, size } = plan;
    points.forEach(({ x, y }, copy) => {
      const from = copy * size;
      model.inputs.forEach((node, i) => (values[from + node] = x[i]!));
      model.targets.forEach((node, i, { length }) => {
        values[from + node] = length > 1 ? Number(i === y) : y;
      });
    });
    plan.forward();
    return points.map((_, copy) => values[copy * size + model.graph.root]!);
  }

  /** A point's loss, and its score: of many classes that of the right one. */
  judge(point: Point): { loss: number; score: number } {
    const [loss] = this.forward([point]);
    const { outputs } = this.model;
    const right = outputs[outputs.length > 1 ? point.y : 0]!;
    return { loss: loss!, score: this.plan.values[right]! };
  }

  /** Some nodes' values at each point. */
  valuesAt(points: Point[], nodes: number[]): Float64Array {
    const { copies, size, values } = this.plan;
    const found = new Float64Array(points.length * nodes.length);
    for (let start = 0; start < points.length; start += copies) {
      this.forward(points.slice(start, start + copies)).forEach((_, copy) => {
        nodes.forEach((node, i) => {
          found[(start + copy) * nodes.length + i] = values[copy * size + node]!;
        });
      });
    }
    return found;
  }

  /** The points that are put into another class than theirs. */
  wrong(): Set<number> {
    const { outputs } = this.model;
    const scores = this.valuesAt(this.points, outputs);
    const found = this.points.flatMap(({ y }, at) => {
      const own = scores.subarray(at * outputs.length, (at + 1) * outputs.length);
      const right = own.length > 1 ? own.indexOf(Math.max(...own)) === y : own[0]! * y > 0;
      return right ? [] : [at];
    });
    return new Set(found);
  }

  /** A point's loss as a graph for the stage, with its leaves' numbers. */
  graphOf(point: Point): { graph: Graph; given: number[] } {
    this.forward([point]);
    const { graph } = this.model;
    return { graph, given: [...this.plan.values.subarray(0, graph.nodes.length)] };
  }

  private put(): void {
    const { values } = this.plan;
    this.model.parameters.forEach((node, i) => (values[node] = this.parameters[i]!));
  }
}

function updateOf({ optimizer, rate }: Settings): Update {
  switch (optimizer) {
    case "momentum":
      return (p, g, [speed]) => {
        for (let i = 0; i < p.length; i++) {
          speed[i] = 0.9 * speed[i]! + g[i]!;
          p[i]! -= rate * speed[i]!;
        }
      };
    case "adam": {
      let [decay1, decay2] = [1, 1];
      return (p, g, [mean, square]) => {
        decay1 *= 0.9;
        decay2 *= 0.999;
        for (let i = 0; i < p.length; i++) {
          mean[i] = 0.9 * mean[i]! + 0.1 * g[i]!;
          square[i] = 0.999 * square[i]! + 0.001 * g[i]! * g[i]!;
          const size = Math.sqrt(square[i]! / (1 - decay2)) + 1e-8;
          p[i]! -= (rate * (mean[i]! / (1 - decay1))) / size;
        }
      };
    }
    default:
      return (p, g) => {
        for (let i = 0; i < p.length; i++) p[i]! -= rate * g[i]!;
      };
  }
}
