// The types of the page's data, generated from those in Rust by the test
// `page_types`: do not edit. Times are nanoseconds; what each is, Rust says.

export interface PageData {
  charts: Charts[];
  forecast: ForecastPage | null;
  qos: QosPage[];
  report: Report;
  sched: SchedPage[];
}

export interface Above {
  because?: Because;
  class: CauseClass;
  time_ns: number;
  who: string | null;
}

export interface Advice {
  severity: Severity;
  what: string;
  why: string;
}

export interface Ahead {
  horizon_ns: number;
  is_at_least: boolean;
  is_at_most: boolean;
  new_largest: number;
  stays_below: StaysBelow[];
}

export interface Apart {
  cpus: CpuList;
  elsewhere: MissFigures;
  on: MissFigures;
  others: number;
}

export interface Application {
  buffer_ns: Nanos;
  buffers: number;
  compute_ns: Nanos;
  name: string;
  policy?: MissPolicy;
  service?: Service;
  slack_ns: Nanos;
  source: string;
  tolerance_ns: Nanos;
}

export type Backend = "bpf" | "etw" | "perf" | "user" | "tracer" | "driver" | "fake" | "imported";

export type Because = { count: number; kind: "system_management" } | { kind: "no_sample" } | { kind: "elsewhere" } | { kind: "boosted" } | { kind: "less_weight" } | { kind: "more_weight" } | { kind: "nice_in_group" } | { kind: "nothing_recorded" } | { kind: "nothing_in_user_code" } | { kind: "no_switch" } | { kind: "or_outside" } | { kind: "unseen_switch" } | { kind: "idled" } | { kind: "before_record" } | { kind: "nothing_known" } | { kind: "wake_unseen" } | { kind: "late_interrupt" } | { kind: "lost" } | { kind: "overwritten" } | { kind: "slack" };

export type Block = { content: string; kind: "heading" } | { content: Verdict[]; kind: "verdicts" } | { content: string; kind: "paragraph" } | { content: string; kind: "detail" } | { content: string[]; kind: "lines" } | { content: string[]; kind: "list" } | { content: string[]; kind: "preformatted" } | { content: Table; kind: "table" } | { content: Notes; kind: "notes" } | { content: Figure; kind: "figure" };

export interface Blocks {
  is_dependent: boolean;
  least_ns: number;
}

export interface BumpRow {
  at_once: number;
  beyond: number;
  error_ns: number;
  every_ns: number;
  first_ns: number;
  positions: number[];
}

export type CauseClass = "idle_exit" | "stolen" | "stall" | "interrupts_off" | "interrupt" | "softirq" | "dpc" | "preemption_off" | "higher_priority" | "equal" | "group_weight" | "throttled" | "rt_throttled" | "fair_server" | "deadline_throttled" | "migration" | "context_switch" | "return_to_user" | "own_work" | "overrun" | "system_call" | "page_fault" | "reclaim" | "lock" | "kernel_lock" | "blocked" | "wait" | "frozen" | "stopped" | "own_path" | "unexplained";

export interface CauseLevel {
  causes: CauseSet[];
  doubts: Objection[];
  high_ns: number;
  level_ns: number;
  low_ns: number;
  periodic: number;
}

export type CauseSet = { set: "cause" } & NamedCause | { class: CauseClass; set: "class" } | { set: "others" };

export interface CauseShare {
  because?: Because;
  class: CauseClass;
  contenders?: string[];
  cpus: Cpu[];
  episodes: number;
  first_in: number;
  fix: Fix | null;
  gains?: Gain[];
  is_at_least?: boolean;
  is_ours?: boolean;
  largest_episode: number;
  largest_ns: Nanos;
  largest_without_is_at_least?: boolean;
  largest_without_ns: Nanos;
  per_hour: number;
  quota?: GroupQuota;
  rhythm: RhythmRow | null;
  share: number;
  time_ns: Nanos;
  wakeups: number;
  who: string | null;
}

export interface CausesView {
  classes: ClassView[];
  episodes: EpisodeView[];
  flame: FlameNode;
  gaps: string[];
  left_out: number;
  series: Document[];
  texts: string[];
}

