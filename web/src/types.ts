// The types of the page's data, generated from those in Rust by the test
// `page_types`: do not edit. Times are nanoseconds.

/** All that the page shows. */
export interface PageData {
  /** What `laggard qos` would start from. */
  buffers: BuffersView | null;
  /** What the page draws besides, one entry per recording. */
  charts: Charts[];
  /** What `laggard forecast --json` says of them; absent where they hold no activation, like the next. */
  forecast: ForecastReport | null;
  /** What `laggard show --json` says of the same recordings. */
  report: Report;
  /** What `laggard sched --json` says of the task set that was given, one entry per load. */
  sched: SchedReport[];
}

/** Who keeps a service waiting without being stopped by it. */
export interface Above {
  /** Its most time in a window as long as the latency, ns. */
  time_ns: number;
  /** In words. */
  who: string;
}

/** What a CPU can be in the midst of, besides running a thread. */
export type Activity = { irq: number } | { vector: Vector } | { softirq: number } | { hrtimer: Address } | { timer: Address } | { work: Address } | { idle: number } | "page_fault";

/** An address of kernel or user code. */
export type Address = string;

/** Something to do. */
export interface Advice {
  /** How much the reason bears on the result. */
  severity: Severity;
  /** What to do. */
  what: string;
  /** The reason. */
  why: string;
}

/** An application's buffers (OSDI'99 Table 1). */
export interface Application {
  /** The length of one. */
  buffer_ns: Nanos;
  /** How many buffers. */
  buffers: number;
  /** The work for one. */
  compute_ns: Nanos;
  /** Its name. */
  name: string;
  /** Tolerance less compute time: a start later than this misses. */
  slack_ns: Nanos;
  /** Where these figures come from. */
  source: string;
  /** (n - 1) buffers: a response later than this misses. */
  tolerance_ns: Nanos;
}

/** What gave the stages. */
export type Backend = "bpf" | "user" | "tracer" | "fake";

/** Applications, and what would hinder them. */
export interface BuffersView {
  /** To choose from; the user's own first. */
  applications: Application[];
  /** One entry per load. */
  loads: LoadBuffers[];
}

/** One part of an episode's time. */
export interface Cause {
  /** What kind of thing. */
  class: CauseClass;
  /** Who. */
  culprit: Culprit;
  /** How much of the latency. */
  time_ns: Nanos;
}

/** What kind of thing took the time. */
export type CauseClass = "idle_exit" | "stolen" | "stall" | "interrupts_off" | "interrupt" | "softirq" | "preemption_off" | "higher_priority" | "equal" | "throttled" | "migration" | "context_switch" | "return_to_user" | "own_path" | "unexplained";

/** A return level, and the causes that it was made of. */
export interface CauseLevel {
  /** The causes, in words. */
  causes: string[];
  /** What speaks against steady, independent peaks. */
  doubts: string[];
  /** The upper end, ns. */
  high_ns: number;
  /** The level, ns. */
  level_ns: number;
  /** The lower end of its 95 % interval, ns. */
  low_ns: number;
  /** How many of them come at a steady pace; these are not compressed. */
  periodic: number;
}

/** A cause over all episodes. */
export interface CauseRow {
  /** What kind of thing. */
  class: CauseClass;
  /** On which CPUs. */
  cpus: Cpu[];
  /** In how many episodes it took part. */
  episodes: number;
  /** In how many no other cause took more. */
  first_in: number;
  /** Whether it is a thread of the laggard that recorded, and so not the machine's doing. */
  is_ours?: boolean;
  /** The number of that one. */
  largest_episode: number;
  /** Most time in one. */
  largest_ns: Nanos;
  /** The largest latency of any episode, had this cause taken no time. */
  largest_without_ns: Nanos;
  /** Episodes an hour. */
  per_hour: number;
  /** How it comes again and again, where chance does not explain that. Looked for in the causes with most time. */
  rhythm: RhythmRow | null;
  /** Its share of the time of all episodes, 0 to 1. */
  share: number;
  /** Time in all of them. */
  total_ns: Nanos;
  /** Who, in words. */
  who: string | null;
  /** Levels with it and without it, for the leading causes. */
  worth: Worth[];
}

/** What the page draws of a recording's episodes. */
export interface CausesView {
  /** Every class that occurs, in plain words; that with most time first. */
  classes: ClassView[];
  /** The latest episodes of each service, the latest of all first. */
  episodes: EpisodeView[];
  /** Where the time of all episodes went. */
  flame: FlameNode;
  /** How many more there are. */
  left_out: number;
  /** Texts that the episodes name by number. */
  texts: string[];
  /** What `laggard why --json` says. */
  why: WhyReport;
}

/** A reason to doubt a result, with advice. */
export interface Caveat {
  /** What to do about it. */
  advice: string;
  /** What kind of doubt. */
  kind: CaveatKind;
  /** What was found, in plain words. */
  what: string;
}

