// The data of the page, as `crates/report` writes it. Times are nanoseconds.

export interface PageData {
  report: Report;
  /** One entry per recording of the report. */
  charts: Charts[];
  /** What `laggard forecast --json` says. */
  forecast: Forecast | null;
  buffers: Buffers | null;
  /** What `laggard sched --json` says, one entry per load. */
  sched: Sched[];
}

/** What `laggard show --json` says. */
export interface Report {
  schema: number;
  version: string;
  recordings: Recording[];
}

export interface Recording {
  path: string;
  started: string;
  state: { state: "running" | "complete" | "interrupted" | "failed"; error?: string };
  duration_ns: number;
  backend: "bpf" | "user" | "fake";
  plan: {
    period_ns: number;
    dither: boolean;
    duration_ns: number | null;
    threshold_ns: number;
    keep: "all" | "tail";
  };
  load: Load | null;
  host: Host;
  services: ServiceRow[];
  /** Lines that were still waiting when measuring ended, the longest first. */
  waiting: Waiting[];
  stages: StageRow[];
  histograms: Histogram[];
  losses: Record<string, number>;
  caveats: Caveat[];
  shortfalls: Caveat[];
  cost: Cost;
  trust: { verdict: "good" } | { verdict: "none"; why: string[] };
  sentences: string[];
}

export interface Load {
  name: string;
  command: string[];
  throughput: { unit: string; count: number; elapsed_ns: number } | null;
}

export interface Host {
  node: string;
  distribution: string | null;
  kernel: string;
  build: string;
  architecture: string;
  preemption: string | null;
  hz: number | null;
  command_line: string;
  processor: { model: string; sockets: number; cores: number; threads: number };
  memory_bytes: number;
  frequency: { cpus: string | number[]; governor: string; driver: string | null }[];
  turbo: boolean | null;
  idle: { name: string; exit_ns: number; disabled: boolean }[];
  clocksource: { current: string; available: string[] };
  hypervisor: string | null;
  lockdown: string | null;
}

export interface Waiting extends Key {
  cpu: number;
  served: number;
  still_waiting: number;
  at_least_ns: number;
}

export interface Quantile {
  q: number;
  ns?: number;
  /** Whether the true one is at least `ns`. */
  is_at_least?: boolean;
  /** Where it lies between two times, the lower one. */
  low_ns?: number;
  needs_samples?: number;
}

export interface Figures {
  samples: number;
  min_ns: number | null;
  mean_ns: number | null;
  mean_is_at_least: boolean;
  deviation_ns: number | null;
  quantiles: Quantile[];
  largest_ns: number | null;
  /** Whether the true largest is at least that: one was still waiting when measuring ended. */
  largest_is_at_least: boolean;
  largest_at_ns: number | null;
}

interface Key {
  service: string;
  route: "direct" | "deferred";
  cpu?: number;
}

export interface ServiceRow extends Key {
  missed: number;
  /** Those of the missed that were still waiting when measuring ended. */
  still_waiting: number;
  lost: number;
  latency: Figures;
}

export interface StageRow extends Key {
  stage: string;
  name: string;
  time: Figures;
}

export interface Histogram extends Key {
  /** Bucket i ends at 2^(i/64) ns. */
  buckets: [number, number][];
}

export interface Caveat {
  kind: string;
  what: string;
  advice: string;
}

export interface Cost {
  wall_ns: number;
  measuring_cpu_ns: number;
  other_cpu_ns: number;
  programs: { name: string; runs: number; run_ns: number }[];
  written_bytes: number;
  resident_bytes: number;
  measuring_faults: number;
}

export interface Charts {
  advice: { severity: "spoils" | "matters" | "note"; why: string; what: string }[];
  by_cpu: ServiceRow[];
  by_cpu_histograms: Histogram[];
  courses: Course[];
  causes: Causes | null;
}

export interface Course {
  name: string;
  limit_ns: number;
  is_whole: boolean;
  interval_ns: number;
  intervals: { number: number[]; median_ns: (number | null)[]; largest_ns: number[] };
  points: { after_ns: number[]; cpu: number[]; latency_ns: number[]; missed: number[]; still_waiting: number[]; by_cause: Record<string, number[]> };
  typical: Example | null;
  worst: Example | null;
}

export interface Example {
  at_ns: number;
  cpu: number;
  latency_ns: number;
  parts: { stage: string; name: string; ns: number }[];
}

export interface Causes {
  /** What `laggard why --json` says. */
  why: Why;
  classes: { class: string; words: string; total_ns: number }[];
  flame: FlameNode;
  /** What the episodes name by number. */
  texts: string[];
  episodes: Episode[];
  left_out: number;
}

export interface Why {
  episodes: number;
  surplus: number;
  overwritten: number;
  total_ns: number;
  largest_ns: number;
  causes: Cause[];
  more_causes: number;
  sentences: string[];
  shortfalls: Caveat[];
}

