// Log-log distributions (OSDI'99 Fig. 4, 5).

import type { LineSeriesOption } from "echarts/charts";
import { axisLook, base, legendRoom, timeAxis, type Option } from "../chart";
import { bucketBegin, lineName, type Histogram, type PageData } from "../data";
import { section, select, type Table } from "../dom";
import { figure, type View } from "../figure";
import { atLeast, count, time } from "../format";
import { DASHES, palette } from "../theme";

/** Buckets of a recording that are drawn as one: eight per doubling. */
const MERGED = 8;

/** Curves that the words below the figure tell of. */
const SAID = 10;

interface Curve {
  /** The service and CPU; curves of several recordings share a colour. */
  label: string;
  name: string;
  recording: number;
  histogram: Histogram;
  samples: number;
  largest: number;
  /** Whether that is a lower limit. */
  isOpen: boolean;
}

type Kind = "count" | "exceedance";

export function distributions(data: PageData): HTMLElement | null {
  if (!data.report.recordings.some(({ histograms }) => histograms.length > 0)) return null;
  const sets = curveSets(data);
  let kind: Kind = "exceedance";
  // Every service of several recordings is too much for a first look.
  let chosen = Math.max(
    sets.findIndex(({ label }) => data.report.recordings.length > 1 && label.startsWith("fifo")),
    0,
  );
  const shown = figure({
    id: "distribution",
    title: "Distribution of latency",
    choices: [
      select("Show", ["share that is later", "how often"], 0, (index) => {
        kind = index === 0 ? "exceedance" : "count";
        shown.redraw();
      }),
      select("of", sets.map(({ label }) => label), chosen, (index) => {
        chosen = index;
        shown.redraw();
      }),
    ],
    reading: [
      "Both scales are logarithmic, because what matters is rare.",
      "Share that is later: a curve that passes through 1 ms at 0.001 says that one activation in 1,000 was more than 1 ms late. The lower and the more to the left a curve, the better; where it runs out to the right nearly flat, rare delays are much longer than usual ones.",
      "How often: each step counts the activations between two latencies that are 9 % apart.",
    ],
    view: () => view(sets[chosen]!.curves, kind, data.report.recordings.length > 1),
  });
  return section("distributions", "Distributions", shown.element);
}

function curveSets({ report, charts }: PageData): { label: string; curves: Curve[] }[] {
  const several = report.recordings.length > 1;
  const curves = (pick: (index: number) => Histogram[], label: (histogram: Histogram) => string): Curve[] =>
    report.recordings.flatMap((recording, index) =>
      pick(index).map((histogram) => ({
        label: label(histogram),
        name: several ? `${label(histogram)} [${index + 1}]` : label(histogram),
        recording: index,
        histogram,
        samples: histogram.buckets.reduce((sum, [, count]) => sum + count, 0),
        ...largestOf(histogram, [...recording.services, ...charts[index]!.by_cpu]),
      })),
    );
  const names = [...new Set(report.recordings.flatMap(({ histograms }) => histograms.map(lineName)))];
  return [
    { label: "every service", curves: curves((index) => report.recordings[index]!.histograms, lineName) },
    ...names.map((name) => ({
      label: name,
      curves: curves((index) => report.recordings[index]!.histograms.filter((histogram) => lineName(histogram) === name), lineName),
    })),
    ...names.map((name) => ({
      label: `${name}, CPU by CPU`,
      curves: curves(
        (index) => charts[index]!.by_cpu_histograms.filter((histogram) => lineName(histogram) === name),
        (histogram) => `${name}, CPU ${histogram.cpu}`,
      ),
    })),
  ];
}

function largestOf(histogram: Histogram, rows: PageData["report"]["recordings"][number]["services"]): { largest: number; isOpen: boolean } {
  const row = rows.find((row) => lineName(row) === lineName(histogram) && row.cpu === histogram.cpu);
  return { largest: row?.latency.largest_ns ?? 0, isOpen: row?.latency.largest_is_at_least ?? false };
}