/** What kind of doubt a caveat raises. */
export type CaveatKind = "not_root" | "no_btf" | "lockdown" | "no_bpf" | "ability_absent" | "service_absent" | "priority" | "rt_group" | "rt_throttling" | "idle_states" | "governor" | "turbo" | "preemption" | "debug_kernel" | "tick_rate" | "tickless" | "mitigations" | "siblings" | "swap" | "huge_pages" | "numa_balancing" | "watchdog" | "irq_balance" | "timer_migration" | "timer_elsewhere" | "autogroup" | "virtual_machine" | "stolen" | "no_pmu" | "cpu_offline" | "cpu_isolated" | "memory_lock" | "clocksource" | "load_ended" | "losses" | "own_cost" | "stage_unseen" | "stopped" | "moved" | "page_faults" | "external_source" | "softirq_thread" | "tracer" | "unfinished" | "inherited" | "cpuset" | "cpu_quota" | "other_tracers" | "overload";

/** What is forecast for one horizon. */
export type Cell = { horizon: Horizon; measured_ns: number } & ({ method: "order_statistics" } & Level | { method: "peaks_over_threshold" } & Level | { method: "by_cause" } & CauseLevel | { method: "refused" } & Refused);

/** What the page draws of one recording. */
export interface Charts {
  /** What to do, the most important first. */
  advice: Advice[];
  /** The services, CPU by CPU. */
  by_cpu: ServiceRow[];
  /** Their counts of latencies. */
  by_cpu_histograms: HistogramView[];
  /** Who made activations late, where the recording has episodes. */
  causes: CausesView | null;
  /** Latency over time, by service. */
  courses: CourseView[];
}

/** A class of causes. */
export interface ClassView {
  /** Which. */
  class: CauseClass;
  /** Its time in all episodes. */
  total_ns: Nanos;
  /** In plain words. */
  words: string;
}

/** The kernel's clock source. */
export interface Clocksource {
  /** All that could be used. */
  available: string[];
  /** The one in use. */
  current: string;
}

/** The latency that the pieces of late activations could make together (after ECRTS 2020, de Oliveira et al.). */
export interface Composed {
  /** What is above the service, the longest first. */
  above: Above[];
  /** The largest part of that. */
  blocked_by: string | null;
  /** Most time in one activation for which nothing could be preempted. */
  blocking_ns: Nanos;
  /** From so many late activations. */
  episodes: number;
  /** All together, ns; absent: what is above the service leaves it no time. */
  latency_ns: number | null;
  /** The activation's own interrupt, wakeup, switch and return. */
  own_ns: Nanos;
  /** Most time in one activation that nothing explains; left out. */
  unexplained_ns: Nanos;
}

/** Latency over time of one service. */
export interface CourseView {
  /** The length of an interval. */
  interval_ns: Nanos;
  /** What was ordinary. */
  intervals: IntervalColumns;
  /** Whether the recording kept every sample. */
  is_whole: boolean;
  /** Every sample above this is among `points`, if `is_whole`. */
  limit_ns: Nanos;
  /** The service and its route, in one name. */
  name: string;
  /** What was late. */
  points: PointColumns;
  /** An activation as late as the median. */
  typical: ExampleView | null;
  /** The served activation that was latest. */
  worst: ExampleView | null;
}

/** One logical CPU, by the kernel's number. */
export type Cpu = number;

/** Frequency scaling of one group of CPUs. */
export interface CpuFreq {
  /** Which CPUs. */
  cpus: CpuList;
  /** The driver. */
  driver: string | null;
  /** The governor, such as `performance` or `powersave`. */
  governor: string;
}

/** CPUs in ascending order, each once, written as the kernel does: `0-3,6`. */
export type CpuList = Cpu[];

/** Who took the time. Threads are told by name, because the same program has another number each time it runs. */
export interface Culprit {
  /** The interrupt or softirq. */
  activity: Activity | null;
  /** Why nobody can be named, or what more there is to say: a doubt, a lock. */
  because: string | null;
  /** The innermost kernel address of the sample that shows it. */
  frame: Address | null;
  /** The timer's or work item's function within it. */
  function: Activity | null;
  /** Whether the thread is one of the laggard that recorded. */
  is_ours?: boolean;
  /** The thread that ran. */
  thread: string | null;
}

/** One episode and its largest causes. */
export interface EpisodeRow {
  /** The programmed time, since the recording's start. */
  after_start_ns: Nanos;
  /** Its parts: they add up to the latency. */
  causes: Cause[];
  /** How late. */
  latency_ns: Nanos;
  /** Its line. */
  line: Line;
  /** The largest of them in words. */
  main: string;
  /** Its number. */
  number: number;
  /** Stages after the expiry. */
  stages_ns: Record<string, Nanos>;
}

