// How a gradient looks as a line: the larger, the wider and the more solid. Every factor of ten
// counts the same, so that what vanishes and what explodes is seen before it is read.

const usual = 2.6; // of a gradient of 1, in pixels
const growth = 1.42; // for every factor of ten
const thin = 0.6;
const wide = 12;

export interface Stroke {
  width: number;
  opacity: number;
}

export function strokeOf(amount: number): Stroke {
  const size = Math.abs(amount);
  if (Number.isNaN(size)) return { width: usual, opacity: 1 };
  if (size === 0) return { width: 1.4, opacity: 0.8 };
  const tens = Math.log10(size);
  return {
    width: Math.min(wide, Math.max(thin, usual * growth ** tens)),
    opacity: Math.min(1, Math.max(0.35, 1 + 0.16 * tens)),
  };
}
