// How often an application misses: a port of `analyze/qos/outlook` and
// `report/qos`. docs/qos.md says what it means.

import type { ServiceBuffers } from "../data";
import { time } from "../format";
import { clusteredInterval, dispersion } from "./clusters";
import { failures as failuresOf, type Seen } from "./failures";
import { blackouts, slack, tolerance, type Bounds, type Buffering } from "./replay";

const HOUR = 3.6e12;
/** Failures of this dispersion or less count as independent. */
const INDEPENDENT = 1.5;
/** Latencies below this part of the slack are ordinary: no blackout. */
const ORDINARY_PART = 10;
/** A probe finer than this part of the slack bounds failures well. */
const FINE_PART = 20;
/** -ln 0.05. */
const RULE_OF_THREE = 2.995732273553991;
/** Buffers that the curve goes up to, unless the application has more. */
const MOST_BUFFERS = 12;
/** Nor does it go further then; the application's own are added. */
const MOST_TRIED = 64;
/** More jobs than this are not played one by one in a page. */
const MOST_JOBS = 3e6;

export interface Figures {
  exposure: number;
  failures: number;
  /** Independent clusters that these came in. */
  clusters: number;
  /** Null below one failure. */
  mttf: number | null;
  low: number;
  high: number;
  latePerHour: number;
  dispersion: number | null;
  /** By the papers' own rule, (n - 1) t / P(latency > slack). */
  paper: number;
}

/** How often jobs miss; all times in ns. */
function figures(service: ServiceBuffers, buffering: Buffering): Figures {
  const least = Math.floor(slack(buffering) / ORDINARY_PART);
  const observed = service.streams.map((stream) => ({ all: blackouts(stream, service.base_ns, least), recording: stream.recording, exposure: stream.duration_ns }));
  const exposure = observed.reduce((sum, one) => sum + one.exposure, 0);
  const list = (kind: keyof Bounds) => {
    const seen = observed.map(({ all, ...one }): Seen => ({ ...one, blackouts: all[kind] }));
    return failuresOf(seen, buffering, service.base_ns);
  };
  const [inner, middle, outer] = [list("inner"), list("middle"), list("outer")];
  const limits = [inner, middle, outer].map(({ count, clusters }) => clusteredInterval(count, clusters));
  const unseen = (clusteredInterval(0, null).high * exposure) / middle.span;
  // Longer blackouts can join two failures to one.
  const isSure = Math.min(inner.count, middle.count, outer.count) >= 1;
  const low = isSure ? Math.min(...limits.map(({ low }) => low)) : 0;
  const high = Math.max(unseen, ...limits.map(({ high }) => high));
  const index = middle.clusters && dispersion(middle.clusters, middle.count);
  return {
    exposure,
    failures: middle.count,
    clusters: middle.clusters?.count ?? 0,
    mttf: middle.count >= 1 ? exposure / middle.count : null,
    low: exposure / high,
    high: exposure / low,
    latePerHour: (middle.misses / exposure) * HOUR,
    dispersion: index !== null && index > INDEPENDENT ? index : null,
    paper: tolerance(buffering) / shareAbove(service.buckets, slack(buffering)),
  };
}

/** Makes a curve agree that more buffers never fail more often: see `analyze/qos/monotone`. */
function monotone(points: Point[]): void {
  const pools: { sum: number; size: number }[] = [];
  for (const { figures } of points) {
    const pool = { sum: figures.failures, size: 1 };
    for (let last = pools.at(-1); last && last.sum / last.size < pool.sum / pool.size; last = pools.at(-1)) {
      pool.sum += last.sum;
      pool.size += last.size;
      pools.pop();
    }
    pools.push(pool);
  }
  const pooled = pools.flatMap(({ sum, size }) => Array<number>(size).fill(sum / size));
  let high = 0;
  for (const [index, { figures }] of points.entries()) {
    figures.failures = pooled[index]!;
    figures.mttf = figures.failures >= 1 ? figures.exposure / figures.failures : null;
    high = Math.max(high, figures.high);
    figures.high = high;
  }
  let low = Infinity;
  for (const { figures } of points.toReversed()) {
    low = Math.min(low, figures.low);
    figures.low = low;
  }
}

/** The share of activations in buckets above the one that holds `ns`. */
function shareAbove(buckets: [number, number][], ns: number): number {
  const bucket = ns <= 1 ? 0 : Math.ceil(64 * Math.log2(ns));
  let [above, all] = [0, 0];
  for (const [index, count] of buckets) {
    all += count;
    if (index > bucket) above += count;
  }
  return above / Math.max(all, 1);
}

export interface Point {
  buffers: number;
  total: number;
  figures: Figures;
}

/** With 2, 3, 4 ... buffers of the same length, as far as the page can tell. */
export function curve(service: ServiceBuffers, application: Buffering): Point[] {
  const own = application.buffers;
  const most = Math.min(Math.max(MOST_BUFFERS, own), MOST_TRIED);
  const numbers = Array.from({ length: most - 1 }, (_, index) => index + 2);
  const points = [...numbers, ...(own > most ? [own] : [])]
    .map((buffers) => ({ ...application, buffers }))
    .filter((one) => refusal(service, one) === null)
    .map((one) => ({ buffers: one.buffers, total: one.period * one.buffers, figures: figures(service, one) }));
  monotone(points);
  return points;
}

export const GOALS: [string, number][] = [
  ["hour", HOUR],
  ["day", 24 * HOUR],
  ["week", 168 * HOUR],
];

/** The fewest buffers for a goal, in the words of `laggard qos`. */
export function needed(points: Point[], goal: number): string {
  const first = (meets: (figures: Figures) => boolean) => points.find((point) => meets(point.figures))?.buffers;
  // Fewer were not tried where the page cannot tell.
  const said = (buffers: number) => (buffers > 2 && buffers === points[0]!.buffers ? `${buffers} or fewer` : String(buffers));
  const surely = first(({ low }) => low >= goal);
  if (surely !== undefined) return said(surely);
  const estimate = first(({ mttf }) => mttf !== null && mttf >= goal);
  if (estimate !== undefined) return `about ${said(estimate)}, not proved`;
  if (points.length === 0) return "-";
  return points[0]!.figures.exposure < goal * RULE_OF_THREE ? "?" : `more than ${points.at(-1)!.buffers}`;
}

/** Why the page cannot tell, or null. `laggard qos` can, from the recording. */
export function refusal({ cut_ns: cut, base_ns: base, streams }: ServiceBuffers, application: Buffering): string | null {
  const ordinary = Math.floor(slack(application) / ORDINARY_PART);
  if (cut !== null && ordinary < cut) {
    return `the page holds latencies above ${time(cut)} only, enough for a slack of ${time(cut * ORDINARY_PART)} or more; ask \`laggard qos\``;
  }
  const jobs = streams.reduce((sum, stream) => sum + stream.duration_ns / application.period, 0);
  if (application.compute + base >= application.period && jobs > MOST_JOBS) {
    return "work and ordinary latency together are longer than a buffer: it is always late";
  }
  return null;
}

/** Why the recordings tell little about so short a slack, or null. */
export function coarse(service: ServiceBuffers, application: Buffering): "floor" | "period" | null {
  const ns = slack(application);
  if (service.floor_ns > Math.floor(ns / ORDINARY_PART)) return "floor";
  return service.period_ns > Math.max(Math.floor(ns / FINE_PART), 1) ? "period" : null;
}
