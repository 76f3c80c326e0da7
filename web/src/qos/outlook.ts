// How often an application misses: a port of `analyze/qos/outlook` and
// `report/qos`. docs/qos.md says what it means.

import type { ServiceBuffers } from "../data";
import { time } from "../format";
import { burstiness, rateInterval, rateUpperLimit, widened } from "./poisson";
import { blackouts, lateJobs, overPhases, slack, tolerance, type Bounds, type Buffering } from "./replay";

const CONFIDENCE = 0.95;
const PHASES = 16;
const WINDOWS = 20;
const HOUR = 3.6e12;
/** A run of more late jobs than this counts once per so many. */
const LONG_RUN = 100;
/** Latencies below this part of the slack are ordinary: no blackout. */
const ORDINARY_PART = 10;
/** A probe finer than this part of the slack bounds failures well. */
const FINE_PART = 20;
/** -ln 0.05. */
const RULE_OF_THREE = 2.995732273553991;
/** Buffers that the curve goes up to, unless the application has more. */
const MOST_BUFFERS = 12;
/** More jobs than this are not played one by one in a page. */
const MOST_JOBS = 3e6;

export interface Figures {
  exposure: number;
  failures: number;
  mttf: number | null;
  low: number;
  high: number;
  latePerHour: number;
  dispersion: number | null;
  /** By the papers' own rule, (n - 1) t / P(latency > slack). */
  paper: number;
}

/** How often jobs miss; all times in ns. */
export function figures(service: ServiceBuffers, buffering: Buffering): Figures {
  const floor = Math.floor(slack(buffering) / ORDINARY_PART);
  const observed = service.streams.map((stream) => ({ all: blackouts(stream, floor), exposure: stream.duration_ns }));
  const exposure = observed.reduce((sum, one) => sum + one.exposure, 0);
  let [fewest, most, failures, misses] = [0, 0, 0, 0];
  for (const one of observed) {
    const replay = (kind: keyof Bounds) => overPhases(one.all[kind], one.exposure, buffering, PHASES, service.base_ns);
    const estimate = replay("middle");
    fewest += failuresIn(replay("inner"));
    most += failuresIn(replay("outer"));
    failures += failuresIn(estimate);
    misses += estimate.misses;
  }
  // Longer blackouts can join two episodes to one.
  [fewest, most] = [Math.min(fewest, failures, most), Math.max(most, failures, fewest)];
  const dispersion = bursts(observed, buffering, service.base_ns);
  const limits = (events: number) => widened(rateInterval(events, exposure, CONFIDENCE), events / exposure, dispersion ?? 1);
  const high = most > 0 ? limits(most).high : rateUpperLimit(0, exposure, CONFIDENCE);
  return {
    exposure,
    failures,
    mttf: failures > 0 ? exposure / failures : null,
    low: 1 / high,
    high: 1 / limits(fewest).low,
    latePerHour: (misses / exposure) * HOUR,
    dispersion,
    paper: tolerance(buffering) / shareAbove(service.buckets, slack(buffering)),
  };
}

const failuresIn = ({ misses, episodes }: { misses: number; episodes: number }) => Math.max(episodes, misses / LONG_RUN);

function bursts(observed: { all: Bounds; exposure: number }[], buffering: Buffering, base: number): number | null {
  const longest = Math.max(...observed.map(({ exposure }) => exposure));
  const counts = Array<number>(WINDOWS).fill(0);
  for (const { all, exposure } of observed) {
    for (const at of lateJobs(all.middle, exposure, buffering, buffering.period / 2, base).episodes) {
      counts[Math.min(Math.floor((at / longest) * WINDOWS), WINDOWS - 1)]! += 1;
    }
  }
  return burstiness(counts);
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
  const most = Math.max(MOST_BUFFERS, application.buffers);
  const tried = Array.from({ length: most - 1 }, (_, index) => ({ ...application, buffers: index + 2 }));
  return tried
    .filter((one) => refusal(service, one) === null)
    .map((one) => ({ buffers: one.buffers, total: one.period * one.buffers, figures: figures(service, one) }));
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