export interface Caveat {
  advice: string;
  kind: CaveatKind;
  what: string;
}

export type CaveatKind = "not_root" | "no_btf" | "lockdown" | "no_bpf" | "ability_absent" | "service_absent" | "priority" | "rt_group" | "rt_throttling" | "idle_states" | "governor" | "turbo" | "preemption" | "debug_kernel" | "tick_rate" | "tickless" | "mitigations" | "siblings" | "swap" | "huge_pages" | "numa_balancing" | "watchdog" | "irq_balance" | "timer_migration" | "timer_elsewhere" | "autogroup" | "virtual_machine" | "stolen" | "no_pmu" | "cpu_offline" | "cpu_isolated" | "memory_lock" | "clocksource" | "load_ended" | "losses" | "own_cost" | "stage_unseen" | "stopped" | "moved" | "rescheduled" | "page_faults" | "external_source" | "softirq_thread" | "tracer" | "unfinished" | "inherited" | "cpuset" | "cpu_quota" | "other_tracers" | "overload" | "imported" | "trace_incomplete" | "wine";

export interface Cell {
  reason?: Reason;
  text: string;
  tone: Tone;
  value?: number;
}

export type Cell2 = { ahead: Ahead; horizon: Horizon; measured_ns: number } & ({ method: "order_statistics" } & Level | { method: "peaks_over_threshold" } & Level | { method: "by_cause" } & CauseLevel | { method: "refused" } & Refused);

export interface Charts {
  advice: Advice[];
  beginning: string;
  by_cpu: ServiceRow[];
  by_cpu_histograms: HistogramView[];
  causes: CausesView | null;
  contexts: string[];
  courses: CourseView[];
  doubts: string[];
  ending: string;
  foremost: string | null;
  handlers: Document | null;
  leading: string[];
  lines: LineView[];
  losses: LossView[];
  lost: number;
  measured_with: string;
  missing: string[];
  summary: Document;
}

export interface ClassView {
  class: CauseClass;
  total_ns: Nanos;
  words: string;
}

export interface Clocksource {
  available: string[];
  current: string;
}

export interface Column {
  kind: ColumnKind;
  name: string;
  starts_part: boolean;
}

export type ColumnKind = "name" | "number" | "sentence";

export type Competitors = number;

export interface Composed {
  above: Above[];
  blocked_by: NamedCause | null;
  blocking_ns: Nanos;
  episodes: number;
  latency_ns: number | null;
  own_ns: Nanos;
  unexplained_ns: Nanos;
}

export interface Conditions {
  backend: Backend;
  cpus: number;
  duration_ns: Nanos;
  hypervisor: string | null;
  kernel: string;
  load: string;
  period_ns: Nanos;
  preemption: string | null;
  processor: string;
  started: string;
  state: State;
}

export type Context = "any" | "worker" | "boosted" | "lent" | "niced" | "sliced" | "woken" | "plain";

export interface ContextRow {
  bumps: BumpRow | null;
  context: Context;
  is_at_least: boolean;
  largest_ns: Nanos | null;
  mean_error_ns: number | null;
  mean_ns: number | null;
  median_ns: Nanos | null;
  p99_ns: Nanos | null;
  route: Route;
  samples: number;
  service: Service;
}

export interface Contexts {
  busy: Competitors;
  cpu: Cpu;
  turn_ns?: Turns;
}

export interface ContextsReport {
  beside: Contexts;
  has_autogroups: boolean;
  period_ns: Nanos;
  rows: ContextRow[];
  turn: TurnEnd;
}

export interface CourseView {
  interval_ns: Nanos;
  intervals: IntervalColumns;
  is_whole: boolean;
  limit_ns: Nanos;
  name: string;
  points: PointColumns;
  typical: ExampleView | null;
  worst: ExampleView | null;
}

export type Cpu = number;

export interface CpuCost {
  busy: number;
  cpus: number;
}

export interface CpuFreq {
  cpus: CpuList;
  driver: string | null;
  governor: string;
}

export type CpuList = Cpu[];

export interface CurvePoint {
  apart?: Apart;
  buffering_ns: Nanos;
  buffers: number;
  figures: MissFigures;
  total_ns: Nanos;
}

