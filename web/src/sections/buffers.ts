// How often buffers run dry (OSDI'99 Fig. 6, 7), with sliders.

import type { LineSeriesOption } from "echarts/charts";
import { axisLook, base, legendRoom, type Option } from "../chart";
import type { Buffers, LoadBuffers, PageData, ServiceBuffers } from "../data";
import { h, prose, section, select, tableElement, type Table } from "../dom";
import { figure, type View } from "../figure";
import { atLeast, count, MEAN_TIMES, meanTime, roughTime, time } from "../format";
import { coarse, curve, finer, GOALS, needed, refusal, type Figures, type Point } from "../qos/outlook";
import { slack, tolerance, type Buffering } from "../qos/replay";
import { DASHES, palette, seriesColor } from "../theme";
import { controls } from "./controls";

/** After the first charts are drawn, ms. */
const SOON = 50;

/** One service under the application of the moment. */
interface Answer {
  service: ServiceBuffers;
  points: Point[];
  /** With the application's own buffers, or why there is nothing to say. */
  own: Figures | string;
}

export function buffers({ buffers, charts }: PageData): HTMLElement | null {
  if (!buffers || !buffers.loads.some(({ services }) => services.length > 0)) return null;
  const state = { load: 0, service: 0, now: bufferingOf(buffers, 0) };
  const foremost = charts.map(({ foremost }) => foremost);
  state.service = Math.max(buffers.loads[0]!.services.findIndex(({ name }) => foremost.includes(name)), 0);
  let answers: Answer[] = [];
  // Replaying takes a moment; the page is readable meanwhile.
  const outcome = h("div", { class: "outcome" }, h("p", {}, "Replaying ..."));
  const picked = h("span", { class: "choice" });
  const tell = () => {
    shown.redraw();
    outcome.replaceChildren(...tables(buffers.loads[state.load]!, answers, state.now));
  };
  const compute = () => {
    answers = answer(buffers.loads[state.load]!, state.now);
    tell();
  };
  const chooseService = () => {
    const names = buffers.loads[state.load]!.services.map(({ name }) => name);
    state.service = Math.min(state.service, names.length);
    picked.replaceChildren(
      select("Service", [...names, "every service"], state.service, (index) => {
        state.service = index;
        tell();
      }),
    );
  };
  chooseService();
  const set = controls(buffers.applications, (now) => {
    state.now = now;
    compute();
  });
  const loads = buffers.loads.map(({ load }) => load);
  const shown = figure({
    id: "mttf",
    title: "Mean time to failure over total buffering",
    height: 400,
    choices: [
      ...(loads.length > 1
        ? [
            select("Load", loads, 0, (index) => {
              state.load = index;
              chooseService();
              compute();
            }),
          ]
        : []),
      picked,
    ],
    reading: [
      "Each dot is a number of buffers of the chosen length. The higher, the rarer does the application run dry; the large mark is the application as it is set above.",
      "The dashed lines around a service's curve are its 95 % interval. An empty triangle is a lower limit: less than one failure in the time that was recorded, or no estimate.",
      "The dotted line is the papers' own rule, (n - 1) t / P(latency > slack): mostly optimistic, shown for comparison.",
      "All CPUs together: one that fails more often than the others is named in short, above.",
      "Computed here by replaying the blackouts that were seen, as laggard qos does. Valid for the recorded load only.",
    ],
    view: () => view(answers, state.service, state.now),
  });
  setTimeout(compute, SOON);
  return section("buffers", "How often buffers run dry", set, shown.element, outcome);
}

function bufferingOf({ applications }: Buffers, index: number): Buffering {
  const { buffers, buffer_ns: period, compute_ns: compute } = applications[index]!;
  return { buffers, period, compute };
}

function answer({ services }: LoadBuffers, now: Buffering): Answer[] {
  return services.map((service) => {
    const points = curve(service, now);
    const own = points.find(({ buffers }) => buffers === now.buffers)?.figures;
    return { service, points, own: own ?? refusal(service, now)! };
  });
}

/** As `mttf`, an upper limit where the service was still waiting at the end. */
function said({ waited_ns }: ServiceBuffers, own: Figures): string {
  if (waited_ns === null) return mttf(own);
  return own.mttf === null ? "not known" : `<= ${mttf(own)}`;
}

/** A count that may be a mean. */
const number = (mean: number) => (mean === 0 ? "0" : mean < 10 ? mean.toFixed(1) : count(Math.round(mean)));

/** The estimate with its interval, as `laggard qos` writes it. */
function mttf({ mttf, low, high, clusters }: Figures): string {
  if (mttf === null) return Number.isFinite(high) ? `${roughTime(low, 2)} to ${roughTime(high, 2)}` : `> ${roughTime(low, 2)}`;
  const digits = (clusters ?? 0) < 10 ? 1 : (clusters ?? 0) < 1_000 ? 2 : 3;
  const limit = (ns: number) => (Number.isFinite(ns) ? roughTime(ns, Math.max(digits, 2)) : "-");
  return `${roughTime(mttf, digits)} [${limit(low)}, ${limit(high)}]`;
}

