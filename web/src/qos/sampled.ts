// Bounds on failures where the times of stalls are not known: a port of
// `analyze/qos/sampled`, which says why they are bounds.

import type { ServiceBuffers } from "../data";
import { clusteredInterval } from "./clusters";
import { LONG_RUN, type Failures } from "./failures";
import { chiBelow, rateInterval } from "./poisson";
import { slack, type Buffering } from "./replay";

const WINDOWS = 20;
/** How many times more than Poisson's counts are taken to vary, where it is not known when they came. */
const ASSUMED = 4;
/** The chance that an interval is hit, over its share of the period, at least. */
const HIT = 0.75;

const CONFIDENCE = 0.95;

/** What the port shares with the replay. */
interface Given {
  /** The replay of blackouts that are never too long. */
  inner: Failures;
  exposure: number;
  /** Latencies above this show a blackout. */
  ordinary: number;
  /** Whether the probe is too coarse, and not only the recording incomplete. */
  isBetween: boolean;
}

/** Failures in what was observed, from `low` to `high`. */
export function failureBounds(service: ServiceBuffers, buffering: Buffering, given: Given): { low: number; high: number } {
  const { inner, exposure } = given;
  const base = service.base_ns;
  const samples = service.buckets.reduce((sum, [, count]) => sum + count, 0);
  const halfway = Math.floor((base + slack(buffering)) / 2);
  const stalls = service.floor_ns <= halfway ? stallsOf(service, halfway) : null;
  // What stops all CPUs at once counts once.
  const bursts = (exposure / inner.span) * (stalls === null ? ASSUMED : burstsOf(stalls));
  const limits = (count: number, of: number, together: number) => {
    const { low, high } = rateInterval(count / together, of / together, 0.5 + CONFIDENCE / 2);
    return { low: count >= together ? low : 0, high };
  };
  const apart = exposure / samples;
  const each = Math.max((service.largest_ns - base) / apart + 1, 1);
  const share = (count: number) => limits(count, samples, each * bursts);
  const known = limits(inner.count, exposure, bursts);
  const counted = { beyond: laterThan(service.buckets, slack(buffering)), halfway: laterThan(service.buckets, halfway) };
  const beyond = share(counted.beyond);
  const jobs = exposure / buffering.period;
  const left = Math.max(buffering.period - buffering.compute - base, 1e-3 * buffering.period);
  // A stall that was seen fails for certain, however coarsely it was looked for.
  const sure = inner.count >= 1 ? clusteredInterval(inner.count, inner.clusters).low : 0;
  const low = Math.max((jobs * beyond.low) / longestRun(), sure);
  let high: number;
  if (given.isBetween) {
    const more = slack(buffering) - base;
    const sampled = (2 * share(counted.halfway).high) / more;
    const hit = HIT * Math.min(more / 2 / apart, 1);
    const rate = stalls === null ? sampled : Math.min(sampled, limits(stalls.length, exposure, bursts).high / hit);
    high = jobs * mostByJob(beyond.high, rate);
  }
  else high = limits(laterThan(service.buckets, given.ordinary), exposure, bursts).high * exposure * Math.max((2 * apart) / (left * LONG_RUN), 1);
  return { low, high: Math.min(Math.max(high, known.high * exposure, low), Math.max(jobs, low)) };

  function longestRun(): number {
    const free = left - (buffering.period * counted.halfway) / samples;
    return free <= 0 ? LONG_RUN : Math.min(Math.max((service.largest_ns - slack(buffering)) / free + 1, 1), LONG_RUN);
  }

  function mostByJob(beyond: number, rate: number): number {
    if (slack(buffering) <= base) return 1;
    const stalls = rate * buffering.period;
    const failures = Math.min(stalls, (buffering.compute + base) * rate + beyond);
    return Math.max(failures, ((beyond * buffering.period) / left + stalls) / LONG_RUN);
  }
}

/** When stalls were first felt that made activations later than `limit`, as a share of the observation. */
function stallsOf({ streams }: ServiceBuffers, limit: number): number[] {
  const all: number[] = [];
  for (const { after_ns, latency_ns, duration_ns } of streams) {
    let [at, end] = [0, -1];
    for (let index = 0; index < latency_ns.length; index += 1) {
      at += after_ns[index]!;
      if (latency_ns[index]! <= limit) continue;
      if (at > end) all.push(at / duration_ns);
      end = Math.max(end, at + latency_ns[index]!);
    }
  }
  return all;
}

/** How much more than Poisson's the counts of what came at these times vary. */
function burstsOf(times: number[]): number {
  const counts = Array<number>(WINDOWS).fill(0);
  for (const time of times) counts[Math.min(Math.floor(time * WINDOWS), WINDOWS - 1)]! += 1;
  const mean = times.length / WINDOWS;
  if (mean === 0) return 1;
  const freedom = WINDOWS - 1;
  const index = counts.reduce((sum, count) => sum + (count - mean) ** 2, 0) / freedom / mean;
  const below = chiBelow(freedom, freedom * index);
  return 2 * Math.min(below, 1 - below) < 0.01 ? Math.max(index, 1) : 1;
}

/** How many activations are in buckets above the one that holds `ns`. */
export function laterThan(buckets: [number, number][], ns: number): number {
  const bucket = ns <= 1 ? 0 : Math.ceil(64 * Math.log2(ns));
  return buckets.reduce((sum, [index, count]) => sum + (index > bucket ? count : 0), 0);
}
