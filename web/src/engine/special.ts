// What JavaScript's Math lacks, to the last digits of a double; edge cases are C's and NumPy's.

export const copySign = (size: number, sign: number): number =>
  sign < 0 || Object.is(sign, -0) ? -Math.abs(size) : Math.abs(size);

/** C's pow: 1 to any power is 1, and so is −1 to an infinite one. */
export const power = (base: number, exponent: number): number =>
  base === 1 || (base === -1 && Math.abs(exponent) === Infinity) ? 1 : base ** exponent;

// NaN wins.
export const maximum = (x: number, y: number): number => (x >= y || x !== x ? x : y);
export const minimum = (x: number, y: number): number => (x <= y || x !== x ? x : y);

/** To so many decimals, a half to the even neighbour. */
export function rounded(x: number, decimals: number): number {
  if (decimals !== 0) {
    const scale = 10 ** Math.abs(decimals);
    return decimals > 0 ? rounded(x * scale, 0) / scale : rounded(x / scale, 0) * scale;
  }
  const low = Math.floor(x);
  const rest = x - low;
  const up = rest > 0.5 || (rest === 0.5 && low % 2 !== 0);
  return rest > 0 ? copySign(up ? low + 1 : low, x) : x;
}

export function remainder(x: number, y: number): number {
  const rest = x % y;
  if (rest === 0) return copySign(0, y);
  return rest < 0 !== y < 0 ? rest + y : rest;
}

export function floorDivide(x: number, y: number): number {
  if (y === 0) return x / y;
  const rest = x % y;
  const quotient = (x - rest) / y - (rest !== 0 && rest < 0 !== y < 0 ? 1 : 0);
  if (quotient === 0) return copySign(0, x / y);
  const low = Math.floor(quotient);
  return quotient - low > 0.5 ? low + 1 : low;
}

const LARGEST = Number.MAX_VALUE;
type Maybe = number | null | undefined;

export function finite(x: number, nan: number, high: Maybe, low: Maybe): number {
  if (x !== x) return nan;
  if (x === Infinity) return high ?? LARGEST;
  return x === -Infinity ? (low ?? -LARGEST) : x;
}

export function logAddExp(x: number, y: number): number {
  if (x === y) return x + Math.LN2; // also of two infinities
  const apart = x - y;
  return apart > 0 ? x + Math.log1p(Math.exp(-apart)) : y + Math.log1p(Math.exp(apart));
}

export function logAddExp2(x: number, y: number): number {
  if (x === y) return x + 1;
  const apart = x - y;
  const more = Math.log1p(2 ** -Math.abs(apart)) / Math.LN2;
  return apart !== apart ? NaN : (apart > 0 ? x : y) + more;
}

// -- the error function --------------------------------------------------------------------------

const ROOT_PI = Math.sqrt(Math.PI);
const NEAR = 1.5; // up to here by a series, beyond by a continued fraction
const LINES = 150; // of the fraction: enough for all digits from there on

/** e^(−x²) to the last digits: the square of a number with half of them is exact. */
function bell(x: number): number {
  const half = Math.fround(x);
  return Math.exp(-half * half) * Math.exp((half - x) * (half + x));
}

/** erf near 0: 2/√π e^(−x²) (x + 2x³/3 + 4x⁵/(3·5) + ...), in which nothing cancels. */
function near(x: number): number {
  let term = x;
  let sum = x;
  for (let odd = 3; Math.abs(term) > 1e-17 * Math.abs(sum); odd += 2) {
    term *= (2 * x * x) / odd;
    sum += term;
  }
  return (2 / ROOT_PI) * bell(x) * sum;
}

/** erfc far from 0: e^(−x²)/√π / (x + ½/(x + 1/(x + 1½/(x + ...)))). */
function tail(x: number): number {
  if (x > 28) return 0;
  let below = x;
  for (let line = LINES; line > 0; line--) below = x + line / 2 / below;
  return bell(x) / ROOT_PI / below;
}

export function erf(x: number): number {
  if (Math.abs(x) < NEAR) return near(x);
  return x > 0 ? 1 - tail(x) : tail(-x) - 1;
}