/** Failures in what was observed, or between which numbers they lie. */
function failuresOf(isOpen: boolean, { failures, exposure, low, high }: Figures): string {
  if (failures !== null) return atLeast(isOpen, number(failures));
  const least = count(Math.floor(exposure / high));
  return isOpen ? atLeast(true, least) : `${least} to ${count(Math.ceil(exposure / low))}`;
}

function view(answers: Answer[], chosen: number, now: Buffering): View {
  const picked = answers.filter((_, index) => chosen >= answers.length || index === chosen);
  return { words: words(picked, now), option: option(picked, now), table: table(picked) };
}

function words(picked: Answer[], now: Buffering): string {
  const head = `${now.buffers} buffers of ${time(now.period)}, ${time(now.compute)} of work each: latency tolerance ${time(tolerance(now))}, slack ${time(slack(now))}.`;
  const each = picked.map(({ service, own }) => {
    if (typeof own === "string") return `${service.name}: no answer; the remark below says why.`;
    if (service.waited_ns !== null) return `${service.name}: it was still waiting when measuring ended; the remark below says what that means.`;
    if (own.failures === null) return `${service.name}: no estimate can be told; on average it takes ${Number.isFinite(own.high) ? mttf(own) : `more than ${roughTime(own.low, 2)}`} to fail.`;
    return own.mttf === null
      ? `${service.name}: ${own.failures === 0 ? "nothing" : "less than one"} failed in ${meanTime(own.exposure)} (${service.cpus} CPU${service.cpus === 1 ? "" : "s"}); on average it takes more than ${roughTime(own.low, 2)}.`
      : `${service.name}: a failure every ${mttf(own)} on average; ${number(own.failures)} in ${number(own.clusters ?? 0)} clusters.`;
  });
  return [head, ...each].join(" ");
}

const oneA = (goal: string) => `one ${goal === "hour" ? "an" : "a"} ${goal}`;

/** The curve of the estimate; where nothing failed, its lower limit. */
const height = ({ figures }: Point) => figures.mttf ?? figures.low;