export type Distrust = { kind: "empty" } | { kind: "too_few"; samples: number } | { kind: "lost"; lost: number; of: number; remedy: MeasuringRemedy } | { kind: "lossy_lines"; lines: LinePart[]; remedy: MeasuringRemedy } | { kind: "sparse_lines"; lines: LinePart[] } | { kind: "clock_back"; times: number } | { kind: "stage_unseen" } & UnseenStage | { kind: "rescheduled"; warning: Caveat } | { kind: "trace_incomplete"; warning: Caveat } | { cost: CpuCost; kind: "own_cost"; remedy: MeasuringRemedy };

export interface Document {
  blocks: Block[];
  title: string;
}

export type Doubt = { detail: Distrust[]; kind: "untrustworthy" } | { kind: "scripted" } | { detail: number; kind: "lost" } | { detail: Shortfall; kind: "missing" } | { detail: Distrust; kind: "measuring" } | { detail: Caveat; kind: "caveat" };

export interface Enough {
  buffers: number;
  is_sure: boolean;
}

export interface EpisodeView {
  at_ns: Nanos;
  class: CauseClass | null;
  cpu: Cpu;
  latency_ns: Nanos;
  main: string;
  name: string;
  number: number;
  samples: SampleView[];
  samples_left_out: number;
  slices: SliceView[];
  stages_ns: Record<string, Nanos>;
}

export type Every = Record<string, number>;

export interface ExampleView {
  at_ns: Nanos;
  cpu: Cpu;
  latency_ns: Nanos;
  parts: PartView[];
}

export interface FairServer {
  period_ns: Nanos;
  runtime_ns: Nanos;
}

export interface Figure {
  caption: string;
  id: string;
}

export interface Figures {
  deviation_ns: number | null;
  largest_at_ns: Nanos | null;
  largest_is_at_least: boolean;
  largest_ns: Nanos | null;
  mean_is_at_least: boolean;
  mean_ns: number | null;
  min_ns: Nanos | null;
  quantiles: Share[];
  samples: number;
}

export interface FinerPeriod {
  period_ns: Nanos;
  recorded_cpus: number;
  recorded_period_ns: Nanos;
}

export interface First {
  cause: CauseShare;
  fix: Fix;
  max_ns: Nanos;
  max_without_is_at_least: boolean;
  max_without_ns: Nanos;
  stalls?: StallsAboveSlack;
}

export interface Fit {
  apart?: Apart;
  application: Application;
  decided_by_ns: number | null;
  enough: Enough | null;
  figures: MissFigures;
  narrowed_by_ns: number | null;
  resolution: Resolution;
  route: Route;
  service: Service;
  unfailing: Unfailing | null;
  verdict: Fitness;
  waited_ns: Nanos | null;
}

export type Fitness = "fit" | "not_fit" | "unknown";

export type Fix = { kind: "measure_less" } | { kind: "hold_awake" } | { kind: "poll_idle" } | { kind: "halt_poll" } | { kind: "dedicated_cpus" } | { kind: "check_overcommit" } | { kind: "firmware" } | { kind: "move_caller" } | { irq: number; kind: "move_irq" } | { kind: "isolate_cpu" } | { kind: "above_softirqs" } | { kind: "move_softirqs" } | { kind: "move_thread" } | { kind: "preempt_rt" } | { kind: "preempt_full" } | { kind: "lower_priority" } | { kind: "raise_priority" } | { kind: "raise_quota"; quota: GroupQuota | null } | { kind: "raise_weight" } | { kind: "disable_autogroup" } | { kind: "rt_runtime" } | { kind: "fair_server" } | { kind: "deadline_budget" } | { kind: "pin" } | { kind: "lock_memory" } | { kind: "raise_memory_limit" } | { kind: "shorten_lock" } | { kind: "map_elsewhere" } | { kind: "move_wait" } | { kind: "shorten_sleep" } | { kind: "reduce_work" } | { kind: "find_stopper" } | { kind: "timer_migration" } | { episode: number; kind: "inspect" } | { kind: "driver" } | { kind: "move_raised" } | { kind: "move_or_raise" } | { kind: "raise_above" } | { kind: "virtual_lock" };