export function erfc(x: number): number {
  if (Math.abs(x) < NEAR) return 1 - near(x);
  return x > 0 ? tail(x) : 2 - tail(-x);
}

export function inverseErf(y: number): number {
  const size = Math.abs(y);
  if (!(size < 1)) return size === 1 ? y * Infinity : NaN;
  if (size < 1e-8) return (y * ROOT_PI) / 2;
  const w = Math.log1p(-size * size);
  const half = 2 / (Math.PI * 0.147) + w / 2;
  let x = Math.sqrt(Math.sqrt(half * half - w / 0.147) - half); // two digits, then doubled thrice
  for (let i = 0; i < 4; i++) {
    const apart = size < 0.5 ? erf(x) - size : 1 - size - erfc(x);
    const step = (apart * ROOT_PI * Math.exp(x * x)) / 2;
    x -= step / (1 + x * step);
  }
  return y < 0 ? -x : x;
}

// -- the gamma function's relatives: Euler and Maclaurin's sums -----------------------------------

// Bernoulli's numbers B₂, B₄, ...
const BERNOULLI = [
  1 / 6,
  -1 / 30,
  1 / 42,
  -1 / 30,
  5 / 66,
  -691 / 2730,
  7 / 6,
  -3617 / 510,
  43867 / 798,
  -174611 / 330,
  854513 / 138,
];
const FAR = 12; // from here on the asymptotic series has all digits

/** Σ (q + k)⁻ˢ over k = 0, 1, ..., for q > 0. */
function zeta(s: number, q: number): number {
  let sum = 0;
  for (; q < FAR; q++) sum += q ** -s;
  sum += q ** (1 - s) / (s - 1) + q ** -s / 2;
  let term = s * q ** (-s - 1);
  BERNOULLI.forEach((b, i) => {
    const k = 2 * (i + 1);
    sum += (b * term) / factorial(k);
    term *= ((s + k - 1) * (s + k)) / (q * q);
  });
  return sum;
}

const factorial = (n: number): number => (n < 2 ? 1 : n * factorial(n - 1));
const isPole = (x: number): boolean => x <= 0 && x === Math.floor(x);
const EULER = 0.5772156649015329;

export function logGamma(x: number): number {
  if (isPole(x) || Math.abs(x) === Infinity) return Infinity;
  if (x < 0) {
    const turned = Math.abs(Math.sin(Math.PI * (x - Math.round(x))));
    return Math.log(Math.PI / turned) - logGamma(1 - x);
  }
  if (x > 0.5 && x < 2.5) {
    // By powers around 2; from 1 it is one recurrence away. Exactly 0 where it is 0.
    const below = x < 1.5;
    const e = below ? x - 1 : x - 2;
    let sum = e * (1 - EULER);
    for (let k = 2, p = e * e; k < 60; k++, p *= -e) sum += (zeta(k, 2) * p) / k;
    return below ? sum - Math.log1p(e) : sum;
  }
  let product = 1;
  for (; x < FAR; x++) product *= x;
  let sum = (x - 0.5) * Math.log(x) - x + 0.5 * Math.log(2 * Math.PI) - Math.log(product);
  BERNOULLI.forEach((b, i) => {
    const k = 2 * (i + 1);
    sum += b / (k * (k - 1) * x ** (k - 1));
  });
  return sum;
}

export function digamma(x: number): number {
  if (x === 0) return -copySign(Infinity, x);
  if (isPole(x)) return NaN;
  if (x < 0) return digamma(1 - x) - Math.PI / Math.tan(Math.PI * (x - Math.round(x)));
  let sum = 0;
  for (; x < FAR; x++) sum -= 1 / x;
  sum += Math.log(x) - 0.5 / x;
  BERNOULLI.forEach((b, i) => {
    const k = 2 * (i + 1);
    sum -= b / (k * x ** k);
  });
  return sum;
}

export function polygamma(n: number, x: number): number {
  if (n === 0) return digamma(x);
  if (n === 1 && x < 0.5) {
    if (isPole(x)) return Infinity;
    return (Math.PI / Math.sin(Math.PI * x)) ** 2 - zeta(2, 1 - x);
  }
  if (!(x > 0)) return NaN;
  return (n % 2 ? 1 : -1) * factorial(n) * zeta(n + 1, x);
}