/** An episode's timeline. */
export interface EpisodeView {
  /** The programmed time, since the recording began. */
  at_ns: Nanos;
  /** The class that took most of it. */
  class: CauseClass | null;
  /** Where. */
  cpu: Cpu;
  /** How late. */
  latency_ns: Nanos;
  /** The cause that took most of it, in words. */
  main: string;
  /** Its service and route, in one name. */
  name: string;
  /** Its number. */
  number: number;
  /** Call chains seen meanwhile. */
  samples: SampleView[];
  /** How many more there are. */
  samples_left_out: number;
  /** What went on, from the expiry to the service, without a gap. */
  slices: SliceView[];
  /** Stages after the expiry. */
  stages_ns: Record<string, Nanos>;
}

/** One activation, part by part. */
export interface ExampleView {
  /** The programmed time, since the recording began. */
  at_ns: Nanos;
  /** Where it ran. */
  cpu: Cpu;
  /** The sum of its parts. */
  latency_ns: Nanos;
  /** The parts, in order. */
  parts: PartView[];
}

/** The figures of a distribution of times. */
export interface Figures {
  /** Standard deviation of the sample; absent where some were still waiting. */
  deviation_ns: number | null;
  /** When the largest was due, since the recording began. */
  largest_at_ns: Nanos | null;
  /** Whether the true largest is at least that: one was still waiting when measuring ended. */
  largest_is_at_least: boolean;
  /** The largest seen: a measurement, not a bound. */
  largest_ns: Nanos | null;
  /** Whether the true mean is at least that: some were still waiting when measuring ended, and count with how long they had waited. */
  mean_is_at_least: boolean;
  /** Arithmetic mean. */
  mean_ns: number | null;
  /** The smallest; of latencies, of those that were served. */
  min_ns: Nanos | null;
  /** Quantiles; each is its bucket's upper edge, at most 1.09 % high. */
  quantiles: Share[];
  /** How many times there are. */
  samples: number;
}

/** Time of episodes, and of what it consists. */
export interface FlameNode {
  /** The class, the culprit, or a function. */
  name: string;
  /** Time within it. */
  ns: Nanos;
  /** What is called within it, most time first. What their sum lacks is its own time, or has no call chain. */
  within?: FlameNode[];
}

/** What `laggard forecast` says. */
export interface ForecastReport {
  /** One entry per load. */
  loads: LoadForecast[];
  /** The version of this layout. */
  schema: number;
}

/** How often each latency was seen. */
export interface HistogramView {
  /** Bucket number and count; bucket i ends at 2^(i/64) ns. */
  buckets: [number, number][];
  /** Where, if CPUs are kept apart. */
  cpu?: Cpu;
  /** In which minute from 0, if minutes are kept apart. */
  minute?: number;
  /** How it was reached. */
  route: Route;
  /** What ran. */
  service: Service;
}

/** How far a forecast looks. */
export type Horizon = "hour" | "day" | "week";

/** The identity of the machine that was measured, as far as it bears on latency. What the kernel does not tell is `None` or empty. */
export interface Host {
  /** Machine architecture. */
  architecture: string;
  /** Kernel build, such as `#1 SMP PREEMPT_DYNAMIC ...`. */
  build: string;
  /** The clock source. */
  clocksource: Clocksource;
  /** The kernel's command line. */
  command_line: string;
  /** Kernel options that bear on latency, as `CONFIG_X=y`. */
  config: string[];
  /** The distribution, from `os-release`. */
  distribution: string | null;
  /** Frequency scaling; empty where there is none. */
  frequency: CpuFreq[];
  /** Transparent huge pages: `always`, `madvise` or `never`. */
  huge_pages: string | null;
  /** The hypervisor, where the machine is virtual. */
  hypervisor: string | null;
  /** Timer ticks per second, from the kernel's configuration. */
  hz: number | null;
  /** Idle states of the first CPU; empty where there are none. */
  idle: Idle[];
  /** The idle driver and governor, such as `haltpoll`. */
  idle_driver: string | null;
  /** CPUs set apart. */
  isolation: Isolation;
  /** Kernel release, such as `6.12.9-rt`. */
  kernel: string;
  /** Lockdown level: `none`, `integrity` or `confidentiality`; `at least integrity` where only the level at boot can be read. */
  lockdown: string | null;
  /** Memory in bytes. */
  memory_bytes: number;
  /** Processor vulnerabilities and what the kernel does about each. */
  mitigations: string[];
  /** The machine's name. */
  node: string;
  /** The preemption model that is in force, such as `none` or `rt`. */
  preemption: string | null;
  /** The processor. */
  processor: Processor;
  /** Kernel features and background work. */
  settings: Settings;
  /** Real-time throttling. */
  throttling: Throttling | null;
  /** Whether turbo frequencies are allowed. */
  turbo: boolean | null;
}

