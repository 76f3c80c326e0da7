// How often an application misses: a port of `analyze/qos/outlook` and
// `report/qos`. docs/explanation/xrun-prediction.md says what it means.

import type { ServiceBuffers, StreamColumns } from "../data";
import { count, exact, time } from "../format";
import { clusteredInterval, dispersion } from "./clusters";
import { failures as failuresOf, type Failures, type Seen } from "./failures";
import { failureBounds, laterThan } from "./sampled";
import { blackouts, slack, tolerance, type Bounds, type Buffering } from "./replay";

const HOUR = 3.6e12;
/** Failures of this dispersion or less count as independent. */
const INDEPENDENT = 1.5;
/** Latencies that exceed the ordinary one by less than this part of the slack show no blackout. */
const ORDINARY_PART = 10;
/** With fewer activations within the slack, stalls come unseen between two that decide by themselves. */
const LEAST_PART = 2;
/** A probe finer than this part of the slack bounds failures well. */
const FINE_PART = 20;
/** -ln 0.05. */
const RULE_OF_THREE = 2.995732273553991;
/** Buffers that the curve goes up to, unless the application has more. */
const MOST_BUFFERS = 12;
/** Nor does it go further then; the application's own are added. */
const MOST_TRIED = 64;
/** Jobs that a replay may play; an answer takes 48 replays for each point of the curve. */
const MOST_JOBS = 1e6;
/** And so many in a page, one replay of each point of the curve together. */
const MOST_AT_ONCE = 5e6;

export interface Figures {
  exposure: number;
  /** Null where only the interval is known. */
  failures: number | null;
  /** Independent clusters that these came in; null where they are. */
  clusters: number | null;
  /** Null below one failure. */
  mttf: number | null;
  low: number;
  high: number;
  latePerHour: number;
  dispersion: number | null;
  /** By the papers' own rule, (n - 1) t / P(latency > slack). */
  paper: number;
}

/** What `analyze/qos/outlook` says. */
interface Outlook {
  exposure: number;
  failures: number;
  clusters: number;
  misses: number;
  mttf: number | null;
  low: number;
  high: number;
  dispersion: number | null;
}

/** The blackouts of each stream, that latencies more than `least` above the ordinary one prove. */
function observe(streams: StreamColumns[], base: number, least: number) {
  return streams.map((stream) => ({ all: blackouts(stream, base, least), recording: stream.recording, exposure: stream.duration_ns }));
}

const exposureOf = (streams: StreamColumns[]) => streams.reduce((sum, { duration_ns }) => sum + duration_ns, 0);

/** Failures over one list of blackouts. */
function over(kind: keyof Bounds, observed: ReturnType<typeof observe>, buffering: Buffering, base: number) {
  const seen = observed.map(({ all, ...one }): Seen => ({ ...one, blackouts: all[kind] }));
  return failuresOf(seen, buffering, base);
}

/** How often jobs fail, by replay, with an interval; all times in ns. */
export function outlook(streams: StreamColumns[], base: number, least: number, buffering: Buffering): Outlook {
  const observed = observe(streams, base, least);
  const exposure = exposureOf(streams);
  const [inner, middle, outer] = (["inner", "middle", "outer"] as const).map((kind) => over(kind, observed, buffering, base)) as [Failures, Failures, Failures];
  const limits = [inner, middle, outer].map(({ count, clusters }) => clusteredInterval(count, clusters));
  const unseen = (clusteredInterval(0, null).high * exposure) / middle.span;
  // Longer blackouts can join two failures to one.
  const isSure = Math.min(inner.count, middle.count, outer.count) >= 1;
  const low = isSure ? Math.min(...limits.map(({ low }) => low)) : 0;
  // A job fails once at most.
  const high = Math.min(exposure / buffering.period, Math.max(unseen, ...limits.map(({ high }) => high)));
  const index = middle.clusters && dispersion(middle.clusters, middle.count);
  return {
    exposure,
    failures: middle.count,
    clusters: Math.min(middle.clusters?.count ?? 0, middle.count),
    misses: middle.misses,
    mttf: middle.count >= 1 ? exposure / middle.count : null,
    low: exposure / high,
    high: exposure / low,
    dispersion: index !== null && index > INDEPENDENT ? index : null,
  };
}

