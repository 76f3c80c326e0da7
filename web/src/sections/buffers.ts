// How often an application has an xrun, over total buffering (OSDI'99 Fig. 6, 7). The program
// evaluates each application; the page only shows the one that is chosen.

import type { LineSeriesOption } from "echarts/charts";
import { axisLook, base, legendRoom, type Option } from "../chart";
import { lineName, type PageData, type QosPage } from "../data";
import type { CurvePoint, MissFigures, ServiceOutlook } from "../types";
import { documentElements } from "../document";
import { h, prose, section, select, type Table } from "../dom";
import { figure, type View } from "../figure";
import { MEAN_TIMES, roughTime } from "../format";
import { DASHES, palette, seriesColor } from "../theme";

const HOUR = 3.6e12;
/** Goals: one xrun in this time, ns. */
const GOALS: [string, number][] = [
  ["hour", HOUR],
  ["day", 24 * HOUR],
  ["week", 168 * HOUR],
];

export function buffers({ qos, charts }: PageData): HTMLElement | null {
  const loads = qos.find(({ loads }) => loads.length > 0)?.loads ?? [];
  if (!loads.some(({ services }) => services.length > 0)) return null;
  const state = { application: 0, load: 0, service: 0 };
  const now = () => qos[state.application]!;
  const services = () => now().loads[state.load]?.services ?? [];
  const names = loads[0]!.services.map(lineName);
  const foremost = charts.map(({ foremost }) => foremost);
  state.service = Math.max(names.findIndex((name) => foremost.includes(name)), 0);
  const outcome = h("div", { class: "outcome" });
  const about = h("p", { class: "source" });
  const change = () => {
    about.replaceChildren(prose(`Source: ${now().application.source}.`));
    outcome.replaceChildren(...documentElements(now().document));
    shown.redraw();
  };
  const choice = (label: string, options: string[], key: keyof typeof state) =>
    select(label, options, state[key], (index) => {
      state[key] = index;
      change();
    });
  const shown = figure({
    id: "mttf",
    title: "Mean time between xruns over total buffering",
    height: 400,
    choices: [
      choice("Application", qos.map(({ application }) => application.name), "application"),
      ...(loads.length > 1 ? [choice("Load", loads.map(({ load }) => load), "load")] : []),
      choice("Service", [...names, "every service"], "service"),
    ],
    reading: [
      "Each dot is a number of buffers of the same length. The higher, the rarer are xruns. The large mark is the application with its own number of buffers.",
      "The dashed lines around the curve of a service are its 95 % interval. An empty triangle is a lower limit: less than one failure in the recording, or no estimate.",
      "The dotted line is the rule of the papers, (n - 1) t / P(latency > slack). It is mostly optimistic.",
      "All CPUs together. The text below names a CPU that fails more often than the others.",
      "For other buffers, run laggard qos with --buffers, --buffer and --compute. The figures hold for the recorded load only.",
    ],
    view: () => view(services(), state.service, now()),
  });
  change();
  return section("buffers", "How often an application has an xrun", shown.element, about, outcome);
}

/** Mean time between xruns with its 95 % interval. */
function meanTime({ waited_ns }: ServiceOutlook, { mttf_ns: mean, mttf_low_ns: low, mttf_high_ns: high }: MissFigures): string {
  const text = (ns: number) => roughTime(ns, 2);
  if (waited_ns !== null) return mean === null && high === null ? "unknown, still waiting when measuring ended" : `<= ${text(mean ?? high!)}`;
  if (mean === null) return high === null ? `>= ${text(low)}` : `${text(low)} to ${text(high)}`;
  return `${text(mean)} (${text(low)} to ${high === null ? "no limit" : text(high)})`;
}

function view(services: ServiceOutlook[], chosen: number, { application }: QosPage): View {
  const picked = services.filter((_, index) => chosen >= services.length || index === chosen);
  const each = picked.map((service) => `${lineName(service)}: ${meanTime(service, service.outlook)}`);
  return { words: `${application.name}, ${application.buffers} buffers. Time between xruns (95 % interval): ${each.join("; ")}.`, option: option(picked, application.buffers), table: table(picked) };
}

const oneA = (goal: string) => `one ${goal === "hour" ? "an" : "a"} ${goal}`;

/** The estimate, or otherwise the lower limit. */
const height = ({ figures }: CurvePoint) => figures.mttf_ns ?? figures.mttf_low_ns;