export interface FlameNode {
  name: string;
  ns: Nanos;
  within?: FlameNode[];
}

export type ForecastLimit = { limit: "trust" } | { at_least_ns: number; limit: "waiting" } | { limit: "losses"; lost: number } | { block_ns: number; limit: "changing"; services: number } | { halves: number | null; horizon: Horizon; limit: "length"; more_ns: number };

export interface ForecastPage {
  full: Document;
  report: ForecastReport;
  short: Document;
}

export interface ForecastReport {
  loads: LoadForecast[];
  schema: number;
}

export interface Gain {
  horizon: Horizon;
  with: Outcome;
  without: Outcome;
}

export type Goal = "hour" | "day" | "week";

export interface GoalOutlook {
  goal: XrunGoal;
  odds: VerdictOdds[];
  verdict: Fitness;
}

export interface GroupQuota {
  file: string;
  group: string;
  period_ns?: Nanos;
  quota_ns?: Nanos;
}

export type HandOver = "yield" | "futex" | "pipe" | "eventfd";

export interface Hardware {
  audio: string[];
  board: string | null;
  disks: string[];
  file_system: string | null;
  firmware: string | null;
  graphics: string[];
  network: string[];
}

export interface HistogramView {
  buckets: [number, number][];
  cpu?: Cpu;
  minute?: number;
  route: Route;
  service: Service;
}

export type Horizon = "hour" | "day" | "week";

export interface Host {
  architecture: string;
  build: string;
  clocksource: Clocksource;
  command_line: string;
  config: string[];
  distribution: string | null;
  frequency: CpuFreq[];
  hardware: Hardware;
  huge_pages: string | null;
  hypervisor: string | null;
  hz: number | null;
  idle: Idle[];
  idle_driver: string | null;
  isolation: Isolation;
  kernel: string;
  lockdown: string | null;
  memory_bytes: number;
  mitigations: string[];
  node: string;
  preemption: string | null;
  processor: Processor;
  settings: Settings;
  throttling: Throttling | null;
  turbo: boolean | null;
}

export interface Idle {
  disabled: boolean;
  exit_ns: Nanos;
  name: string;
}

export interface IntervalColumns {
  largest_ns: Nanos[];
  median_ns: (Nanos | null)[];
  number: number[];
}

export interface Isolation {
  isolated: CpuList;
  nohz_full: CpuList;
  offline: CpuList;
}

export type Keep = "all" | "tail";

export interface Late {
  causes: CauseShare[];
  episodes: number;
  is_incomplete?: boolean;
  max_is_at_least: boolean;
  max_ns: Nanos;
  others?: OtherCauses;
  route: Route | null;
  service: Service | null;
  total_ns: Nanos;
  untraced?: UntracedRow;
  wakeups: number;
}

export interface LateService {
  max_is_at_least: boolean;
  max_ns: Nanos | null;
  median: Share;
  p99: Share;
  p999: Share;
  route: Route;
  samples: number;
  service: Service;
}

export interface LatencyChange {
  at_ns: number;
  times: number;
}

export type LatencyCourse = { kind: "steady" } | { kind: "drift"; times: number } | { changes: LatencyChange[]; kind: "changes" };

export interface Level {
  doubts: Objection[];
  high_ns: number;
  level_ns: number;
  low_ns: number;
}

export interface Line {
  cpu: Cpu;
  route: Route;
  service: Service;
}

export interface LinePart {
  count: number;
  line: Line;
  of: number;
}

export interface LineView {
  name: string;
  route: Route;
  service: Service;
}

export interface LoadForecast {
  limits: ForecastLimit[];
  load: string;
  notes: Note[];
  observed_ns: number;
  recordings: string[];
  services: ServiceForecast[];
  usage: UsagePattern;
  usage_from: UsageSource;
}

export interface LoadOutlook {
  goal?: GoalOutlook;
  load: string;
  notes: Note[];
  recordings: string[];
  services: ServiceOutlook[];
}

