// What the playground is doing: its settings, whether it runs, what is seen. One for the page, so
// that training goes on where it was after a look at a point's graph.

import { batch, signal } from "@preact/signals";

import { Boundary, type Maps, PixelWeights } from "./boundary";
import { type Look, lookAt } from "./look";
import { DEFAULTS, type Settings } from "./settings";
import { Trainer } from "./train";

export const SPEEDS = ["slow", "frame", "fast"] as const;

const FRAME = 10; // milliseconds of a frame for training, where it goes as fast as it can
const HURRY = 40; // and where it goes to the step of a link
const DRAWING = 5; // and for the picture
const PAUSE = 200; // between the steps of a slow training
const LOOKS = 150; // between two looks at the layers, which are not read faster

export class Session {
  readonly settings = signal<Settings>(DEFAULTS);
  readonly running = signal(false);
  readonly speed = signal<(typeof SPEEDS)[number]>("frame");
  readonly point = signal(0); // the one that is looked at
  readonly map = signal(0); // what the plane shows: 0 the score, or one of the boundary's units
  readonly drawn = signal(0); // counts pictures: whoever draws reads it
  readonly look = signal<Look>(null!);
  trainer!: Trainer;
  maps!: Maps;
  private goal = 0; // a step to go to at once
  private reached: (() => void) | null = null; // what to do there
  private stepped = 0; // times
  private looked = 0;
  private waiting = 0;

  constructor() {
    this.restart(DEFAULTS);
  }

  /** From the first step, with these settings; to a later one at once. */
  restart(settings: Settings, step = 0): void {
    batch(() => {
      this.settings.value = settings;
      this.trainer = new Trainer(settings);
      this.maps = new (settings.data === "digits" ? PixelWeights : Boundary)(this.trainer);
      this.map.value = 0;
      this.point.value = Math.min(this.point.value, this.trainer.points.length - 1);
      this.goal = step;
      this.reached = null;
      this.look.value = lookAt(this.trainer);
    });
    this.wake();
  }

  toggle(): void {
    this.running.value = !this.running.value;
    this.wake();
  }

  /** One step, and stop there. */
  step(): void {
    this.running.value = false;
    this.goal = Math.max(this.goal, this.trainer.steps) + 1; // asked twice in a frame: two steps
    this.wake();
  }

  /** Do something at the step that we go to; at once, if we are there. */
  whenReached(act: () => void): void {
    if (this.trainer.steps >= this.goal) act();
    else this.reached = act;
  }

  stop(): void {
    this.running.value = false;
  }

  private wake(): void {
    this.waiting ||= requestAnimationFrame((now) => this.frame(now));
  }

  private frame(now: number): void {
    this.waiting = 0;
    const before = this.trainer.steps;
    this.train(now);
    if (this.trainer.steps > before) this.maps.outdate();
    const complete = this.maps.refine(DRAWING);
    const going = this.running.value || this.trainer.steps < this.goal;
    const late = this.look.value.step !== this.trainer.steps;
    batch(() => {
      if (late && (!going || now - this.looked > LOOKS)) {
        this.looked = now;
        this.look.value = lookAt(this.trainer);
      }
      this.drawn.value += 1;
    });
    if (going || !complete) this.wake();
    if (this.reached && this.trainer.steps >= this.goal) {
      const act = this.reached;
      this.reached = null;
      act();
    }
  }

  private train(now: number): void {
    const { trainer } = this;
    const hurried = trainer.steps < this.goal;
    if (!hurried && !this.running.value) return;
    const slow = this.speed.value === "slow" && !hurried;
    if (slow && now - this.stepped < PAUSE) return;
    this.stepped = now;
    const end = performance.now() + (hurried ? HURRY : FRAME);
    do {
      trainer.step();
      if (hurried && trainer.steps >= this.goal) return;
    } while ((hurried || this.speed.value === "fast") && performance.now() < end);
    if (!Number.isFinite(trainer.losses.at(-1)!)) this.running.value = false;
  }
}

export const session = new Session();
