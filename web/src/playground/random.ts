// Python's `random` module: the Mersenne Twister, seeded and read as CPython does. The playground
// and the Python code that it writes draw the same numbers from the same seed.

const SIZE = 624;
const MIDDLE = 397;

export class Random {
  private readonly state = new Uint32Array(SIZE);
  private at = SIZE;

  /** `random.seed(seed)`, for a whole number below 2³². */
  constructor(seed: number) {
    const state = this.state;
    state[0] = 19650218;
    for (let i = 1; i < SIZE; i++) state[i] = Math.imul(1812433253, mixed(state, i)) + i;
    let i = 1;
    for (let k = 0; k < SIZE; k++) {
      state[i] = (state[i]! ^ Math.imul(mixed(state, i), 1664525)) + seed;
      if (++i === SIZE) {
        state[0] = state[SIZE - 1]!;
        i = 1;
      }
    }
    for (let k = 1; k < SIZE; k++) {
      state[i] = (state[i]! ^ Math.imul(mixed(state, i), 1566083941)) - i;
      if (++i === SIZE) {
        state[0] = state[SIZE - 1]!;
        i = 1;
      }
    }
    state[0] = 0x80000000;
  }

  private word(): number {
    if (this.at === SIZE) this.twist();
    let y = this.state[this.at++]!;
    y ^= y >>> 11;
    y ^= (y << 7) & 0x9d2c5680;
    y ^= (y << 15) & 0xefc60000;
    return (y ^ (y >>> 18)) >>> 0;
  }

  private twist(): void {
    const state = this.state;
    for (let i = 0; i < SIZE; i++) {
      const y = (state[i]! & 0x80000000) | (state[(i + 1) % SIZE]! & 0x7fffffff);
      state[i] = state[(i + MIDDLE) % SIZE]! ^ (y >>> 1) ^ (y & 1 ? 0x9908b0df : 0);
    }
    this.at = 0;
  }

  /** `random.random()`: 53 bits of two words. */
  random(): number {
    const high = this.word() >>> 5;
    return (high * 67108864 + (this.word() >>> 6)) / 9007199254740992;
  }

  uniform(low: number, high: number): number {
    return low + (high - low) * this.random();
  }

  /** `random.shuffle(list)`, in place. */
  shuffle<Item>(list: Item[]): Item[] {
    for (let i = list.length - 1; i > 0; i--) {
      const other = this.below(i + 1);
      [list[i], list[other]] = [list[other]!, list[i]!];
    }
    return list;
  }

  private below(bound: number): number {
    const spare = Math.clz32(bound); // a word's bits beyond those of the bound
    let found = this.word() >>> spare;
    while (found >= bound) found = this.word() >>> spare;
    return found;
  }
}

const mixed = (state: Uint32Array, i: number): number =>
  state[i - 1]! ^ (state[i - 1]! >>> 30);
