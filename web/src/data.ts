// The data of the page, as `crates/report` writes it. Times are nanoseconds.

export interface PageData {
  report: Report;
  /** One entry per recording of the report. */
  charts: Charts[];
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

export interface Figures {
  samples: number;
  min_ns: number | null;
  mean_ns: number | null;
  deviation_ns: number | null;
  quantiles: { q: number; ns?: number; needs_samples?: number }[];
  largest_ns: number | null;
  largest_at_ns: number | null;
}

interface Key {
  service: string;
  route: "direct" | "deferred";
  cpu?: number;
}

export interface ServiceRow extends Key {
  missed: number;
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
}

export interface Course {
  name: string;
  limit_ns: number;
  is_whole: boolean;
  interval_ns: number;
  intervals: { number: number[]; median_ns: (number | null)[]; largest_ns: number[] };
  points: { after_ns: number[]; cpu: number[]; latency_ns: number[]; missed: number[] };
  typical: Example | null;
  worst: Example | null;
}

export interface Example {
  at_ns: number;
  cpu: number;
  latency_ns: number;
  parts: { stage: string; name: string; ns: number }[];
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
