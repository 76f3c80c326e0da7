// Latency over time: usual latencies in intervals, late wakeups as points.

import { axisLook, base, legendRoom, timeAxis, type Option } from "../chart";
import { foremostOf, type Course, type PageData } from "../data";
import { section, select, type Table } from "../dom";
import { figure, type View } from "../figure";
import { count, time } from "../format";
import { palette } from "../theme";
import { classesOf, type Class } from "./classes";

interface Late {
  at: number;
  cpu: number;
  latency: number;
  missed: boolean;
  waiting: boolean;
  /** Class with the most time, if it is an episode. */
  cause: Class | null;
}

interface Shown {
  label: string;
  name: string;
  recording: number;
  course: Course;
  late: Late[];
  threshold: number;
  duration: number;
}

export function overTime(data: PageData): HTMLElement | null {
  const { report, charts } = data;
  const classes = classesOf(data);
  const several = report.recordings.length > 1;
  const all = charts.flatMap(({ courses }, recording) =>
    courses
      .filter(({ intervals }) => intervals.number.length > 0)
      .map((course): Shown => {
        const { plan, duration_ns: duration } = report.recordings[recording]!;
        return {
          name: course.name,
          recording,
          label: several ? `${course.name} [${recording + 1}]` : course.name,
          course,
          late: lateOf(course, classes),
          threshold: plan.threshold_ns,
          duration,
        };
      }),
  );
  if (all.length === 0) return null;
  let chosen = foremostOf(charts, all);
  const shown = figure({
    id: "over-time",
    title: "Late wakeups over time",
    height: 420,
    choices: [
      select("Service", all.map(({ label }) => label), chosen, (index) => {
        chosen = index;
        shown.redraw();
      }),
    ],
    reading: [
      "Lines: median (at most 4.4 % high) and max of each interval. Marks: single late wakeups with their exact latency. Empty triangle: missed expiry. A wakeup that was still waiting at the end has the time that it had waited.",
      classes.length > 0
        ? "Colour and shape of a mark: class of the largest cause, if trace data was kept."
        : "Without trace data, the marks do not show causes.",
      "Marks at equal distances suggest a periodic cause. A cluster of marks suggests a single event. Drag the bar below the chart to zoom in.",
    ],
    view: () => view(all[chosen]!),
  });
  return section("time", "Latency over time", shown.element);
}

function lateOf({ points }: Course, classes: Class[]): Late[] {
  const missed = new Set(points.missed);
  const waiting = new Set(points.still_waiting);
  const causes = new Map<number, Class>();
  for (const one of classes) for (const index of points.by_cause[one.class] ?? []) causes.set(index, one);
  let at = 0;
  return points.latency_ns.map((latency, index) => {
    at += points.after_ns[index]!;
    return { at, cpu: points.cpu[index]!, latency, missed: missed.has(index), waiting: waiting.has(index), cause: causes.get(index) ?? null };
  });
}

function view(shown: Shown): View {
  return { words: words(shown), option: option(shown), table: table(shown) };
}

function words({ course, late, threshold }: Shown): string {
  const above = late.filter(({ latency }) => latency > threshold).length;
  const open = late.filter(({ waiting }) => waiting).length;
  const waiting = open > 0 ? ` ${count(open)} were still waiting at the end; their latencies are lower limits.` : "";
  const kept = course.is_whole
    ? course.limit_ns === 0
      ? "all wakeups are marked"
      : `all wakeups later than ${time(course.limit_ns)} are marked`
    : "only the recorded tail is marked";
  return `${course.name}: ${kept}, ${count(late.length)} in all, ${count(above)} of them later than the threshold of ${time(threshold)}.${waiting}${causesInWords(late)}`;
}