/** One idle state that the kernel may enter. */
export interface Idle {
  /** Whether it is disabled on every CPU. */
  disabled: boolean;
  /** How long it takes to leave, by the driver's word. */
  exit_ns: Nanos;
  /** Its name, such as `C6`. */
  name: string;
}

/** Intervals in which something was seen. */
export interface IntervalColumns {
  /** The largest. */
  largest_ns: Nanos[];
  /** The median, at most 4.4 % high; absent where only the largest is known. */
  median_ns: (Nanos | null)[];
  /** The interval begins at this many times its length. */
  number: number[];
}

/** CPUs set apart from the rest of the system. */
export interface Isolation {
  /** `isolcpus=`. */
  isolated: CpuList;
  /** `nohz_full=`. */
  nohz_full: CpuList;
  /** Offline CPUs. */
  offline: CpuList;
}

/** Which samples are kept. */
export type Keep = "all" | "tail";

/** The latency that is exceeded once per horizon on average. */
export interface Level {
  /** What speaks against steady, independent peaks. */
  doubts: string[];
  /** The upper end, ns. */
  high_ns: number;
  /** The level, ns. */
  level_ns: number;
  /** The lower end of its 95 % interval, ns. */
  low_ns: number;
}

/** One stream of activations: a service on a CPU, reached by a route. */
export interface Line {
  /** Where the service runs; lines never leave their CPU. */
  cpu: Cpu;
  /** How it is reached. */
  route: Route;
  /** What runs. */
  service: Service;
}

/** From which latency on a line was late. */
export interface LineThreshold {
  /** How long after the start it was decided; until then only each new largest was kept, and what is beyond 10 ms. Absent: before the start, never, or not known (a recording of an earlier version). */
  decided_after_ns?: Nanos;
  /** Those that were not kept because the threshold was not decided yet. */
  early?: number;
  /** The largest of these. */
  early_largest_ns?: Nanos;
  /** The line. */
  line: Line;
  /** Late activations that were not kept, because there were too many. */
  surplus?: number;
  /** `None`: it was not decided before the recording ended. */
  threshold_ns: Nanos | null;
}

/** What was seen under one load. */
export interface LoadBuffers {
  /** The load, or `no load`. */
  load: string;
  /** What is missing from the recordings, or spoils the answer. */
  notes: string[];
  /** Its recordings. */
  recordings: string[];
  /** One entry per service, the most direct first. */
  services: ServiceBuffers[];
}

/** The forecasts under one load. */
export interface LoadForecast {
  /** The load, or `no load`. */
  load: string;
  /** What is missing from the recordings, or spoils the answer. */
  notes: string[];
  /** How long they are together, ns. */
  observed_ns: number;
  /** The recordings that were read for it. */
  recordings: string[];
  /** One entry per service, the most direct first. */
  services: ServiceForecast[];
  /** Who uses the machine how: an assumption, not a measurement. */
  usage: UsagePattern;
  /** Where that comes from. */
  usage_from: string;
}

/** What else the machine did meanwhile. */
export interface LoadRun {
  /** When it was told to begin to work, `CLOCK_MONOTONIC`: launched and set up before measuring began, and begun after, as OSDI'99 2.2 does. Absent: it worked already when measuring began. */
  begun_ns?: Nanos;
  /** The whole command, where one was given. */
  command: string[];
  /** How it ended, where it ended before the recording. */
  ended: string | null;
  /** A built-in load's name, or the command's first word. */
  name: string;
  /** How much work it did, where it counted that. */
  throughput: Throughput | null;
  /** Who uses it how, where known. */
  usage: UsagePattern | null;
}

/** Counts of everything that the tool failed to record. */
export interface Losses {
  /** See [`LossReason::ArmedLate`]. */
  armed_late: number;
  /** See [`LossReason::ClockBack`]. */
  clock_back: number;
  /** See [`LossReason::ExpireUnseen`]. */
  expire_unseen: number;
  /** See [`LossReason::Foreign`]. */
  foreign: number;
  /** See [`LossReason::IrqShared`]. */
  irq_shared: number;
  /** See [`LossReason::NotRaised`]. */
  not_raised: number;
  /** See [`LossReason::NotWritten`]. */
  not_written: number;
  /** See [`LossReason::OutOfOrder`]. */
  out_of_order: number;
  /** See [`LossReason::Recursion`]. */
  recursion: number;
  /** See [`LossReason::RingFull`]. */
  ring_full: number;
  /** See [`LossReason::SignalFailed`]. */
  signal_failed: number;
  /** See [`LossReason::Stopped`]. */
  stopped: number;
  /** See [`LossReason::Unserved`]. */
  unserved: number;
  /** See [`LossReason::WakingUnseen`]. */
  waking_unseen: number;
}

