// Sums of events that come in bursts, or on several CPUs at once: a port of
// `analyze/counts/clusters`, which says why and after whom.

import { chiBelow, lnGamma, type Interval } from "./poisson";

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

/** The independent events behind others: how many, how their sizes vary, and how well that is known. */
export interface Clusters {
  count: number;
  variation: number;
  freedom: number;
}

const WINDOWS = 20;
const LONG = 0.25;
const ROUNDING = 1e-9;
const PRIOR = 0.5;
const LEAST = 0.5;
const MANY = 10_000;
/** What lies outside on either side. */
const TAIL = 0.025;
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
  const { sizes, longest, instants } = groupsOf(events, span);
  const found = sizes.length;
  const sum = total(sizes);
  const known = found > 1 ? (variance(sizes) / (sum / found) ** 2) * (found - 1) : 0;
  const squares = sizes.map((size) => size * size);
  const bySizes = total(squares);
  const byPairs = longest > LONG * span ? bySizes : varianceByPairs(events, span, longest + ROUNDING * span);
  const varies = Math.max(byPairs, varianceByWindows(events, span), LEAST * bySizes);
  const mean = bySizes / found;
  const spread = total(squares.map((square) => (square / mean - 1) ** 2));
  return { count: Math.min((found * bySizes) / varies, instants), variation: (known + PRIOR) / found, freedom: (2 * found * found) / spread };
}

function varianceByWindows(events: Event[], span: number): number {
  const windows = Array<number>(WINDOWS).fill(0);
  for (const { at, size } of events) windows[Math.min(Math.floor((at / span) * WINDOWS), WINDOWS - 1)]! += size;
  return variance(windows) * WINDOWS;
}

/** When an event comes on a circle of this length, counted on beyond the last one. */
const onCircle = (events: Event[], span: number, index: number) =>
  index < events.length ? events[index]!.at : events[index - events.length]!.at + span;

function varianceByPairs(events: Event[], span: number, reach: number): number {
  const size = (index: number) => events[index % events.length]!.size;
  let [end, within, pairs, sum] = [1, 0, 0, 0];
  for (const [begin, event] of events.entries()) {
    while (end < begin + events.length && onCircle(events, span, end) - event.at <= reach) {
      within += size(end);
      end += 1;
    }
    pairs += event.size * (event.size + 2 * within);
    sum += event.size;
    if (end === begin + 1) end += 1;
    else within -= size(begin + 1);
  }
  const byChance = (2 * reach) / span;
  return (pairs - sum * sum * byChance) / (1 - byChance);
}

/** The sizes of the groups that the largest gaps part, how long the longest lasts, and at how many instants any event came. */
function groupsOf(events: Event[], span: number): { sizes: number[]; longest: number; instants: number } {
  const count = events.length;
  const at = (index: number) => onCircle(events, span, index);
  const gaps = events.map((_, index) => (at(index + 1) - at(index)) / span);
  const squares = total(gaps.map((gap) => gap * gap));
  const instants = Math.max(gaps.filter((gap) => gap > ROUNDING).length, 1);
  const found = Math.min(Math.max(Math.round(2 / squares - 1), 1), instants);
  const widest = gaps.map((_, index) => index).sort((one, other) => gaps[other]! - gaps[one]!);
  const ends = widest.slice(0, found).sort((one, other) => one - other);
  const sizes: number[] = [];
  let longest = 0;
  // What comes after the last gap belongs to the first group.
  let begin = (ends[found - 1]! + 1) % count;
  for (const end of ends) {
    const last = begin > end ? end + count : end;
    let size = 0;
    for (let index = begin; index <= last; index += 1) size += events[index % count]!.size;
    sizes.push(size);
    longest = Math.max(longest, at(last) - at(begin));
    begin = end + 1;
  }
  return { sizes, longest, instants };
}

/** Where Student's t leaves `TAIL`: with many degrees of freedom, where the normal distribution does. */
function deviateOf(freedom: number): number {
  if (freedom > MANY) return DEVIATE;
  const beyond = (log: number) => betaBelow(freedom / 2, 0.5, freedom / (freedom + Math.exp(2 * log)));
  return Math.exp(reached((log) => -beyond(log), -2 * TAIL, -10, 50));
}

/** How many times more a sum varies than a count of `events` independent ones. */
export const dispersion = ({ count, variation }: Clusters, events: number) => (events * (1 + variation)) / count;

/** Where the expected sum lies of which `sum` was seen, in `clusters`: at 95 %. */
export function clusteredInterval(sum: number, clusters: Clusters | null): Interval {
  if (clusters === null) return { low: 0, high: -Math.log(0.05) };
  const { count, variation, freedom } = clusters;
  const deviate = deviateOf(freedom);
  if (count > MANY) {
    const width = Math.exp(deviate * Math.sqrt((1 + variation) / count));
    return { low: sum / width, high: sum * width };
  }
  const ofSizes = count / variation;
  const below = (log: number) => {
    const x = Math.exp(log) / (Math.exp(log) + ofSizes);
    return (betaBelow(count, ofSizes, x) + betaBelow(count + 1, ofSizes, x)) / 2;
  };
  const tail = (1 - chiBelow(1, deviate * deviate)) / 2;
  const expected = Math.log(count);
  const limit = (share: number) => Math.exp(reached(below, share, expected - 50, expected + 50));
  return { low: (sum / count) * limit(tail), high: (sum / count) * limit(1 - tail) };
}
