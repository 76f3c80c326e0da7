// Log-log distributions (OSDI'99 Fig. 4, 5).

import type { LineSeriesOption } from "echarts/charts";
import { axisLook, base, timeAxis, type Option } from "../chart";
import { bucketBegin, lineName, type Histogram, type PageData } from "../data";
import { h, select, type Table } from "../dom";
import { figure, type View } from "../figure";
import { atLeast, count, time } from "../format";
import { DASHES, palette, SERIES } from "../theme";

/** Buckets of a recording that are drawn as one: eight per doubling. */
const MERGED = 8;

/** Number of curves that the words below the figure describe. */
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

/** Line across the figure: later wakeups are too late for an application. */
export interface Limit {
  ns: number;
  words: string;
}

/** How late how many are: three services at first, others as the reader wants them. */
export function distribution(data: PageData, limit: Limit | null): HTMLElement | null {
  const { recordings } = data.report;
  if (!recordings.some(({ histograms }) => histograms.length > 0)) return null;
  const several = recordings.length > 1;
  const all = curveSets(data);
  const names = [...new Set(all[0]!.curves.map(({ label }) => label))];
  // Every service of several recordings is too much for a first look.
  const first = data.charts.flatMap(({ leading, foremost }) => (several ? (foremost ?? []) : leading));
  const on = new Set(names.filter((name) => first.includes(name)));
  let kind: Kind = "exceedance";
  let chosen = 0;
  const curves = () => (chosen === 0 ? all[0]!.curves.filter(({ label }) => on.has(label)) : all[chosen]!.curves);
  const switches = h("fieldset", { class: "switches" }, h("legend", {}, "Curves"), ...names.map((name, nth) => switchOf(name, nth)));
  function switchOf(name: string, nth: number): HTMLElement {
    const box = h("input", {
      type: "checkbox",
      checked: on.has(name),
      onchange: () => {
        if (box.checked) on.add(name);
        else on.delete(name);
        shown.redraw();
      },
    });
    const mark = h("span", { class: `mark series-${nth % SERIES}`, "aria-hidden": "true" });
    return h("label", {}, box, mark, name);
  }
  const shown = figure({
    id: "distribution",
    title: "Distribution of the latency",
    height: 330,
    choices: [
      select("Show", ["fraction above x", "counts"], 0, (index) => {
        kind = index === 0 ? "exceedance" : "count";
        shown.redraw();
      }),
      select("of", all.map(({ label }) => label), chosen, (index) => {
        chosen = index;
        switches.hidden = index !== 0;
        shown.redraw();
      }),
    ],
    below: [switches],
    reading: [
      "Both scales are logarithmic.",
      "Fraction above x (CCDF): a curve through 1 ms at 0.001 means that 1 of 1,000 wakeups had a latency above 1 ms. Lower and further left is better. A nearly flat tail to the right: rare latencies are much longer than usual ones.",
      "Counts: each step counts the wakeups between two latencies that are 9 % apart.",
    ],
    view: () => view(curves(), names, { kind, several, limit: chosen === 0 ? limit : null }),
  });
  return shown.element;
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
    { label: "services, CPUs together", curves: curves((index) => report.recordings[index]!.histograms, lineName) },
    ...names.map((name) => ({
      label: `${name}, per CPU`,
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

interface Drawn {
  kind: Kind;
  several: boolean;
  limit: Limit | null;
}

function view(curves: Curve[], names: string[], drawn: Drawn): View {
  const { kind, several } = drawn;
  const points = curves.map((curve) => (kind === "count" ? counts(curve) : exceedances(curve)));
  const colors = palette().series;
  // A service keeps its colour, whichever others are drawn.
  const labels = curves.every(({ label }) => names.includes(label)) ? names : [...new Set(curves.map(({ label }) => label))];
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
      // After the last colour, lines differ by their width.
      lineStyle: { width: nth < colors.length ? 2 : 4, type: DASHES[dash % DASHES.length]! },
    };
  });
  return { words: words(curves), option: option(series, curves, drawn), table: table(curves, points, kind) };
}

/** Start of the axis: the 0.1 % quantile. Smaller values would only take up
 * space. */
function ordinary(line: [number, number][], kind: Kind): number {
  const first = kind === "count" ? line[0] : line.find(([, share]) => share <= 0.999) ?? line[0];
  return first?.[0] ?? Infinity;
}

function option(series: LineSeriesOption[], curves: Curve[], { kind, limit }: Drawn): Option {
  const { text, faint } = palette();
  const look = axisLook(kind === "count" ? "wakeups" : "fraction above x", 52);
  const points = series.map(({ data }) => data as [number, number][]);
  const smallest = Math.min(...points.map((line) => ordinary(line, kind)));
  const largest = Math.max(...curves.map((curve) => curve.largest));
  const x = timeAxis("latency", 30, Number.isFinite(smallest) ? smallest : 1e3, largest);
  // A limit far beyond all observed latencies would compress the curves.
  const isNear = limit !== null && limit.ns > x.min && limit.ns < 20 * x.max;
  if (isNear) x.max = Math.max(x.max, 10 ** Math.ceil(Math.log10(limit.ns)));
  const isRight = limit !== null && limit.ns * limit.ns > x.min * x.max;
  return {
    ...base(),
    // The names are at the curves.
    legend: { show: false },
    grid: { left: 72, right: 24, top: 24, bottom: 48 },
    xAxis: x,
    yAxis: { ...look, type: "log", axisLabel: { ...look.axisLabel, formatter: (value: number) => power(value) } },
    series: [
      ...series,
      {
        type: "scatter",
        name: "names",
        silent: true,
        symbolSize: 1,
        tooltip: { show: false },
        data: places(points, [x.min, x.max]).map((place, index) => ({
          value: place.at,
          itemStyle: { color: "transparent", opacity: 1 },
          label: {
            show: true,
            position: place.side,
            distance: 6,
            formatter: `{line|▬} ${series[index]!.name}`,
            color: text,
            fontWeight: "bold",
            textBorderColor: palette().ground,
            textBorderWidth: 3,
            rich: { line: { color: series[index]!.color as string, fontWeight: "bold", textBorderWidth: 0 } },
          },
        })),
        labelLayout: { moveOverlap: "shiftY" },
        markLine: {
          silent: true,
          symbol: "none",
          lineStyle: { color: text, type: "dashed", width: 1 },
          // To where there is more room for it.
          label: { color: text, formatter: limit?.words ?? "", position: "end", distance: 4, align: isRight ? "right" : "left", textBorderColor: palette().ground, textBorderWidth: 3 },
          data: isNear ? [{ xAxis: limit.ns }] : [],
        },
        color: faint,
      },
    ],
    tooltip: {
      ...base().tooltip,
      trigger: "axis",
      formatter: (items) =>
        (Array.isArray(items) ? items : [items])
          .filter(({ seriesType }) => seriesType === "line")
          .map(({ seriesName, value }) => {
            const [ns, y] = value as [number, number];
            return kind === "count" ? `${seriesName}: ${count(y)} from ${time(ns)}` : `${seriesName}: ${power(y)} later than ${time(ns)}`;
          })
          .join("\n"),
    },
  };
}

/** Position of a curve's name, and its side of the curve. */
interface Place {
  at: [number, number];
  side: "left" | "right";
}

/** Possible heights of a name, as fractions of the height of the figure from
 * the top. */
const HEIGHTS = Array.from({ length: 24 }, (_, nth) => 0.06 + 0.037 * nth);
/** Room that any name fits into, as a part of the picture's width. */
const ENOUGH = 0.4;

/** Half the height of a name, as a part of the picture's. */
const HALF = 0.035;

/** Returns for each curve the height at which the other curves leave most room
 * for its name. Each height is used once. */
function places(lines: [number, number][][], [left, right]: [number, number]): Place[] {
  const heights = lines.flatMap((line) => line.map(([, y]) => Math.log(y)));
  const [top, bottom] = [Math.max(...heights), Math.min(...heights)];
  const width = Math.log(right / left);
  /** How far to the right a curve is at a height, both as parts of the picture. */
  const across = (line: [number, number][], part: number): number => {
    const level = top + (bottom - top) * part;
    const last = line.findLast(([, y]) => Math.log(y) >= level) ?? line[0];
    return last ? Math.log(Math.max(last[0], left) / left) / width : 0;
  };
  const taken = new Set<number>();
  return lines.map((line, index) => {
    const found = HEIGHTS.filter((part) => !taken.has(part)).map((part) => {
      // Extent of each curve next to the name.
      const [own, ...others] = [line, ...lines.filter((_, which) => which !== index)].map((one) => [across(one, part - HALF), across(one, part + HALF)] as const);
      const [from, to] = own!;
      const onRight = others.map(([begin, end]) => (end <= to ? 1 : begin - to));
      const onLeft = others.map(([begin, end]) => (begin >= from ? 1 : from - end));
      const free = { right: Math.min(1 - to, ...onRight), left: Math.min(from, ...onLeft) };
      const side: Place["side"] = free.right >= Math.min(free.left, ENOUGH) ? "right" : "left";
      return { part, side, at: side === "right" ? to : from, room: Math.min(free[side], ENOUGH) };
    });
    const best = found.reduce((a, b) => (b.room > a.room ? b : a));
    taken.add(best.part);
    return { at: [left * Math.exp(best.at * width), Math.exp(top + (bottom - top) * best.part)], side: best.side };
  });
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

/** Lower edge of each bucket, and the share of all later values. */
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
  const said = curves.slice(0, SAID).map(({ name, samples, largest, isOpen }) => `${name}: ${count(samples)} wakeups, max ${atLeast(isOpen, time(largest))}`);
  if (curves.length === 0) return "No curve is selected.";
  const rest = curves.length > SAID ? `; and ${curves.length - SAID} more` : "";
  return `${said.join("; ")}${rest}.`;
}

function table(curves: Curve[], points: [number, number][][], kind: Kind): Table {
  return {
    head: ["curve", "above (ns)", kind === "count" ? "wakeups" : "fraction"],
    rows: curves.flatMap(({ name }, index) =>
      points[index]!.filter(([, value]) => kind !== "count" || value >= 1).map(([ns, value]) => [name, Math.round(ns), value]),
    ),
  };
}