/** How often jobs miss; all times in ns. */
function figures(service: ServiceBuffers, buffering: Buffering): Figures {
  const { streams, base_ns: base } = service;
  const least = Math.floor(slack(buffering) / ORDINARY_PART);
  const exposure = exposureOf(streams);
  const share = shareAbove(service.buckets, slack(buffering));
  const paper = tolerance(buffering) / share;
  const none = { exposure, failures: null, clusters: null, mttf: null, latePerHour: (HOUR / buffering.period) * share, paper };
  const limit = coarse(service, buffering);
  if (limit === "floor" || limit === "between") {
    const inner = over("inner", observe(streams, base, least), buffering, base);
    const ordinary = base + least;
    const isBetween = slack(buffering) < LEAST_PART * service.apart_ns;
    const { low, high } = failureBounds(service, buffering, { inner, exposure, ordinary, isBetween });
    return { ...none, low: exposure / high, high: exposure / low, dispersion: null };
  }
  const { misses, failures, clusters, mttf, ...known } = outlook(streams, base, least, buffering);
  if (limit === "tail") return { ...none, ...known };
  return { ...known, failures, clusters, mttf, latePerHour: (misses / exposure) * HOUR, paper };
}

/** Makes a curve agree that more buffers never fail more often: see `analyze/qos/monotone` and `report/qos`. */
export function monotone(points: Pick<Point, "figures">[]): void {
  const told = points.flatMap(({ figures }) => (figures.failures === null ? [] : [{ figures, failures: figures.failures }]));
  const pools: { sum: number; size: number }[] = [];
  for (const { failures } of told) {
    const pool = { sum: failures, size: 1 };
    for (let last = pools.at(-1); last && last.sum / last.size < pool.sum / pool.size; last = pools.at(-1)) {
      pool.sum += last.sum;
      pool.size += last.size;
      pools.pop();
    }
    pools.push(pool);
  }
  const pooled = pools.flatMap(({ sum, size }) => Array<number>(size).fill(sum / size));
  let high = 0;
  for (const [index, { figures }] of told.entries()) {
    const failures = pooled[index]!;
    figures.failures = failures;
    figures.mttf = failures >= 1 ? figures.exposure / failures : null;
    high = Math.max(high, figures.high);
    figures.high = high;
  }
  let low = Infinity;
  for (const { figures } of points.toReversed()) {
    low = Math.min(low, figures.low);
    figures.low = low;
  }
}

/** The share of activations later than `ns`. */
function shareAbove(buckets: [number, number][], ns: number): number {
  return laterThan(buckets, ns) / Math.max(buckets.reduce((sum, [, count]) => sum + count, 0), 1);
}

export interface Point {
  buffers: number;
  total: number;
  figures: Figures;
  /** Whether what begins and ends between two activations can make a buffer late. */
  isBlind: boolean;
}

/** With 2, 3, 4 ... buffers of the same length, as far as the page can tell. */
export function curve(service: ServiceBuffers, application: Buffering): Point[] {
  if (tooMuch(service, application) !== null) return [];
  const points = tried(application.buffers)
    .map((buffers) => ({ ...application, buffers }))
    .filter((one) => unheld(service, one) === null)
    .map((one) => ({ buffers: one.buffers, total: one.period * one.buffers, figures: figures(service, one), isBlind: coarse(service, one) === "between" }));
  monotone(points);
  return points;
}

/** The numbers of buffers of the curve, the application's own among them. */
function tried(own: number): number[] {
  const most = Math.min(Math.max(MOST_BUFFERS, own), MOST_TRIED);
  const numbers = Array.from({ length: most - 1 }, (_, index) => index + 2);
  return [...numbers, ...(own > most ? [own] : [])];
}

export const GOALS: [string, number][] = [
  ["hour", HOUR],
  ["day", 24 * HOUR],
  ["week", 168 * HOUR],
];

/** The fewest buffers for a goal, in the words of `laggard qos`. */
export function needed(service: ServiceBuffers, points: Point[], goal: number): string {
  const first = (meets: (figures: Figures, isBlind: boolean) => boolean) => points.find(({ figures, isBlind }) => meets(figures, isBlind))?.buffers;
  // Fewer were not tried where the page cannot tell.
  const said = (buffers: number) => (buffers > 2 && buffers === points[0]!.buffers ? `${buffers} or fewer` : String(buffers));
  const surely = first(({ low }, isBlind) => !isBlind && low >= goal);
  if (surely !== undefined) return said(surely);
  const estimate = first(({ mttf }) => mttf !== null && mttf >= goal);
  if (estimate !== undefined) return `about ${said(estimate)}, not proved`;
  if (points.length === 0) return "-";
  if (points.at(-1)!.figures.failures === null) return "?";
  return span(service) < goal * RULE_OF_THREE ? "?" : `more than ${points.at(-1)!.buffers}`;
}

