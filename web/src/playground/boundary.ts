// What the network and its units give over the plane, for pictures: computed row by row, as the time
// of a frame allows.

import type { Trainer } from "./train";

export const EXTENT = 1.9; // the picture shows −EXTENT to EXTENT both ways
const SIZE = 48;
const STRIDE = 19; // rows are computed in this order: neighbours at different times
const MOST_UNITS = 96; // that get a picture of their own

/** Square pictures of numbers: of the score or the units over the plane, or of weights. */
export interface Maps {
  readonly size: number; // cells each way
  readonly nodes: number[]; // one map for each; the first is the score's
  at(map: number, cell: number): number;
  outdate(): void;
  refine(milliseconds: number): boolean;
}

/** For images: how each unit of the first layer weighs the pixels. */
export class PixelWeights implements Maps {
  readonly size: number;
  readonly nodes: number[];

  constructor(private readonly trainer: Trainer) {
    const { inputs, layers } = trainer.model;
    this.size = Math.sqrt(inputs.length);
    this.nodes = [NaN, ...layers[0]!.units];
  }

  at(map: number, cell: number): number {
    return this.trainer.parameters[(map - 1) * (this.size ** 2 + 1) + cell]!;
  }

  outdate(): void {}

  refine(): boolean {
    return true; // they are there
  }
}

export class Boundary implements Maps {
  readonly size = SIZE;
  /** Of each cell the score, then what each unit in a picture gives; rows from the top. */
  readonly values: Float64Array;
  readonly nodes: number[];
  private row = 0;
  private stale = SIZE; // rows that are older than the parameters

  constructor(private readonly trainer: Trainer) {
    const { outputs, layers } = trainer.model;
    const units = layers.slice(0, -1).flatMap((layer) => layer.units);
    this.nodes = [...outputs, ...(units.length > MOST_UNITS ? [] : units)];
    this.values = new Float64Array(SIZE * SIZE * this.nodes.length);
  }

  /** What the map of one of the nodes has at a cell. */
  at(map: number, cell: number): number {
    return this.values[cell * this.nodes.length + map]!;
  }

  /** The parameters have changed. */
  outdate(): void {
    this.stale = SIZE;
  }

  /** Compute rows for so many milliseconds, at least one; says whether all are new. */
  refine(milliseconds: number): boolean {
    const end = performance.now() + milliseconds;
    while (this.stale > 0) {
      const points = Array.from({ length: SIZE }, (_, column) => ({
        x: [middle(column), -middle(this.row)],
        y: 1,
      }));
      const found = this.trainer.valuesAt(points, this.nodes);
      this.values.set(found, this.row * found.length);
      this.row = (this.row + STRIDE) % SIZE;
      this.stale -= 1;
      if (performance.now() > end) break;
    }
    return this.stale === 0;
  }
}

const middle = (cell: number): number => EXTENT * ((2 * cell + 1) / SIZE - 1);
