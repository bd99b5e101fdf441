// Going through a list of steps and back: what every walk has, of numbers or of tensors.

import { batch, computed, effect, type ReadonlySignal, signal } from "@preact/signals";

import type { Step } from "../engine/types";
import { announce } from "./announce";
import { animate, duration, mayMove } from "./motion";
import { say } from "./words";

export const speeds = [0.5, 1, 2, 4]; // steps in a second

/** A step on its way: its number from 0, and whether it is being taken back. */
export interface Flight {
  step: number;
  undone: boolean;
}

export abstract class Walker<S extends Pick<Step, "phase" | "node"> = Step> {
  readonly position = signal(0); // steps done
  readonly playing = signal(false);
  readonly speed = signal(1);
  /** The step that is on its way; how far it has come, from 0 to 1, is in `part`. */
  readonly flight = signal<Flight | null>(null);
  readonly part = signal(1);
  abstract readonly steps: ReadonlySignal<S[]>;
  /** The step last done, and the one that comes next; undefined at the ends. */
  readonly current = computed(() => this.stepAt(this.position.value - 1));
  readonly next = computed(() => this.stepAt(this.position.value));
  readonly phase = computed(() => this.current.value?.phase ?? "forward");

  private readonly timer: () => void;
  private stopFlight: () => void = () => undefined;

  constructor() {
    this.timer = effect(() => {
      if (!this.playing.value) return undefined;
      const ticking = setInterval(() => this.tick(), 1000 / this.speed.value);
      return () => clearInterval(ticking);
    });
  }

  /** No longer used: stops its clock. */
  close(): void {
    this.playing.value = false;
    this.timer();
    this.land();
  }

  /** The step last done, in words. */
  abstract narrate(): string;

  step(): void {
    this.move(this.position.value + 1);
  }

  undo(): void {
    this.move(this.position.value - 1);
  }

  /** To after the step of this number; 0 is before the first. */
  jump(position: number): void {
    this.move(position);
  }

  /** To anywhere, also between two steps: the one that is not quite done is on its way. */
  scrub(to: number): void {
    const wanted = Math.max(0, Math.min(mayMove() ? to : Math.round(to), this.steps.value.length));
    const position = Math.ceil(wanted);
    const part = wanted - Math.floor(wanted);
    batch(() => {
      this.playing.value = false;
      const before = this.flight.value;
      if (position !== this.position.value) this.go(position);
      this.land();
      if (!part) return;
      // The same step further on: nothing but what moves is drawn again.
      const same = before?.step === position - 1 && !before.undone;
      this.flight.value = same ? before : { step: position - 1, undone: false };
      this.part.value = part;
    });
  }

  /** After scrubbing: the step on its way goes on, or back, whichever is nearer. */
  endScrub(): void {
    const flight = this.flight.value;
    const part = this.part.value;
    if (!flight) return;
    if (part < 0.5) this.go(flight.step);
    this.land();
    this.fly({ ...flight, undone: part < 0.5 }, part);
  }

  /** To the end of the phase we are in, or of the next one if we are at its end. */
  endOfPhase(): void {
    const ends = this.phaseEnds();
    this.move(ends.find((end) => end > this.position.value) ?? this.steps.value.length);
  }

  startOfPhase(): void {
    const ends = this.phaseEnds();
    this.move(ends.findLast((end) => end < this.position.value) ?? 0);
  }

  play(): void {
    if (this.position.value >= this.steps.value.length) this.position.value = 0;
    this.playing.value = true;
  }

  pause(): void {
    this.playing.value = false;
  }

  togglePlay(): void {
    if (this.playing.value) this.pause();
    else this.play();
  }

  protected stepAt(index: number): S | undefined {
    return this.steps.value[index];
  }

  private tick(): void {
    if (this.position.value + 1 >= this.steps.value.length) this.playing.value = false;
    this.go(this.position.value + 1);
  }

  protected move(position: number): void {
    this.playing.value = false;
    this.go(position);
  }

  protected go(position: number): void {
    const wanted = Math.max(0, Math.min(position, this.steps.value.length));
    if (wanted === this.position.value) {
      announce(say(wanted === 0 ? "walk.atStart" : "walk.atEnd"));
      return;
    }
    const by = wanted - this.position.value;
    batch(() => {
      this.position.value = wanted;
      this.land();
      if (Math.abs(by) === 1) this.fly({ step: by > 0 ? wanted - 1 : wanted, undone: by < 0 });
    });
    announce(this.narrate());
  }

  /** Let a step be seen on its way; `from`: it has come so far already. */
  private fly(flight: Flight, from = flight.undone ? 1 : 0): void {
    if (!mayMove()) return;
    const time = this.playing.value ? Math.min(duration, 800 / this.speed.value) : duration;
    const goal = flight.undone ? 0 : 1;
    this.flight.value = flight;
    this.part.value = from;
    this.stopFlight = animate(time * Math.abs(goal - from), (part) => {
      this.part.value = from + (goal - from) * part;
      if (part === 1) this.land();
    });
  }

  /** What was on its way is there. */
  protected land(): void {
    this.stopFlight();
    this.flight.value = null;
    this.part.value = 1;
  }

  /** The position after the forward phase. */
  get turn(): number {
    const steps = this.steps.value;
    const forward = steps.findIndex((step) => step.phase !== "forward");
    return forward < 0 ? steps.length : forward;
  }

  protected phaseEnds(): number[] {
    return [0, this.turn, this.steps.value.length];
  }
}
