// When a stream of jobs failed: a port of `analyze/qos/failures`.

import { clustersOf, type Clusters, type Event } from "./clusters";
import { lateJobs, type Blackouts, type Buffering } from "./replay";

const PHASES = 16;
/** A run of more late jobs than this counts once per so many. */
export const LONG_RUN = 100;

/** One CPU of one recording, and what hinders jobs there. */
export interface Seen {
  recording: number;
  blackouts: Blackouts;
  exposure: number;
}

/** The failures of all CPUs together, means over phases. */
export interface Failures {
  count: number;
  misses: number;
  clusters: Clusters | null;
  /** How long was observed by the clock on the wall. */
  span: number;
}

export function failures(seen: Seen[], buffering: Buffering, base: number): Failures {
  const { starts, span } = recordings(seen);
  const found: Failures = { count: 0, misses: 0, clusters: null, span };
  const events: Event[] = [];
  for (const [index, one] of seen.entries()) {
    const { count, misses, incidents } = ofCpu(one, buffering, base);
    found.count += count;
    found.misses += misses;
    for (const { at, size } of incidents) events.push({ at: starts[index]! + Math.min(at, one.exposure), size });
  }
  events.sort((one, other) => one.at - other.at);
  return { ...found, clusters: clustersOf(events, span) };
}

/** When each recording began, were they made one after the other. */
function recordings(seen: Seen[]): { starts: number[]; span: number } {
  const lengths = new Map<number, number>();
  for (const { recording, exposure } of seen) lengths.set(recording, Math.max(lengths.get(recording) ?? 0, exposure));
  const starts = new Map<number, number>();
  let span = 0;
  for (const [recording, length] of lengths) {
    starts.set(recording, span);
    span += length;
  }
  return { starts: seen.map(({ recording }) => starts.get(recording)!), span };
}

function ofCpu({ blackouts, exposure }: Seen, buffering: Buffering, base: number) {
  let [episodes, misses] = [0, 0];
  const pieces: Event[] = [];
  for (let index = 0; index < PHASES; index += 1) {
    const phase = ((index + 0.5) / PHASES) * buffering.period;
    const late = lateJobs(blackouts, exposure, buffering, phase, base);
    episodes += late.runs.length;
    misses += late.misses.length;
    for (const [nth, begin] of late.runs.entries()) {
      const end = late.runs[nth + 1] ?? late.misses.length;
      for (let at = begin; at < end; at += LONG_RUN) {
        const size = end - begin <= LONG_RUN ? 1 : Math.min(end - at, LONG_RUN) / LONG_RUN;
        pieces.push({ at: late.misses[at]!, size: size / PHASES });
      }
    }
  }
  pieces.sort((one, other) => one.at - other.at);
  const [meanEpisodes, meanMisses] = [episodes / PHASES, misses / PHASES];
  return { count: Math.max(meanEpisodes, meanMisses / LONG_RUN), misses: meanMisses, incidents: incidents(pieces, buffering.period) };
}

/** The same failure in several phases as one. */
function incidents(pieces: Event[], period: number): Event[] {
  const found: Event[] = [];
  for (const piece of pieces) {
    const last = found.at(-1);
    if (last && piece.at < last.at + period) last.size += piece.size;
    else found.push({ ...piece });
  }
  return found;
}