/** A length of time in whole nanoseconds, never negative. */
export type Nanos = number;

/** A return level, or why there is none. */
export type Outcome = { method: "order_statistics" } & Level | { method: "peaks_over_threshold" } & Level | { method: "by_cause" } & CauseLevel | { method: "refused" } & Refused;

/** The tool's own cost in one recording. */
export interface OwnCost {
  /** CPU time of the measuring threads. */
  measuring_cpu_ns: Nanos;
  /** Page faults of measuring threads after their start. */
  measuring_faults: number;
  /** CPU time of all other threads of the program (collecting, writing). */
  other_cpu_ns: Nanos;
  /** BPF programs, one by one; empty without BPF. */
  programs: ProgramCost[];
  /** Largest resident size while measuring; names are looked up later. */
  resident_bytes: number;
  /** How long was recorded. */
  wall_ns: Nanos;
  /** Bytes written to the recording, the journal included. */
  written_bytes: number;
}

/** The time from one stage to the next. */
export interface PartView {
  /** Its name in the field. */
  name: string;
  /** How long it took. */
  ns: Nanos;
  /** The stage at its end. */
  stage: Stage;
}

/** A source of latency with a period. */
export interface Periodic {
  /** How often it was seen. */
  hits: number;
  /** How likely chance alone gives one as good. */
  p: number;
  /** Its period, ns of wall-clock time. */
  period_ns: number;
}

/** What was asked of the probe. */
export interface Plan {
  /** Whether expiries are spread so that no hidden tick can hide. */
  dither: boolean;
  /** How long was asked for; `None`: until stopped. */
  duration_ns: Nanos | null;
  /** Whether CPUs were kept from idle states while measuring. */
  held_awake: boolean;
  /** Which samples are kept. */
  keep: Keep;
  /** The mean time between a line's expiries. */
  period_ns: Nanos;
  /** The seed of that spread; the same seed gives the same timelines. */
  seed: number;
  /** Which stages on the way were to be stamped; absent: all that can be. */
  stages?: Stage[];
  /** Activations later than this are exceedances. */
  threshold_ns: Nanos;
}

/** Late activations, in the order of time. */
export interface PointColumns {
  /** The programmed time, since the one before (the first: since the recording began). */
  after_ns: Nanos[];
  /** Which of them are episodes, by the class that took most of each. */
  by_cause: Record<string, number[]>;
  /** Where it ran. */
  cpu: Cpu[];
  /** Its latency. */
  latency_ns: Nanos[];
  /** Which of them (by index) were missed. */
  missed: number[];
  /** Which of the missed were still waiting when measuring ended: they were at least that late. */
  still_waiting: number[];
}

/** The processor and how its logical CPUs are laid out. */
export interface Processor {
  /** Number of cores in all. */
  cores: number;
  /** Microcode revision, where the kernel tells it. */
  microcode: string | null;
  /** The name that it gives itself. */
  model: string;
  /** Groups of logical CPUs that share a core, where a core has several. */
  siblings: CpuList[];
  /** Number of sockets. */
  sockets: number;
  /** Number of logical CPUs online. */
  threads: number;
}

/** What one BPF program cost while recording. */
export interface ProgramCost {
  /** The program's name, `on_<tracepoint>`. */
  name: string;
  /** The time it ran for, all runs together. */
  run_ns: Nanos;
  /** How often it ran, on all CPUs. */
  runs: number;
}

/** OSDI'99 5.2: a rare latency amortised over the buffers. */
export interface Pseudo {
  /** Whether the task passes with it added to its work. */
  amortised_passes: boolean;
  /** Whether it passes when one job pays all of it. */
  exact_passes: boolean;
  /** The ordinary latency: p99, ns. */
  ordinary_ns: number;
  /** The rare one amortised over n - 1 cycles, ns. */
  pseudo_worst_case_ns: number;
  /** Where it comes from. */
  rare_from: string;
  /** The rare latency, ns. */
  rare_ns: number;
}

/** What one recording says. */
export interface RecordingReport {
  /** What gave the stages. */
  backend: Backend;
  /** Reasons to doubt. */
  caveats: Caveat[];
  /** What measuring cost. */
  cost: OwnCost;
  /** How long was measured. */
  duration_ns: Nanos;
  /** Counts of latencies, for every row of `services`. */
  histograms: HistogramView[];
  /** The machine. */
  host: Host;
  /** What else the machine did. */
  load: LoadRun | null;
  /** What was lost, by reason, zero included. */
  losses: Losses;
  /** The recording's folder, as given. */
  path: string;
  /** What was asked of the probe. */
  plan: Plan;
  /** The result in plain words. */
  sentences: string[];
  /** Services x figures, the most direct first. */
  services: ServiceRow[];
  /** What is missing from the recording or damaged, with advice. */
  shortfalls: Caveat[];
  /** Stages of each service and route. */
  stages: StageRow[];
  /** When it began, RFC 3339. */
  started: string;
  /** How it ended. */
  state: State;
  /** Whether the figures can be trusted. */
  trust: Trust;
  /** Lines that were still waiting when measuring ended, the longest first. */
  waiting: Waiting[];
}

