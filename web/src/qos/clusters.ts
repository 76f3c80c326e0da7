// Sums of events that come in bursts, or on several CPUs at once: a port of
// `analyze/counts/clusters`, which says why and after whom.

import { lnGamma, type Interval } from "./poisson";

/** The regularised incomplete beta function, by its continued fraction (Numerical Recipes 6.4). */
function betaBelow(a: number, b: number, x: number): number {
  if (x <= 0) return 0;
  if (x >= 1) return 1;
  if (x > (a + 1) / (a + b + 2)) return 1 - betaBelow(b, a, 1 - x);
  const front = Math.exp(lnGamma(a + b) - lnGamma(a) - lnGamma(b) + a * Math.log(x) + b * Math.log1p(-x)) / a;
  const tiny = 1e-300;
  let c = 1;
  let d = 1 / (1 - ((a + b) * x) / (a + 1) || tiny);
  let fraction = d;
  for (let m = 1, change = 0; Math.abs(change - 1) > 1e-15 && m < 100_000; m += 1) {
    const even = (m * (b - m) * x) / ((a + 2 * m - 1) * (a + 2 * m));
    d = 1 / (1 + even * d || tiny);
    c = 1 + even / c || tiny;
    fraction *= d * c;
    const odd = (-(a + m) * (a + b + m) * x) / ((a + 2 * m) * (a + 2 * m + 1));
    d = 1 / (1 + odd * d || tiny);
    c = 1 + odd / c || tiny;
    change = d * c;
    fraction *= change;
  }
  return front * fraction;
}

/** The logarithm of where `below`, of a logarithm, reaches `share`: by bisection. */
function reached(below: (log: number) => number, share: number, low: number, high: number): number {
  for (let step = 0; step < 100 && high - low > 1e-13 * Math.abs(high); step += 1) {
    const middle = (low + high) / 2;
    if (below(middle) < share) low = middle;
    else high = middle;
  }
  return (low + high) / 2;
}

/** Something that happened: when, and what it counts for. */
export interface Event {
  at: number;
  size: number;
}

/** The independent events behind others: how many, and how their sizes vary. */
export interface Clusters {
  count: number;
  variation: number;
}

const WINDOWS = 20;
const CAUTION = 1.1;
const PRIOR = 0.5;
const MANY = 10_000;
/** Where the normal distribution reaches 97.5 %. */
const DEVIATE = 1.959963984540054;

const total = (values: number[]) => values.reduce((sum, value) => sum + value, 0);

function variance(values: number[]): number {
  const mean = total(values) / values.length;
  return total(values.map((value) => (value - mean) ** 2)) / (values.length - 1);
}

/** The clusters of ascending events in a span that begins at zero; null without any. */
export function clustersOf(events: Event[], span: number): Clusters | null {
  if (events.length === 0) return null;
  const sizes = sizesOf(events, span);
  const found = sizes.length;
  const sum = total(sizes);
  const known = found > 1 ? (variance(sizes) / (sum / found) ** 2) * (found - 1) : 0;
  const variation = (known + PRIOR) / found;
  const windows = Array<number>(WINDOWS).fill(0);
  for (const { at, size } of events) windows[Math.min(Math.floor((at / span) * WINDOWS), WINDOWS - 1)]! += size;
  const bySizes = (1 + variation) / found;
  const byWindows = (variance(windows) * WINDOWS) / sum ** 2;
  return { count: found / Math.max((CAUTION * byWindows) / bySizes, 1), variation };
}

function sizesOf(events: Event[], span: number): number[] {
  const gaps = events.map(({ at }, index) => ((events[index + 1]?.at ?? events[0]!.at + span) - at) / span);
  const squares = total(gaps.map((gap) => gap * gap));
  const found = Math.min(Math.max(Math.round(2 / squares - 1), 1), events.length);
  const widest = gaps.map((_, index) => index).sort((one, other) => gaps[other]! - gaps[one]!);
  const last = widest.slice(0, found).sort((one, other) => one - other);
  const sizes = Array<number>(found).fill(0);
  let cluster = 0;
  for (const [index, { size }] of events.entries()) {
    while (cluster < found && last[cluster]! < index) cluster += 1;
    // What comes after the last end belongs to the first cluster.
    sizes[cluster % found]! += size;
  }
  return sizes;
}

/** How many times more a sum varies than a count of `events` independent ones. */
export const dispersion = ({ count, variation }: Clusters, events: number) => (events * (1 + variation)) / count;

/** Where the expected sum lies of which `sum` was seen, in `clusters`: at 95 %. */
export function clusteredInterval(sum: number, clusters: Clusters | null): Interval {
  if (clusters === null) return { low: 0, high: -Math.log(0.05) };
  const { count, variation } = clusters;
  if (count > MANY) {
    const width = Math.exp(DEVIATE * Math.sqrt((1 + variation) / count));
    return { low: sum / width, high: sum * width };
  }
  const ofSizes = count / variation;
  const below = (log: number) => {
    const x = Math.exp(log) / (Math.exp(log) + ofSizes);
    return (betaBelow(count, ofSizes, x) + betaBelow(count + 1, ofSizes, x)) / 2;
  };
  const expected = Math.log(count);
  const limit = (share: number) => Math.exp(reached(below, share, expected - 50, expected + 50));
  return { low: (sum / count) * limit(0.025), high: (sum / count) * limit(0.975) };
}