function view(curves: Curve[], kind: Kind, several: boolean): View {
  const points = curves.map((curve) => (kind === "count" ? counts(curve) : exceedances(curve)));
  const smallest = Math.min(...points.map((line) => ordinary(line, kind)));
  const largest = Math.max(...curves.map((curve) => curve.largest));
  const colors = palette().series;
  const labels = [...new Set(curves.map(({ label }) => label))];
  const series = curves.map((curve, index): LineSeriesOption => {
    const nth = labels.indexOf(curve.label);
    const dash = several ? curve.recording : Math.floor(nth / colors.length);
    return {
      type: "line",
      name: curve.name,
      data: points[index]!,
      step: kind === "count" ? "end" : "start",
      symbol: "none",
      color: colors[nth % colors.length]!,
      // Beyond the last colour a line is told by its width.
      lineStyle: { width: nth < colors.length ? 2 : 4, type: DASHES[dash % DASHES.length]! },
    };
  });
  return { words: words(curves), option: option(series, kind, smallest, largest), table: table(curves, points, kind) };
}

/** Where the axis begins: what is earlier than all but 1 in 1,000 would only take up room. */
function ordinary(line: [number, number][], kind: Kind): number {
  const first = kind === "count" ? line[0] : line.find(([, share]) => share <= 0.999) ?? line[0];
  return first?.[0] ?? Infinity;
}

function option(series: LineSeriesOption[], kind: Kind, smallest: number, largest: number): Option {
  const look = axisLook(kind === "count" ? "activations" : "share that is later", 52);
  return {
    ...base(),
    grid: { left: 72, right: 24, top: legendRoom(), bottom: 48 },
    xAxis: timeAxis("latency", 30, smallest, largest),
    yAxis: { ...look, type: "log", axisLabel: { ...look.axisLabel, formatter: (value: number) => power(value) } },
    series,
    tooltip: {
      ...base().tooltip,
      trigger: "axis",
      formatter: (items) =>
        (Array.isArray(items) ? items : [items])
          .map(({ seriesName, value }) => {
            const [ns, y] = value as [number, number];
            return kind === "count" ? `${seriesName}: ${count(y)} from ${time(ns)}` : `${seriesName}: ${power(y)} later than ${time(ns)}`;
          })
          .join("\n"),
    },
  };
}

/** Beginning of each step and its count; empty steps are gaps at half an activation. */
function counts({ histogram }: Curve): [number, number][] {
  const merged = new Map<number, number>();
  for (const [bucket, count] of histogram.buckets) {
    const step = Math.ceil(bucket / MERGED);
    merged.set(step, (merged.get(step) ?? 0) + count);
  }
  const begin = (step: number) => bucketBegin((step - 1) * MERGED + 1);
  const steps = [...merged].sort(([a], [b]) => a - b);
  const points: [number, number][] = [];
  for (const [index, [step, count]] of steps.entries()) {
    if (index > 0 && steps[index - 1]![0] < step - 1) points.push([begin(steps[index - 1]![0] + 1), 0.5]);
    points.push([begin(step), count]);
  }
  const last = steps.at(-1);
  if (last) points.push([begin(last[0] + 1), 0.5]);
  return points;
}

/** Beginning of each bucket and the share of all that is later. */
function exceedances({ histogram, samples, largest }: Curve): [number, number][] {
  let later = samples;
  const points = histogram.buckets.map(([bucket, count]): [number, number] => {
    const point: [number, number] = [Math.max(bucketBegin(bucket), 1), later / samples];
    later -= count;
    return point;
  });
  const last = points.at(-1);
  if (last && largest > last[0]) points.push([largest, last[1]]);
  return points;
}

function power(value: number): string {
  if (value >= 1) return count(Math.round(value));
  const text = value < 0.001 ? value.toExponential(1) : value.toPrecision(2);
  return text.includes("e") ? text.replace(".0e", "e") : Number(text).toString();
}

function words(curves: Curve[]): string {
  const said = curves.slice(0, SAID).map(({ name, samples, largest, isOpen }) => `${name}: ${count(samples)} activations, the largest seen ${atLeast(isOpen, time(largest))}`);
  const rest = curves.length > SAID ? `; and ${curves.length - SAID} more` : "";
  return `${said.join("; ")}${rest}.`;
}

function table(curves: Curve[], points: [number, number][][], kind: Kind): Table {
  return {
    head: ["curve", "later than (ns)", kind === "count" ? "activations" : "share"],
    rows: curves.flatMap(({ name }, index) =>
      points[index]!.filter(([, value]) => kind !== "count" || value >= 1).map(([ns, value]) => [name, Math.round(ns), value]),
    ),
  };
}