/** Why there is no forecast, and what would help. */
export interface Refused {
  /** An upper limit of the level, where that much is known, ns. */
  at_most_ns: number | null;
  /** Every reason found. */
  reasons: string[];
  /** Recording this long in all may allow a model, ns. */
  record_for_model_ns: number | null;
  /** Recording this long in all takes no model, ns. */
  record_without_model_ns: number;
}

/** What `laggard show` says of one or several recordings. */
export interface Report {
  /** One entry per recording, in the order of the command line. */
  recordings: RecordingReport[];
  /** The version of this layout. */
  schema: number;
  /** The program's version. */
  version: string;
}

/** How a cause comes again and again. */
export interface RhythmRow {
  /** How often it was due, in the time that was looked at. */
  due: number;
  /** How often it came when it was due. */
  hits: number;
  /** How likely chance alone is to give as clear a rhythm to any of the causes that were searched. */
  p: number;
  /** Standard error of that. */
  period_error_ns: Nanos | null;
  /** From one time to the next. */
  period_ns: Nanos;
}

/** How a service was reached from the timer's interrupt. */
export type Route = "direct" | "deferred";

/** A call chain. */
export interface SampleView {
  /** When, after the expiry. */
  after_ns: Nanos;
  /** Its functions, innermost first, as texts' numbers. */
  frames: number[];
}

/** What `laggard sched` says. */
export interface SchedReport {
  /** The load of the recording. */
  load: string;
  /** What is missing from the recording, or spoils the answer. */
  notes: string[];
  /** How long was observed, ns. */
  observed_ns: number;
  /** One failure is permitted per so long. */
  permitted_ns: Nanos;
  /** The version of this layout. */
  schema: number;
  /** What holds of the set as a whole. */
  set: SetVerdict;
  /** The tasks with their verdicts, highest priority first. */
  tasks: TaskVerdict[];
}

/** A level at which an application can get its code run. */
export type Service = string;

/** What would hinder one service. */
export interface ServiceBuffers {
  /** The mean time between two activations on a CPU, ns. */
  apart_ns: number;
  /** The ordinary latency, which every job pays: the median. */
  base_ns: Nanos;
  /** How many activations in each bucket; see the histograms of a recording. */
  buckets: [number, number][];
  /** CPUs whose time is added up. */
  cpus: number;
  /** Latencies up to this were left out of the page; absent where nothing was, beyond what the recordings lack. */
  cut_ns: Nanos | null;
  /** When latencies up to this came, the recordings do not tell. */
  floor_ns: Nanos;
  /** Whether what came before a late activation was not kept. */
  is_tail: boolean;
  /** The largest latency. */
  largest_ns: Nanos;
  /** Both in one name. */
  name: string;
  /** CPUs that measuring kept busy; 0 where that is not known. */
  own_cpus: number;
  /** The longest period of the probe. */
  period_ns: Nanos;
  /** How it is reached. */
  route: Route;
  /** The service. */
  service: Service;
  /** One entry per CPU and recording. */
  streams: StreamView[];
  /** How long it had waited when measuring ended, where it was still waiting then; see [`crate::qos::ServiceOutlook::waited_ns`]. */
  waited_ns: Nanos | null;
}

/** The forecasts of one service: of the worst of all CPUs measured. */
export interface ServiceForecast {
  /** One cell per horizon. */
  cells: Cell[];
  /** What the pieces that were seen could make together: an estimate that no tail enters. Absent where no late activation was kept, and for services that wait for their turn. */
  composed: Composed | null;
  /** Whether the true largest is at least that: the service was still waiting when measuring ended. */
  largest_is_at_least: boolean;
  /** The largest seen: a measurement, neither a forecast nor a bound, ns. */
  largest_ns: number | null;
  /** Independent peaks of latency above `threshold_ns`. */
  peaks: number;
  /** Sources that come by the clock on the wall. */
  periodic: Periodic[];
  /** How it is reached. */
  route: Route;
  /** Activations. */
  samples: number;
  /** The service. */
  service: Service;
  /** The threshold of these peaks. */
  threshold_ns: number;
}

/** The latency of one service reached by one route. */
export interface ServiceRow {
  /** Where, if CPUs are kept apart. */
  cpu?: Cpu;
  /** Expiry to the service's first instruction. */
  latency: Figures;
  /** Activations that were lost; where it is not known which line lost them, as many as it can have been. They are not among the samples. */
  lost: number;
  /** In which minute from 0, if minutes are kept apart. */
  minute?: number;
  /** Activations whose expiry passed while the service was still busy. They are among the samples, with the time until it next ran. */
  missed: number;
  /** How it was reached. */
  route: Route;
  /** What ran. */
  service: Service;
  /** How many of the missed were still waiting when measuring ended. They are among the samples with how long they had waited: the least that they were late. */
  still_waiting: number;
}

