// Replay of blackouts through an application's buffers: a port of
// `analyze/qos` (blackouts, late) and `analyze/exceedance/blackouts`, so that
// sliders give what `laggard qos` gives. Times are ns since the start.

import type { StreamColumns } from "../data";

/** `buffers` buffers of `period` each, every one filled by `compute` of work. */
export interface Buffering {
  buffers: number;
  period: number;
  compute: number;
}

export const tolerance = ({ buffers, period }: Buffering) => (buffers - 1) * period;
export const slack = (buffering: Buffering) => tolerance(buffering) - buffering.compute;

/** Spans in which nothing ran, ascending, apart from each other. */
export interface Blackouts {
  start: number[];
  end: number[];
}

/** Never too long, the estimate, and never too short. */
export interface Bounds {
  inner: Blackouts;
  middle: Blackouts;
  outer: Blackouts;
}

const empty = (): Blackouts => ({ start: [], end: [] });

/** The blackouts that are proved by latencies more than `least` above the `ordinary` one, which is in none of them. */
export function blackouts({ after_ns, latency_ns, free_ns }: StreamColumns, ordinary: number, least: number): Bounds {
  const all: Bounds = { inner: empty(), middle: empty(), outer: empty() };
  let at = 0;
  for (let index = 0; index < latency_ns.length; index += 1) {
    at += after_ns[index]!;
    if (latency_ns[index]! <= ordinary + least) continue;
    const free = at - free_ns[index]!;
    const end = at + latency_ns[index]! - ordinary;
    append(all.inner, at, end);
    append(all.middle, (free + at) / 2, end);
    append(all.outer, free, end);
  }
  return all;
}

/** Appends a blackout, joined with those before that it touches. */
function append(all: Blackouts, start: number, end: number): void {
  while (all.end.length > 0 && start <= all.end.at(-1)!) {
    start = Math.min(start, all.start.pop()!);
    end = Math.max(end, all.end.pop()!);
  }
  all.start.push(start);
  all.end.push(end);
}

/** How much later than the tolerance, as a share of it, counts as missed. */
const ROUNDING = 1e-12;

/** What missed in one replay: when each job was due, and how many come before each run. */
export interface LateJobs {
  misses: number[];
  runs: number[];
}

/**
 * Jobs are due at `phase` and every period after it until `until`, in order;
 * each takes the compute time and `base` more; nothing runs in a blackout.
 * Jobs that nothing hinders are skipped.
 */
export function lateJobs({ start, end }: Blackouts, until: number, buffering: Buffering, phase: number, base: number): LateJobs {
  const cost = buffering.compute + base;
  const { period } = buffering;
  const latest = tolerance(buffering) * (1 + ROUNDING);
  const late: LateJobs = { misses: [], runs: [] };
  let now = 0;
  let next = 0;
  let before = false;
  let job = 0;
  const leaveBlackout = () => {
    for (; next < end.length; next += 1) {
      if (end[next]! > now) {
        if (start[next]! > now) return;
        now = end[next]!;
      }
    }
  };
  for (;;) {
    const due = phase + job * period;
    if (due >= until) return late;
    now = Math.max(now, due);
    leaveBlackout();
    const freeUntil = next < start.length ? start[next]! : until;
    if (now <= due && cost < period && due + cost < freeUntil) {
      before = false;
      // The last job that ends before the blackout is played again: rounding
      // must not decide which one that is.
      job = Math.max(job + 1, Math.floor((freeUntil - cost - phase) / period) - 1);
      continue;
    }
    let left = cost;
    while (left > 0 && next < start.length && now + left > start[next]!) {
      left -= start[next]! - now;
      now = start[next]!;
      leaveBlackout();
    }
    now += Math.max(left, 0);
    const missed = now - due > latest;
    if (missed) {
      if (!before) late.runs.push(late.misses.length);
      late.misses.push(due);
    }
    before = missed;
    job += 1;
  }
}