export interface LoadRun {
  begun_ns?: Nanos;
  command: string[];
  ended: string | null;
  name: string;
  throughput: Throughput | null;
  usage: UsagePattern | null;
}

export interface LossView {
  times: number;
  words: string;
}

export interface Losses {
  armed_late: number;
  clock_back: number;
  expire_unseen: number;
  foreign: number;
  irq_shared: number;
  not_raised: number;
  not_written: number;
  out_of_order: number;
  recursion: number;
  ring_full: number;
  signal_failed: number;
  stopped: number;
  unserved: number;
  waking_unseen: number;
  whole: number;
}

export interface Measurement {
  lost: number;
  overhead: number | null;
  samples: number;
  warnings: number;
}

export type MeasuringRemedy = { kind: "faster_disk" } | { kind: "stay_put" } | { kind: "uninterrupted" } | { kind: "let_run" } | { kind: "raise_less" } | { kind: "in_turn" } | { kind: "no_episodes" } | { kind: "fewer_threads" } | { kind: "less"; several_services: boolean };

export interface MissFigures {
  clusters: number | null;
  dispersion: number | null;
  exposure_ns: number;
  failures: number | null;
  late_per_hour: number;
  mttf_high_ns: number | null;
  mttf_low_ns: number;
  mttf_ns: number | null;
  paper_mttf_ns: number | null;
}

export type MissPolicy = "late" | "drop" | "reset";

export type MissingFits = { kind: "nothing_measured" } | { kind: "no_thread" } | { kind: "watched_threads" } | { applications: string[]; buffer_ns: Nanos; kind: "too_short"; min_ns: Nanos } | { applications: string[]; kind: "out_of_range" };

export type MissingTraces = "watched_threads" | "learned_threshold" | "too_many";

export interface NamedCause {
  because?: Because;
  class: CauseClass;
  who: string | null;
}

export type Nanos = number;

export interface Needed {
  by_estimate: number | null;
  is_coarse: boolean;
  one_miss_per: Goal;
  record_ns: number | null;
  surely: number | null;
}

export interface Note {
  doubt: Doubt;
  recording?: string;
}

export interface Notes {
  notes: string[];
  title: string;
}

export type Objection = { by_cause?: ObjectionScope } & ({ needed: number; peaks: number; reason: "too_few_peaks" } | { at_most: number; reason: "below_threshold" } | { factor: number; most: number; reason: "too_far" } | { reason: "periodic"; share: number } | { reason: "causes_unknown"; share: number } | { reason: "ties"; share: number } | { p: number; reason: "correlated" } | { p: number; reason: "rate_changes" } | { reason: "size_changes"; statistic: number } | { reason: "drifts" } | { reason: "no_fit" } | { reason: "heavy_tail"; shape: number } | { reason: "bounded_tail" } | { at_least: number; reason: "still_waiting" } | { high: number | null; most: number; reason: "uncertain"; value: number } | { reason: "unusable" });

export interface ObjectionScope {
  missing_traces: MissingTraces | null;
  source: CauseSet | null;
}

export interface OtherCauses {
  causes: number;
  max_ns: Nanos;
  share: number;
}

export type Outcome = { method: "order_statistics" } & Level | { method: "peaks_over_threshold" } & Level | { method: "by_cause" } & CauseLevel | { method: "refused" } & Refused;

export interface Overview {
  conditions: Conditions;
  contexts?: ContextsReport;
  first: First | null;
  fits: Fit[];
  is_explained: boolean;
  is_for_application: boolean;
  late: Late | null;
  measurement: Measurement;
  missing_fits?: MissingFits;
  more_services: number;
  path: string;
  schema: number;
  services: LateService[];
  subject: Subject | null;
  threshold_ns?: [Nanos, Nanos];
  trust: Trust;
  waiting: Waiting[];
  warnings: Doubt[];
}

export interface OwnCost {
  measuring_cpu_ns: Nanos;
  measuring_faults: number;
  other_cpu_ns: Nanos;
  outside_cpu_ns?: Nanos;
  programs: ProgramCost[];
  resident_bytes: number;
  wall_ns: Nanos;
  written_bytes: number;
}

export interface PartView {
  name: string;
  ns: Nanos;
  stage: Stage;
  words: string;
}