export interface Cause {
  class: string;
  who: string | null;
  cpus: number[];
  episodes: number;
  first_in: number;
  per_hour: number;
  total_ns: number;
  share: number;
  largest_ns: number;
  largest_episode: number;
  largest_without_ns: number;
  rhythm: { period_ns: number; period_error_ns: number | null; hits: number; due: number; p: number } | null;
}

export interface FlameNode {
  name: string;
  ns: number;
  within?: FlameNode[];
}

export interface Episode {
  number: number;
  name: string;
  cpu: number;
  at_ns: number;
  latency_ns: number;
  class: string | null;
  main: string;
  stages_ns: Record<string, number>;
  /** Without a gap, from the expiry on. */
  slices: Slice[];
  samples: { after_ns: number; frames: number[] }[];
  samples_left_out: number;
}

export interface Slice {
  ns: number;
  /** How much of that went to others, each too short to be seen. */
  others_ns?: number;
  /** Absent for several short parts together. */
  class: string | null;
  who?: number;
  layers: number[];
}

export interface Forecast {
  loads: LoadForecast[];
}

export interface LoadForecast {
  load: string;
  recordings: string[];
  observed_ns: number;
  usage: { hours_per_day: number; days_per_week: number; compression: number };
  usage_from: string;
  services: ServiceForecast[];
  notes: string[];
}

export interface ServiceForecast extends Key {
  largest_ns: number | null;
  largest_is_at_least: boolean;
  periodic: { period_ns: number; hits: number; p: number }[];
  /** What the pieces that were seen could make together. */
  composed: Composed | null;
  cells: Cell[];
}

export interface Composed {
  /** Absent: what is above the service leaves it no time. */
  latency_ns: number | null;
  blocking_ns: number;
  blocked_by: string | null;
  own_ns: number;
  unexplained_ns: number;
  above: { who: string; time_ns: number }[];
}

export interface Cell {
  horizon: "hour" | "day" | "week";
  method: string;
  level_ns?: number;
  low_ns?: number;
  high_ns?: number;
  doubts?: string[];
  /** Of a level that was made cause by cause. */
  causes?: string[];
  reasons?: string[];
  at_most_ns?: number | null;
  record_for_model_ns?: number | null;
  record_without_model_ns?: number;
}

export interface Buffers {
  applications: Application[];
  loads: LoadBuffers[];
}

export interface Application {
  name: string;
  buffers: number;
  buffer_ns: number;
  compute_ns: number;
  source: string;
}

export interface LoadBuffers {
  load: string;
  recordings: string[];
  services: ServiceBuffers[];
  notes: string[];
}

export interface ServiceBuffers {
  name: string;
  cpus: number;
  /** How long it had waited when measuring ended, where it was still waiting then. */
  waited_ns: number | null;
  base_ns: number;
  period_ns: number;
  /** The mean time between two activations on a CPU. */
  apart_ns: number;
  largest_ns: number;
  /** CPUs that measuring kept busy; 0 where that is not known. */
  own_cpus: number;
  /** Whether what came before a late activation was not kept. */
  is_tail: boolean;
  /** When latencies up to this came, the recordings do not tell. */
  floor_ns: number;
  /** Latencies up to this are not in the page. */
  cut_ns: number | null;
  buckets: [number, number][];
  streams: StreamColumns[];
}

export interface StreamColumns {
  recording: number;
  duration_ns: number;
  after_ns: number[];
  latency_ns: number[];
  free_ns: number[];
}

export interface Sched {
  load: string;
  observed_ns: number;
  tasks: TaskVerdict[];
  set: {
    utilization: number;
    utilization_bound: number;
    hyperbolic_product: number;
    bounds_apply: boolean;
    edf_ideal: boolean | null;
    edf: boolean | null;
    breakdown_ideal: number;
    breakdown: number;
    all_kept: boolean;
  };
  notes: string[];
}

export interface TaskVerdict {
  name: string;
  compute_ns: number;
  period_ns: number;
  deadline_ns: number;
  service: string;
  buffers: number | null;
  ideal_ns: number | null;
  jitter_ns: number | null;
  least_ns: number | null;
  most_ns: number | null;
  slack_ns: number | null;
  verdict: "meets" | "misses" | "unclear";
  doubts: string[];
  limit: string;
  pseudo: {
    rare_ns: number;
    rare_from: string;
    ordinary_ns: number;
    pseudo_worst_case_ns: number;
    amortised_passes: boolean;
    exact_passes: boolean;
  } | null;
}

/** The name of a service reached by a route; a work item is always deferred. */
export function lineName({ service, route }: Key): string {
  const isThread = service === "other" || service.startsWith("fifo:");
  return isThread && route === "deferred" ? `${service} deferred` : service;
}

/** Where a bucket begins, ns: what is in it is later than this. */
export function bucketBegin(bucket: number): number {
  return bucket === 0 ? 0 : 2 ** ((bucket - 1) / 64);
}

/** Reads the data that the program put into the page. */
export function readData(): PageData {
  const text = document.getElementById("laggard-data")?.textContent ?? "";
  if (text.trim() === "") throw new Error("this page has no data; write it with `laggard report`");
  return JSON.parse(text) as PageData;
}
