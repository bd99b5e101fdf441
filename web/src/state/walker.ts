// Going through a list of steps and back: what every walk has, of numbers or of tensors.

import { computed, effect, type ReadonlySignal, signal } from "@preact/signals";

import type { Step } from "../engine/types";
import { announce } from "./announce";
import { say } from "./words";

export const speeds = [0.5, 1, 2, 4]; // steps in a second

export abstract class Walker<S extends Pick<Step, "phase" | "node"> = Step> {
  readonly position = signal(0); // steps done
  readonly playing = signal(false);
  readonly speed = signal(1);
  abstract readonly steps: ReadonlySignal<S[]>;
  /** The step last done, and the one that comes next; undefined at the ends. */
  readonly current = computed(() => this.stepAt(this.position.value - 1));
  readonly next = computed(() => this.stepAt(this.position.value));
  readonly phase = computed(() => this.current.value?.phase ?? "forward");

  private readonly timer: () => void;

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
    this.position.value = wanted;
    announce(this.narrate());
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