function option(picked: ServiceOutlook[], own: number): Option {
  const { text: edge, faint } = palette();
  const one = picked.length === 1 ? picked[0]! : null;
  const ms = (point: CurvePoint) => point.buffering_ns / 1e6;
  const dots = (points: CurvePoint[]) => points.map((point) => [ms(point), height(point)]);
  const lines = picked.map((service, nth): LineSeriesOption => ({
    type: "line",
    name: lineName(service),
    color: seriesColor(nth),
    symbol: "circle",
    symbolSize: 6,
    lineStyle: { width: 2, type: DASHES[Math.floor(nth / 3) % DASHES.length]! },
    data: dots(service.curve.filter(({ figures }) => figures.mttf_ns !== null)),
  }));
  const atLeast = picked.map(({ curve }, nth) => ({
    type: "scatter" as const,
    name: "lower limit: less than one failure, or no estimate",
    symbol: "emptyTriangle",
    symbolSize: 9,
    color: one ? seriesColor(0) : faint,
    itemStyle: { color: seriesColor(nth) },
    data: dots(curve.filter(({ figures }) => figures.mttf_ns === null)),
  }));
  const limit = (name: string, pick: (figures: MissFigures) => number | null): LineSeriesOption => ({
    type: "line",
    name,
    color: seriesColor(0),
    symbol: "none",
    lineStyle: { width: 1, type: "dashed" },
    data: one!.curve.filter(({ figures }) => pick(figures) !== null).map((point) => [ms(point), pick(point.figures)!]),
  });
  const paper: LineSeriesOption = {
    type: "line",
    name: "rule of the papers",
    color: faint,
    symbol: "none",
    lineStyle: { width: 2, type: "dotted" },
    data: (one?.curve ?? []).filter(({ figures }) => figures.paper_mttf_ns !== null).map((point) => [ms(point), point.figures.paper_mttf_ns!]),
  };
  const marked = picked.flatMap((service, nth) => {
    const point = service.curve.find(({ buffers }) => buffers === own);
    if (!point) return [];
    const text = `${lineName(service)}: ${meanTime(service, point.figures)}`;
    return [{ value: [ms(point), height(point), text], itemStyle: { color: seriesColor(nth), borderColor: edge, borderWidth: 2 } }];
  });
  const heights = picked.flatMap(({ curve }) => curve.flatMap((point) => (one ? [height(point), point.figures.mttf_low_ns] : height(point))));
  const hour = GOALS[0]![1];
  // The goal of an hour is always in sight, with some room above.
  const [lowest, highest] = [Math.min(...heights, hour), Math.max(...heights, 1.5 * hour)];
  const [bottom, top] = [MEAN_TIMES.findLast(([ns]) => ns <= lowest) ?? MEAN_TIMES[0]!, MEAN_TIMES.find(([ns]) => ns >= highest) ?? MEAN_TIMES.at(-1)!];
  const labels = MEAN_TIMES.filter(([ns]) => ns >= bottom[0] && ns <= top[0]);
  const x = axisLook("total buffering, (n - 1) x buffer length (ms)", 30);
  const y = axisLook("mean time between xruns", 62);
  return {
    ...base(),
    grid: { left: 92, right: 84, top: legendRoom(), bottom: 52 },
    xAxis: { ...x, type: "value", min: 0 },
    yAxis: {
      ...y,
      type: "log",
      min: bottom[0],
      max: top[0],
      axisTick: { customValues: labels.map(([ns]) => ns) },
      splitLine: { show: false },
      axisLabel: {
        ...y.axisLabel,
        customValues: labels.map(([ns]) => ns),
        formatter: (ns: number) => labels.find(([label]) => Math.abs(label / ns - 1) < 1e-6)?.[1] ?? "",
      },
    },
    series: [
      ...lines,
      ...atLeast.filter(({ data }) => data.length > 0),
      ...(one ? [limit("95 % interval", ({ mttf_low_ns }) => mttf_low_ns), limit("95 % interval", ({ mttf_high_ns }) => mttf_high_ns), paper] : []),
      {
        type: "scatter",
        name: "the application",
        symbol: "diamond",
        symbolSize: 18,
        color: edge,
        data: marked,
        markLine: {
          silent: true,
          symbol: "none",
          lineStyle: { color: faint, type: "solid", width: 1 },
          label: { color: faint, formatter: ({ name }: { name: string }) => name },
          data: GOALS.filter(([, ns]) => ns <= top[0]).map(([name, yAxis]) => ({ name: oneA(name), yAxis })),
        },
        z: 5,
      },
    ],
    tooltip: {
      ...base().tooltip,
      trigger: "item",
      formatter: (item) => {
        const { seriesName, value } = Array.isArray(item) ? item[0]! : item;
        const [total, ns, said] = value as [number, number, string?];
        return said ?? `${seriesName}: ${roughTime(ns, 2)} with ${total.toFixed(2)} ms`;
      },
    },
  };
}

function table(picked: ServiceOutlook[]): Table {
  return {
    head: ["service", "buffers", "total (ns)", "MTTF (ns)", "at least (ns)", "at most (ns)", "failures", "clusters", "late buffers an hour", "rule of the papers (ns)"],
    rows: picked.flatMap((service) =>
      service.curve.map(({ buffers, total_ns, figures }) => [
        lineName(service),
        buffers,
        total_ns,
        figures.mttf_ns ?? "",
        figures.mttf_low_ns,
        figures.mttf_high_ns ?? "",
        figures.failures ?? "",
        figures.clusters ?? "",
        figures.late_per_hour,
        figures.paper_mttf_ns ?? "",
      ]),
    ),
  };
}