function causesInWords(late: Late[]): string {
  const counts = new Map<string, number>();
  for (const { cause } of late) if (cause) counts.set(cause.words, (counts.get(cause.words) ?? 0) + 1);
  const said = [...counts].sort(([, a], [, b]) => b - a).map(([words, number]) => `${words} ${count(number)}`);
  return said.length > 0 ? ` Largest causes of ${count(late.filter(({ cause }) => cause).length)} with trace data: ${said.join(", ")}.` : "";
}

function option({ course, late, threshold, duration }: Shown): Option {
  const { text, faint, series: colors } = palette();
  const { intervals, interval_ns: length } = course;
  const begin = (index: number) => (intervals.number[index]! * length) / 1e9;
  const largest = intervals.largest_ns.map((ns, index) => [begin(index), ns]);
  const medians = intervals.median_ns.flatMap((ns, index) => (ns === null ? [] : [[begin(index), ns]]));
  const all = [...intervals.largest_ns, ...medians.map(([, ns]) => ns!)];
  const extreme = (pick: (a: number, b: number) => number) => all.reduce((a, b) => pick(a, b));
  const known = [...new Set(late.flatMap(({ cause }) => cause ?? []))];
  const axis = axisLook("since the start of the recording (s)", 28);
  const marks = (name: string, symbol: string, color: string, points: Late[], symbolSize = 6) => ({
    type: "scatter" as const,
    name,
    symbol,
    symbolSize,
    color,
    itemStyle: { opacity: color === faint ? 0.5 : 1 },
    data: points.map(({ at, latency, cpu }) => [at / 1e9, latency, cpu]),
  });
  return {
    ...base(),
    legend: { ...base().legend, itemWidth: 16, itemHeight: 10 },
    grid: { left: 84, right: 24, top: legendRoom(), bottom: 96 },
    xAxis: {
      ...axis,
      type: "value",
      min: 0,
      max: duration / 1e9,
      axisLabel: { ...axis.axisLabel, showMaxLabel: false },
    },
    yAxis: timeAxis("latency", 60, extreme(Math.min), Math.max(extreme(Math.max), threshold)),
    dataZoom: [{ type: "slider", bottom: 8, height: 26, textStyle: { color: faint }, filterMode: "none" }],
    series: [
      {
        type: "line",
        name: "max of each interval",
        data: largest,
        symbol: "none",
        step: "end",
        color: colors[5]!,
        lineStyle: { width: 1 },
        markLine: {
          silent: true,
          symbol: "none",
          lineStyle: { color: text, type: "dashed" },
          label: { formatter: "threshold", color: text, position: "insideStartTop" },
          data: [{ yAxis: threshold }],
        },
      },
      { type: "line", name: "median", data: medians, symbol: "none", step: "end", color: colors[2]!, lineStyle: { width: 2 } },
      marks("late", "circle", known.length > 0 ? faint : colors[1]!, late.filter(({ missed, cause }) => !missed && !cause), known.length > 0 ? 4 : 6),
      marks("missed", "emptyTriangle", known.length > 0 ? faint : colors[3]!, late.filter(({ missed, cause }) => missed && !cause)),
      ...known.map((one) => marks(one.words, one.shape, one.color(), late.filter(({ cause }) => cause === one), 8)),
    ],
    tooltip: {
      ...base().tooltip,
      trigger: "item",
      formatter: (item) => {
        const { seriesName, value } = Array.isArray(item) ? item[0]! : item;
        const [at, ns, cpu] = value as number[];
        const place = cpu === undefined ? "" : `, CPU ${cpu}`;
        return `${seriesName}: ${time(ns!)} at ${at!.toFixed(3)} s${place}`;
      },
    },
  };
}

/** The latest first: that is what one looks for. */
function table({ late }: Shown): Table {
  return {
    head: ["late wakeup at (ns)", "CPU", "latency (ns)", "missed", "largest cause"],
    rows: late
      .toSorted((a, b) => b.latency - a.latency)
      .map(({ at, cpu, latency, missed, waiting, cause }) => [at, cpu, latency, waiting ? "still waiting, at least" : missed ? "yes" : "no", cause?.words ?? ""]),
  };
}