function option(picked: Answer[], now: Buffering): Option {
  const { text, faint } = palette();
  const one = picked.length === 1 ? picked[0]! : null;
  // Total buffering as in the papers: all buffers but the one that plays.
  const ms = (point: Point) => (point.total * (point.buffers - 1)) / point.buffers / 1e6;
  const dots = (points: Point[]) => points.map((point) => [ms(point), height(point)]);
  const lines = picked.map(({ service, points }, nth): LineSeriesOption => ({
    type: "line",
    name: service.name,
    color: seriesColor(nth),
    symbol: "circle",
    symbolSize: 6,
    lineStyle: { width: 2, type: DASHES[Math.floor(nth / 3) % DASHES.length]! },
    data: dots(points.filter(({ figures }) => figures.mttf !== null)),
  }));
  const atLeast = picked.map(({ points }, nth) => ({
    type: "scatter" as const,
    name: "more than this: less than one failure, or no estimate",
    symbol: "emptyTriangle",
    symbolSize: 9,
    color: one ? seriesColor(0) : faint,
    itemStyle: { color: seriesColor(nth) },
    data: dots(points.filter(({ figures }) => figures.mttf === null)),
  }));
  const limit = (name: string, pick: (figures: Figures) => number): LineSeriesOption => ({
    type: "line",
    name,
    color: seriesColor(0),
    symbol: "none",
    lineStyle: { width: 1, type: "dashed" },
    data: one!.points.filter(({ figures }) => Number.isFinite(pick(figures))).map((point) => [ms(point), pick(point.figures)]),
  });
  const paper: LineSeriesOption = {
    type: "line",
    name: "the papers' rule",
    color: faint,
    symbol: "none",
    lineStyle: { width: 2, type: "dotted" },
    data: (one?.points ?? []).filter(({ figures }) => Number.isFinite(figures.paper)).map((point) => [ms(point), point.figures.paper]),
  };
  const marked = picked.flatMap(({ own, service }, nth) =>
    typeof own === "string"
      ? []
      : [{ value: [(now.period * (now.buffers - 1)) / 1e6, own.mttf ?? own.low, `${service.name}: ${said(service, own)}`], itemStyle: { color: seriesColor(nth), borderColor: text, borderWidth: 2 } }],
  );
  const heights = picked.flatMap(({ points }) => points.flatMap((point) => (one ? [height(point), point.figures.low] : height(point))));
  const hour = GOALS[0]![1];
  // The goal of an hour is always in sight, with some room above.
  const [lowest, highest] = [Math.min(...heights, hour), Math.max(...heights, 1.5 * hour)];
  const [bottom, top] = [MEAN_TIMES.findLast(([ns]) => ns <= lowest) ?? MEAN_TIMES[0]!, MEAN_TIMES.find(([ns]) => ns >= highest) ?? MEAN_TIMES.at(-1)!];
  const labels = MEAN_TIMES.filter(([ns]) => ns >= bottom[0] && ns <= top[0]);
  const x = axisLook("total buffering, (n - 1) x buffer length (ms)", 30);
  const y = axisLook("mean time to failure", 62);
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
      ...(one ? [limit("95 % interval", ({ low }) => low), limit("95 % interval", ({ high }) => high), paper] : []),
      {
        type: "scatter",
        name: "the application",
        symbol: "diamond",
        symbolSize: 18,
        color: text,
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

function table(picked: Answer[]): Table {
  const finite = (ns: number) => (Number.isFinite(ns) ? ns : "");
  return {
    head: ["service", "buffers", "total (ns)", "MTTF (ns)", "at least (ns)", "at most (ns)", "failures", "clusters", "late buffers an hour", "the papers' rule (ns)"],
    rows: picked.flatMap(({ service, points }) =>
      points.map(({ buffers, total, figures: { mttf, low, high, failures, clusters, latePerHour, paper } }) => [
        service.name,
        buffers,
        total,
        mttf ?? "",
        low,
        finite(high),
        failures ?? "",
        clusters ?? "",
        latePerHour,
        finite(paper),
      ]),
    ),
  };
}

function tables({ load, notes }: LoadBuffers, answers: Answer[], now: Buffering): HTMLElement[] {
  const hourly = (rate: number) => (rate >= 100 ? rate.toFixed(0) : rate > 0 ? rate.toFixed(2) : "0 seen");
  const rows = answers.map(({ service, points, own }) => {
    const isOpen = service.waited_ns !== null;
    // A stall that had not ended can have been longer than any buffers.
    const goals = GOALS.map(([, goal]) => (isOpen ? "?" : needed(service, points, goal)));
    if (typeof own === "string") return [service.name, "-", "-", "-", "see below", "-", "-", ...goals];
    return [
      service.name,
      `${meanTime(own.exposure)} (${service.cpus} CPU${service.cpus === 1 ? "" : "s"})`,
      failuresOf(isOpen, own),
      own.clusters === null ? "-" : atLeast(isOpen, number(own.clusters)),
      said(service, own),
      own.failures === null && own.latePerHour > 0 ? `about ${hourly(own.latePerHour)}` : atLeast(isOpen, hourly(own.latePerHour)),
      Number.isFinite(own.paper) ? meanTime(own.paper) : "no failure",
      ...goals,
    ];
  });
  const head = ["service", "observed", "failures", "in clusters", "MTTF", "late buffers/h", "papers' rule", ...GOALS.map(([name], nth) => (nth === 0 ? `buffers for ${oneA(name)}` : oneA(name)))];
  const remarks = remarksOn(answers, now);
  return [
    tableElement({ head, rows }, { caption: `Load: ${load}` }),
    h("ul", { class: "remarks" }, ...[...remarks, ...notes].map((text) => h("li", {}, prose(text)))),
  ];
}

function remarksOn(answers: Answer[], now: Buffering): string[] {
  const remarks: string[] = [];
  const names = (pick: (answer: Answer) => boolean) => answers.filter(pick).map(({ service }) => service.name);
  remarks.push("In clusters: failures close together, or of several CPUs at once, are one; intervals are of so many.");
  for (const { service } of answers) {
    if (service.waited_ns === null) continue;
    remarks.push(
      `${service.name} was still waiting when measuring ended, for ${time(service.waited_ns)} by then: failures and late buffers are at least these (>=), mean times at most these (<=), and no number of buffers is proved.`,
    );
  }
  const refused = new Map<string, string[]>();
  for (const { service, own } of answers) if (typeof own === "string") refused.set(own, [...(refused.get(own) ?? []), service.name]);
  for (const [why, of] of refused) remarks.push(`${of.join(", ")}: ${why}.`);
  const why = new Map<string, string[]>();
  for (const { service } of answers) {
    const text = coarseness(service, now);
    if (text !== null) why.set(text, [...(why.get(text) ?? []), service.name]);
  }
  for (const [text, of] of why) remarks.push(`${of.join(", ")}: ${text}.`);
  const wide = names(({ service }) => coarse(service, now) === "period");
  if (wide.length > 0) remarks.push(`${wide.join(", ")}: the probe's period is more than a twentieth of the slack, so the interval is wide; record with a shorter \`--period\`.`);
  if (answers.some(({ service, points }) => GOALS.some(([, goal]) => needed(service, points, goal) === "?"))) {
    remarks.push("A question mark: too short a recording to tell; it takes three times the goal without a failure.");
  }
  return remarks;
}

/** Why only an interval can be told of a service, or null. */
function coarseness(service: ServiceBuffers, now: Buffering): string | null {
  const rest = "only an interval can be told, and late buffers by";
  switch (coarse(service, now)) {
    case "floor":
      return `when latencies up to ${time(service.floor_ns)} came was not kept, and with this slack they matter: ${rest} the histogram`;
    case "tail":
      return `what came before a late activation was not kept, and activations are not fine enough for this slack: ${rest} the histogram`;
    case "between":
      return `activations are ${time(service.apart_ns)} apart, and what begins and ends between two can use up this slack: ${rest} the share of activations later than the slack; ${finer(service, now)}`;
    case "period":
    case null:
      return null;
  }
}