/** What holds of the whole set. */
export interface SetVerdict {
  /** Whether all blackouts that were seen were also kept; else `edf` is not known and `breakdown` is at most that. */
  all_kept: boolean;
  /** Whether these bounds apply: deadlines are periods, priorities rate-monotonic, no blocking. */
  bounds_apply: boolean;
  /** The same with the blackouts seen. */
  breakdown: number;
  /** The utilisation at which it breaks down without latency. */
  breakdown_ideal: number;
  /** The same with the longest blackout seen as blocking. */
  edf: boolean | null;
  /** Whether it meets all deadlines by earliest deadline first without latency; absent where that cannot be decided. */
  edf_ideal: boolean | null;
  /** Bini & Buttazzo's product, 2 at most. */
  hyperbolic_product: number;
  /** The share of the processor that the tasks use. */
  utilization: number;
  /** Liu & Layland's bound on it. */
  utilization_bound: number;
}

/** Kernel features and background work that bear on latency. `None`: the kernel does not tell, or does not have it. */
export interface Settings {
  /** Whether each session's normal threads share one scheduling weight. */
  autogroup: boolean | null;
  /** Whether the kernel has type information (BTF) for BPF. */
  btf: boolean;
  /** Whether a daemon moves interrupts between CPUs. */
  irqbalance: boolean;
  /** Whether the watchdog uses non-maskable interrupts. */
  nmi_watchdog: boolean | null;
  /** Whether pages are moved between NUMA nodes. */
  numa_balancing: boolean | null;
  /** Whether there are hardware performance counters. */
  pmu: boolean;
  /** CPU time that the hypervisor took since boot, all CPUs together. */
  stolen_ns: Nanos | null;
  /** Swap space in bytes. */
  swap_bytes: number | null;
  /** Whether timers may move from idle CPUs to busy ones. */
  timer_migration: boolean | null;
  /** Whether lockups are watched for. */
  watchdog: boolean | null;
}

/** How much a caveat bears on a result. */
export type Severity = "spoils" | "matters" | "note";

/** One quantile. */
export interface Share {
  /** Whether the true quantile is at least `ns`: too many were still waiting when measuring ended, or were lost. */
  is_at_least?: boolean;
  /** The lower end, where what was lost or still waiting leaves the quantile between two times; `ns` is the upper one. */
  low_ns?: Nanos;
  /** How many samples would support it; absent where these do. */
  needs_samples?: number;
  /** The time; absent where the sample does not support it, or so many were lost that nothing is known of it. */
  ns?: Nanos;
  /** The share of all times that do not exceed it, 0 to 1. */
  q: number;
}

/** A part of an episode. */
export interface SliceView {
  /** Why it counts; absent for several short parts together. */
  class: CauseClass | null;
  /** The thread and what it was in the midst of, from the outside in, as texts' numbers. */
  layers: number[];
  /** How long. */
  ns: Nanos;
  /** How much of that went to other things, each too short to be seen. */
  others_ns?: Nanos;
  /** Who, as a text's number. */
  who?: number;
}

/** An instant of an activation after its expiry, in the order in which they come. `CLOCK_MONOTONIC`, ns. */
export type Stage = "irq" | "irq_elsewhere" | "irq_thread" | "expire" | "raise" | "softirq" | "signal" | "waking" | "running" | "user" | "worker" | "kthread";

/** One part of the way to a service. */
export interface StageRow {
  /** The part's name in the field. */
  name: string;
  /** The way. */
  route: Route;
  /** The service at the end of the way. */
  service: Service;
  /** The stage at which the part ends; it begins at the stage before. */
  stage: Stage;
  /** Its time. */
  time: Figures;
}

/** How a recording ended. */
export type State = { state: "running" } | { state: "complete" } | { state: "interrupted" } | { error: string; state: "failed" };

/** The late activations of one service on one CPU, by expiry. */
export interface StreamView {
  /** The programmed time (of an interrupt no earlier than the CPU served another), since the one before (the first: since the recording began). */
  after_ns: Nanos[];
  /** How long was recorded. */
  duration_ns: Nanos;
  /** From when the service last ran to the programmed time. */
  free_ns: Nanos[];
  /** The latency since then. */
  latency_ns: Nanos[];
  /** Which of the recordings this is of. */
  recording: number;
}