export interface Periodic {
  hits: number;
  p: number;
  period_ns: number;
}

export interface Plan {
  contexts?: Contexts;
  dither: boolean;
  duration_ns: Nanos | null;
  every?: Every;
  held_awake: boolean;
  keep: Keep;
  period_ns: Nanos;
  rows?: RowsOf;
  seed: number;
  stages?: Stage[];
  threshold_ns: Nanos;
  timer?: TimerApi;
}

export interface PointColumns {
  after_ns: Nanos[];
  by_cause: Record<string, number[]>;
  cpu: Cpu[];
  latency_ns: Nanos[];
  missed: number[];
  still_waiting: number[];
}

export interface Processor {
  cores: number;
  microcode: string | null;
  model: string;
  siblings: CpuList[];
  sockets: number;
  threads: number;
}

export interface ProgramCost {
  name: string;
  run_ns: Nanos;
  runs: number;
}

export interface Pseudo {
  amortised_passes: boolean;
  exact_passes: boolean;
  ordinary_ns: number;
  pseudo_worst_case_ns: number;
  rare_from: RareFrom;
  rare_ns: number;
}

export interface QosPage {
  application: Application;
  document: Document;
  loads: LoadOutlook[];
}

export type RareFrom = { kind: "level"; per_ns: Nanos } | { kind: "largest_seen"; per_ns: Nanos } | { kind: "waiting" } | { kind: "all_zero" };

export type Reason = "not_measured" | "too_few_samples" | "too_coarse" | "too_short" | "still_waiting" | "no_steal_clock" | "not_applicable";

export interface RecordingReport {
  backend: Backend;
  caveats: Caveat[];
  contexts?: ContextsReport;
  cost: OwnCost;
  doubts: Distrust[];
  duration_ns: Nanos;
  histograms: HistogramView[];
  host: Host;
  load: LoadRun | null;
  losses: Losses;
  path: string;
  plan: Plan;
  run_delays?: RunDelayRow[];
  services: ServiceRow[];
  shortfalls: Shortfall[];
  stages: StageRow[];
  started: string;
  state: State;
  trust: Trust;
  waiting: Waiting[];
}

export interface Refused {
  at_most_ns: number | null;
  reasons: Objection[];
  record_for_model_ns: number | null;
  record_without_model_ns: number;
}

export interface Report {
  overviews: Overview[];
  recordings: RecordingReport[];
  schema: number;
  version: string;
}

export type Resolution = { kind: "full" } | { finer: FinerPeriod; kind: "onset_coarse"; sample_interval_ns: number } | { kind: "tail_only"; sample_interval_ns: number } | { finer: FinerPeriod; kind: "too_coarse"; sample_interval_ns: number } | { floor_ns: Nanos; is_tail: boolean; kind: "not_recorded"; matters_above_ns: Nanos };

export type ResponseLimit = { unseen?: UnseenTime } & ({ kind: "overload" } | { kind: "stalls"; longest_ns: number } | { kind: "unfinished_stall"; waited_ns: Nanos } | { kind: "work"; time_ns: number } | { kind: "blocking"; time_ns: number } | { kind: "above"; time_ns: number } | { kind: "latency"; time_ns: number });

export interface RhythmRow {
  due: number;
  hits: number;
  none_after_ns?: Nanos;
  none_before_ns?: Nanos;
  p: number;
  period_error_ns: Nanos | null;
  period_ns: Nanos;
}

export type Route = "direct" | "deferred";

export type RowsOf = { of: "expiries" } | { of: "hand_overs"; threads: number; way: SwitchWay } | { early: number; of: "waits"; timer: TimerApi } | { of: "activations" } | { of: "traced" };

export interface RunDelayRow {
  mean_ns: number;
  route: Route;
  service: Service;
  switch_ins: number;
}

export interface SampleView {
  after_ns: Nanos;
  frames: number[];
}

export interface SchedPage {
  document: Document;
  report: SchedReport;
}

export interface SchedReport {
  load: string;
  notes: Note[];
  observed_ns: number;
  permitted_ns: Nanos;
  remarks: TaskRemark[];
  schema: number;
  set: SetVerdict;
  tasks: TaskVerdict[];
}