/** How long was recorded by the clock on the wall: CPUs do not add to it, for what stops all at once cannot be ruled out. */
function span({ streams }: ServiceBuffers): number {
  const lengths = new Map<number, number>();
  for (const { recording, duration_ns: length } of streams) lengths.set(recording, Math.max(length, lengths.get(recording) ?? 0));
  return [...lengths.values()].reduce((sum, length) => sum + length, 0);
}

/** Why the page cannot tell, or null. */
export const refusal = (service: ServiceBuffers, application: Buffering) => tooMuch(service, application) ?? unheld(service, application);

/** Why the page holds too little to tell, or null. `laggard qos` can, from the recording. */
function unheld({ cut_ns: cut, base_ns: base }: ServiceBuffers, application: Buffering): string | null {
  const ordinary = base + Math.floor(slack(application) / ORDINARY_PART);
  if (cut === null || ordinary >= cut) return null;
  return `the page holds latencies above ${time(cut)} only, enough for a slack of ${time((cut - base) * ORDINARY_PART)} or more; ask \`laggard qos\``;
}

/**
 * Why a replay would take too long, in the words of `laggard qos`, or null.
 * Fewest buffers have the least slack, and so the most blackouts.
 */
function tooMuch(service: ServiceBuffers, application: Buffering): string | null {
  const { period, buffers } = application;
  const jobs = jobsToPlay(service, { ...application, buffers: 2 });
  if (jobs > MOST_JOBS) {
    // A little more, so that rounding down does not refuse it again.
    const least = twoDigits(Math.floor(((period * jobs) / MOST_JOBS) * 1.1) + 1);
    return (
      `buffers of ${exact(period)} are too short to be replayed: \`${service.service}\` was stopped for ${count(Math.floor(jobs))} of them, ` +
      `more than ${count(MOST_JOBS)}; the limit for these recordings is \`--buffer ${exact(least)}\``
    );
  }
  const points = tried(buffers).length;
  if (jobs * points <= MOST_AT_ONCE) return null;
  return `a replay plays ${count(Math.floor(jobs))} jobs for each of ${points} numbers of buffers, more than a page does at once; ask \`laggard qos\``;
}

/** Jobs that one replay plays, at most: a port of `analyze/qos/effort`. */
function jobsToPlay({ base_ns: base, streams }: ServiceBuffers, buffering: Buffering): number {
  const { period, compute } = buffering;
  const least = Math.floor(slack(buffering) / ORDINARY_PART);
  const idle = period - compute - base;
  return streams.reduce((sum, stream) => {
    const all = stream.duration_ns / period + 1;
    if (idle <= 0) return sum + all;
    // While a blackout lasts a backlog grows, and then goes by what is idle
    // in each period; three more are played around it.
    const { start, end } = blackouts(stream, base, least).outer;
    const near = start.reduce((jobs, from, index) => jobs + (end[index]! - from) / idle + 3, 0);
    return sum + Math.min(near, all);
  }, 0);
}

/** Rounded down to two digits, so that a person can type it. */
function twoDigits(ns: number): number {
  const unit = 10 ** Math.max(Math.floor(Math.log10(ns)) - 1, 0);
  return Math.floor(ns / unit) * unit;
}

/**
 * Why the recordings tell little about so short a slack, or null: `floor`,
 * `between` and `tail` leave only an interval, `period` a wide one.
 */
export function coarse(service: ServiceBuffers, application: Buffering): "floor" | "between" | "tail" | "period" | null {
  const { floor_ns: floor, base_ns: base, apart_ns: apart, is_tail: isTail } = service;
  const ns = slack(application);
  if (floor > base + Math.floor(ns / ORDINARY_PART)) return "floor";
  if (ns < LEAST_PART * apart) return "between";
  if (ns >= FINE_PART * apart) return null;
  return isTail ? "tail" : "period";
}

/** A shorter period, which gives an estimate, and its price by the recording's own cost. */
export function finer({ period_ns: period, apart_ns: apart, own_cpus: cost }: ServiceBuffers, application: Buffering): string {
  const factor = slack(application) / (2 * LEAST_PART) / apart;
  const price = cost > 0 ? `, at about ${((100 * cost) / factor).toFixed(0)} % of one CPU (${(100 * cost).toFixed(1)} % in this recording)` : "";
  return `record with a \`--period\` of ${time(period * factor)}${price}`;
}