/** What is found of one task. Times in ns; an absent response has no bound. */
export interface TaskVerdict {
  /** How long lower priorities can hold it up. */
  blocking_ns: Nanos;
  /** Buffers, where it has them. */
  buffers: number | null;
  /** The work of one job. */
  compute_ns: Nanos;
  /** Where a rehearsal runs it, if that was said. */
  cpu?: Cpu;
  /** Deadline after the arrival: as given, or the period, or n - 1 periods with n buffers. */
  deadline_ns: Nanos;
  /** Why the recording does not tell, and what would; for `unclear`. */
  doubts: string[];
  /** Worst response on a system without latency. */
  ideal_ns: number | null;
  /** Worst response with the largest interrupt latency seen as release jitter and the largest of each later stage as blocking. */
  jitter_ns: number | null;
  /** Worst response with the blackouts seen, never too long. */
  least_ns: number | null;
  /** What takes most of its response. */
  limit: string;
  /** Worst response with the blackouts seen, never too short, and one that fits unseen between two activations. Absent also where the recording did not keep what decides. */
  most_ns: number | null;
  /** Its name. */
  name: string;
  /** Time between two jobs. */
  period_ns: Nanos;
  /** The test with the pseudo worst case, for tasks with buffers. */
  pseudo: Pseudo | null;
  /** For this share of the windows, 0 to 1, the recording is too short to tell that, and the largest seen stands in. */
  rated_as_seen: number;
  /** Worst response with the blackouts that are exceeded once per permitted time between failures, at the upper limit of that. */
  rated_ns: number | null;
  /** The measured service that runs it. */
  service: Service;
  /** Deadline less the worst response; negative when missed. */
  slack_ns: number | null;
  /** By the blackouts. */
  verdict: Verdict;
  /** How long the service had waited when measuring ended, where it was still waiting then: that stall is at least so long, and no response has a bound. */
  waited_ns: Nanos | null;
}

/** How much of a period real-time threads may use. */
export interface Throttling {
  /** `sched_rt_period_us`. */
  period_ns: Nanos;
  /** `sched_rt_runtime_us`; `None`: no limit. */
  runtime_ns: Nanos | null;
}

/** How much work a load did, and in what time. */
export interface Throughput {
  /** How many of them. */
  count: number;
  /** How long it took. */
  elapsed_ns: Nanos;
  /** What was counted, in the plural: `frames`, `bytes`. */
  unit: string;
}

/** Whether the figures can be trusted. */
export type Trust = { verdict: "good" } | { verdict: "none"; why: string[] };

/** How a person uses a load, and how much faster the load drives the machine (OSDI'99 3.1, 4.3). */
export interface UsagePattern {
  /** How many hours of a person's use one measured hour stands for. An assumption, not a measurement. */
  compression: number;
  /** Days of use in a week, 0 to 7. */
  days_per_week: number;
  /** Hours of use in a day, 0 to 24. */
  hours_per_day: number;
}

/** Interrupts of the CPU itself, which have no number. */
export type Vector = "local_timer" | "reschedule" | "call_function" | "call_function_single" | "irq_work" | "thermal";

/** Whether a deadline is met. */
export type Verdict = "meets" | "misses" | "unclear";

/** A service on a CPU that was still waiting when measuring ended. */
export interface Waiting {
  /** How long the first of them had waited: it is at least so late. */
  at_least_ns: Nanos;
  /** Where. */
  cpu: Cpu;
  /** How it is reached. */
  route: Route;
  /** How many of its activations were served: none, of a line that starved throughout. */
  served: number;
  /** What should have run. */
  service: Service;
  /** How many were still waiting. */
  still_waiting: number;
}

/** Who made activations late: the value that all views of `why` show. */
export interface WhyReport {
  /** Causes, those with most time first. */
  causes: CauseRow[];
  /** How long was recorded. */
  duration_ns: Nanos;
  /** How many episodes are explained here. */
  episodes: number;
  /** The largest episodes. */
  largest: EpisodeRow[];
  /** The largest of them. */
  largest_ns: Nanos;
  /** Causes that are not listed. */
  more_causes: number;
  /** Episodes whose evidence had been overwritten, of all services. */
  overwritten: number;
  /** The recording. */
  path: string;
  /** The version of this layout. */
  schema: number;
  /** The result in plain words. */
  sentences: string[];
  /** Only this service's episodes. */
  service: Service | null;
  /** What is missing. */
  shortfalls: Caveat[];
  /** Late activations that were not kept, of all services. */
  surplus: number;
  /** From which latency on each line was late. */
  thresholds: LineThreshold[];
  /** The latencies of these episodes together. */
  total_ns: Nanos;
}

/** The return level of a service with a cause, and had it taken no time. */
export interface Worth {
  /** How far. */
  horizon: Horizon;
  /** How it is reached. */
  route: Route;
  /** The service that the cause took most time from. */
  service: Service;
  /** As it is. */
  with: Outcome;
  /** Had the cause taken no time. */
  without: Outcome;
}