export type Service = string;

export interface ServiceForecast {
  blocks: Blocks;
  cells: Cell2[];
  composed: Composed | null;
  course: LatencyCourse;
  largest_is_at_least: boolean;
  largest_ns: number | null;
  lost: number;
  observed_ns: number;
  peaks: number;
  periodic: Periodic[];
  route: Route;
  samples: number;
  service: Service;
  threshold_ns: number;
}

export interface ServiceOutlook {
  apart?: Apart;
  cpus: number;
  curve: CurvePoint[];
  is_own: boolean;
  needed: Needed[];
  outlook: MissFigures;
  resolution: Resolution;
  route: Route;
  samples: number;
  service: Service;
  verdict: Fitness;
  waited_ns: Nanos | null;
}

export interface ServiceRow {
  cpu?: Cpu;
  latency: Figures;
  lost: number;
  minute?: number;
  missed: number;
  route: Route;
  service: Service;
  still_waiting: number;
}

export interface SessionGoal {
  length_ns: Nanos;
  of: number;
  without: number;
}

export interface SetVerdict {
  all_kept: boolean;
  bounds_apply: boolean;
  breakdown: number;
  breakdown_ideal: number;
  edf: boolean | null;
  edf_ideal: boolean | null;
  hyperbolic_product: number;
  utilization: number;
  utilization_bound: number;
}

export interface Settings {
  autogroup: boolean | null;
  btf: boolean;
  irqbalance: boolean;
  nmi_watchdog: boolean | null;
  numa_balancing: boolean | null;
  pmu: boolean;
  stolen_ns: Nanos | null;
  swap_bytes: number | null;
  timer_migration: boolean | null;
  watchdog: boolean | null;
}

export type Severity = "spoils" | "matters" | "note";

export interface Share {
  is_at_least?: boolean;
  low_ns?: Nanos;
  needs_samples?: number;
  ns?: Nanos;
  q: number;
}

export type Shortfall = { kind: "no_end"; written_within_ns?: Nanos } | { bytes: number; file: string; kind: "journal_torn"; offset: number } | { kind: "journal_gone" } | { file: string; kind: "gone"; rows: number } | { kind: "histograms_short"; rows: number } | { kind: "unexplained"; rows: number } | { kept: number; kind: "episodes_short"; missing: number } | { file: string; kind: "damaged"; reason: string } | { kind: "manifest_from_start"; reason: string };

export interface SliceView {
  class: CauseClass | null;
  layers: number[];
  ns: Nanos;
  others_ns?: Nanos;
  who?: number;
}

export type Stage = "irq" | "irq_elsewhere" | "irq_thread" | "expire" | "raise" | "softirq" | "signal" | "waking" | "running" | "user" | "worker" | "kthread" | "done";

export interface StageRow {
  is_span?: boolean;
  route: Route;
  service: Service;
  share?: number;
  since?: Stage;
  stage: Stage;
  time: Figures;
}

export interface StallsAboveSlack {
  count: number;
  slack_ns: Nanos;
  without: number;
}

export type State = { state: "running" } | { state: "complete" } | { state: "interrupted" } | { error: string; state: "failed" };

export interface StaysBelow {
  assumed_ns: number | null;
  assumed_record_ns: number;
  assumed_shape: number;
  bound_ns: number | null;
  carried: number | null;
  is_at_least: boolean;
  is_unresolved: boolean;
  rank: number | null;
  record_ns: number;
  share: number;
}

export interface Subject {
  route: Route;
  service: Service;
}

export type SwitchPolicy = string;

export interface SwitchWay {
  are_processes: boolean;
  is_cross: boolean;
  service: SwitchPolicy;
  via: HandOver;
  working_set_bytes: number;
}

export interface Table {
  caption: string | null;
  columns: Column[];
  keys: number;
  notes: string[];
  rows: Cell[][];
}

export type TaskDoubt = { kind: "waiting"; waited_ns: Nanos } | { kind: "all_zero" } | { floor_ns: Nanos; is_tail: boolean; kind: "not_kept"; late: number } | { kind: "shared"; least_ns: number; most_ns: number | null } | { kind: "several_cpus"; least_ns: number; most_ns: number | null } | { kind: "not_measured"; wanted: Service } | { apart_ns: number; finer: FinerPeriod; kind: "coarse"; least_ns: number; most_ns: number | null } | { kind: "short"; needed_ns: number | null; permitted_ns: Nanos; shown_ns: Nanos | null } | { kind: "rare"; most_ns: number | null; permitted_ns: Nanos };

export type TaskRemark = { key: string; kind: "repeated"; line: number; task: string } | { kind: "shared_timer"; threads: number; timer: string } | { kind: "largest_job"; phase: string | null; task: string } | { group: string; kind: "taskgroup"; task: string } | { kind: "stand_in"; measured: Service; task: string; wanted: Service };

export interface TaskVerdict {
  blocking_ns: Nanos;
  buffers: number | null;
  compute_ns: Nanos;
  cpu?: Cpu;
  deadline_ns: Nanos;
  doubts: TaskDoubt[];
  ideal_ns: number | null;
  jitter_ns: number | null;
  least_ns: number | null;
  limit: ResponseLimit;
  most_ns: number | null;
  name: string;
  period_ns: Nanos;
  pseudo: Pseudo | null;
  rated_as_seen: number;
  rated_ns: number | null;
  service: Service;
  slack_ns: number | null;
  verdict: Verdict2;
  waited_ns: Nanos | null;
}

export interface Throttling {
  fair_server: FairServer | null;
  period_ns: Nanos;
  runtime_ns: Nanos | null;
}

export interface Throughput {
  count: number;
  elapsed_ns: Nanos;
  unit: string;
}

export type TimerApi = "clock_nanosleep-abs" | "nanosleep-realtime" | "nanosleep-boottime" | "nanosleep-tai" | "clock_nanosleep" | "usleep" | "timerfd-abs" | "timerfd" | "timer_create" | "timer_create-thread" | "setitimer" | "setitimer-virtual" | "setitimer-prof" | "poll" | "ppoll" | "select" | "pselect" | "epoll_wait" | "epoll_pwait2" | "futex" | "sem_timedwait" | "cond_timedwait" | "mutex_timedlock" | "sigtimedwait" | "so_rcvtimeo" | "mq_timedreceive" | "semtimedop" | "io_uring" | "io_uring-multishot" | "tick-relative" | "tick-absolute" | "Sleep" | "WaitForSingleObject" | "SleepConditionVariable" | "winsock-select" | "WaitableTimer-abs" | "WaitableTimer" | "WaitableTimer-periodic" | "HighResTimer" | "HighResTimer-periodic" | "timeSetEvent" | "CreateTimerQueueTimer" | "SetThreadpoolTimer";

export type Tone = "plain" | "strong" | "good" | "bad" | "open" | "faint";

export type Trust = { verdict: "good" } | { verdict: "none"; why: Distrust[] };

export interface TurnEnd {
  every_ns: Nanos;
  is_tick: boolean;
}

export type Turns = Nanos;

export interface Unfailing {
  buffers: number;
  record_ns: number;
}

export type UnseenIn = { lines: LinePart[] } | { all: { count: number; of: number } };

export interface UnseenStage {
  places: UnseenIn;
  stage: Stage;
}

export type UnseenTime = { kind: "up_to"; time_ns: number } | { kind: "unbounded" };

export interface UntracedRow {
  share: number;
  total_ns: Nanos;
  wakeups: number;
}

export interface UsagePattern {
  compression: number;
  days_per_week: number;
  hours_per_day: number;
}

export type UsageSource = "given" | "load" | "assumed";

export interface Verdict {
  text: string;
  tone: Tone;
  word: string;
}

export type Verdict2 = "meets" | "misses" | "unknown";

export interface VerdictOdds {
  length_ns: number;
  odds: number;
}

export interface Waiting {
  at_least_ns: Nanos;
  cpu: Cpu;
  route: Route;
  served: number;
  service: Service;
  still_waiting: number;
}

export interface XrunGoal {
  failures: number;
  per_ns: Nanos;
  sessions?: SessionGoal;
}
