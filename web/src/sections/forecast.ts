// How bad it will get (OSDI'99 Table 3), as `laggard forecast` gives it.

import { lineName, type Cell, type LoadForecast, type PageData, type ServiceForecast } from "../data";
import { h, prose, section, tableElement } from "../dom";
import { atLeast, count, meanTime, time, timeOrDash } from "../format";

/** What stands behind a level, by its method in the data. */
const METHODS: Record<Told["method"], string> = {
  order_statistics: "ranks of the peaks, no model",
  peaks_over_threshold: "a model of the tail, an extrapolation",
  by_cause: "cause by cause: periodic ones as often as they come, a model of each other tail",
};

/** A horizon of which a level is told. */
type Told = Exclude<Cell, { method: "refused" }>;

const isTold = (cell: Cell): cell is Told => cell.method !== "refused";

/** Causes of a level that a remark tells of. */
const SAID = 3;

/** Periods nearer to each other than this part of them are one finding: the stalls that several services share. */
const SAME_PERIOD = 0.01;

export function forecast({ forecast }: PageData): HTMLElement | null {
  if (!forecast || forecast.loads.length === 0) return null;
  const several = forecast.loads.length > 1;
  return section(
    "forecast",
    "How bad it will get",
    ...forecast.loads.map((load) => h("article", {}, several && h("h3", {}, `Load: ${load.load}`), ofLoad(load))),
    h(
      "p",
      { class: "reading" },
      h("strong", {}, "How to read it. "),
      "A level is the latency that is exceeded once per horizon of use on average, on the worst of the CPUs measured; in brackets its 95 % interval. ",
      "Where the recordings do not support a level there is none, and the remark says why. The largest seen is a measurement, not a forecast, and nothing here is a bound. ",
      "Valid for the recorded load only.",
    ),
  );
}

function ofLoad(load: LoadForecast): HTMLElement {
  const remarks: string[] = [];
  const mark = (texts: string[]) =>
    texts
      .map((text) => {
        if (!remarks.includes(text)) remarks.push(text);
        return letter(remarks.indexOf(text));
      })
      .sort()
      .join(", ");
  const { usage, services } = load;
  const horizons = services[0]?.cells ?? [];
  const hours = { hour: 1, day: usage.hours_per_day, week: usage.hours_per_day * usage.days_per_week };
  const table = {
    head: ["service", "largest seen", ...horizons.map(({ horizon }) => `${horizon} (${Number(hours[horizon].toFixed(1))} h)`)],
    rows: services.map((service) => [lineName(service), atLeast(service.largest_is_at_least, timeOrDash(service.largest_ns)), ...service.cells.map((cell) => inCell(cell, mark))]),
  };
  const periodic = sharedPeriods(services).map(
    ({ names, clearest: { period_ns, hits, p } }) =>
      `${names.join(", ")}: something comes every ${meanTime(period_ns)}, seen ${count(hits)} times (by chance in any service: p at most ${Math.max(p, 0.001).toFixed(3)}).`,
  );
  const use = `${usage.hours_per_day} hours a day, ${usage.days_per_week} days a week, one measured hour for ${usage.compression} of it (${load.usage_from})`;
  return h(
    "div",
    {},
    ahead(load),
    assumed(load),
    load.advice.length > 0 && h("p", {}, load.advice.map(advised).join(" ")),
    tableElement(table, { caption: `${load.load}: ${meanTime(load.observed_ns)} observed; use: ${use}` }),
    remarks.length > 0 &&
      h(
        "details",
        {},
        h("summary", {}, `What the letters in brackets say (${letter(0)}${remarks.length > 1 ? ` to ${letter(remarks.length - 1)}` : ""})`),
        h("ul", { class: "remarks" }, ...remarks.map((text, index) => h("li", {}, `${letter(index)}: `, prose(text)))),
      ),
    howLong(load),
    periodic.length > 0 && h("ul", {}, ...periodic.map((text) => h("li", {}, text))),
    composed(load),
    load.notes.length > 0 && h("ul", {}, ...load.notes.map((note) => h("li", {}, prose(note)))),
  );
}

/** What is told without a model: the chance of a new largest, and what half and 9 of 10 horizons stay below. */
function ahead({ services }: LoadForecast): HTMLElement {
  const horizons = services[0]?.cells ?? [];
  const head = ["service", ...horizons.flatMap(({ horizon, ahead }) => [`new largest, ${horizon}`, ...ahead.stays_below.map(({ share }) => `${10 * share} of 10 stay below`)])];
  const rows = services.map((service) => [
    lineName(service),
    ...service.cells.flatMap(({ ahead }) => [
      chance(ahead),
      ...ahead.stays_below.map((one) => (one.bound_ns === null ? `record ${meanTime(one.record_ns)}` : atLeast(one.is_at_least, time(one.bound_ns)))),
    ]),
  ]);
  return tableElement({ head, rows }, { caption: "By ranks, no model: if the time to come is like the time recorded" });
}

/** The chance of a new largest, with which way it errs. */
function chance(ahead: Cell["ahead"]): string {
  const text = percent(ahead.new_largest);
  const isSure = isAlmostSure(ahead.new_largest);
  if (ahead.is_at_most) return ahead.is_at_least ? `~ ${text}` : `<= ${isSure ? "100 %" : text}`;
  return atLeast(ahead.is_at_least && !isSure, text);
}

/** What horizons stay below that the ranks do not bound, if the tail is no heavier than assumed. */
function assumed({ services }: LoadForecast): HTMLElement | false {
  const [first] = services;
  const shape = first?.cells[0]?.ahead.stays_below[0]?.assumed_shape;
  if (!first || shape === undefined) return false;
  const head = ["service", ...first.cells.flatMap(({ horizon, ahead }) => ahead.stays_below.map(({ share }) => `${10 * share} of 10 ${horizon}s`))];
  const rows = services.map((service) => [
    lineName(service),
    ...service.cells.flatMap(({ ahead }) => ahead.stays_below.map((one) => (one.assumed_ns === null ? `record ${meanTime(one.assumed_record_ns)}` : atLeast(ahead.is_at_least, time(one.assumed_ns))))),
  ]);
  const most = (10 ** shape).toFixed(1);
  return tableElement({ head, rows }, { caption: `Assumed, not seen: in ten times the time the largest is at most ${most} times as large (a tail of shape ${shape} or lighter). If so, these stay below` });
}

/** Whether a chance is told as a lower limit. */
const isAlmostSure = (chance: number) => 100 * chance > 99.9;

/** A chance, with as many digits as tell it from certainty. */
function percent(chance: number): string {
  const value = 100 * chance;
  if (isAlmostSure(chance)) return "> 99.9 %";
  if (value < 0.1) return "< 0.1 %";
  return `${value.toFixed(value >= 99 || value < 1 ? 1 : 0)} %`;
}

/** What limits these recordings, as `laggard forecast` says it. */
function advised({ words }: LoadForecast["advice"][number]): string {
  return `${words.charAt(0).toUpperCase()}${words.slice(1)}.`;
}

type Periodic = ServiceForecast["periodic"][number];

/** Each period once, told as it is clearest, with all services that have it, as `laggard forecast` does. */
function sharedPeriods(services: ServiceForecast[]): { names: string[]; clearest: Periodic }[] {
  const found: { names: string[]; clearest: Periodic }[] = [];
  for (const service of services) {
    const name = lineName(service);
    for (const source of service.periodic) {
      const known = found.find(({ clearest }) => Math.abs(clearest.period_ns / source.period_ns - 1) <= SAME_PERIOD);
      if (!known) {
        found.push({ names: [name], clearest: source });
        continue;
      }
      if (!known.names.includes(name)) known.names.push(name);
      if (source.hits > known.clearest.hits) known.clearest = source;
    }
  }
  return found;
}

function inCell(cell: Cell, mark: (texts: string[]) => string): string {
  if (!isTold(cell)) {
    const why = mark(cell.reasons_without_figures);
    return cell.at_most_ns === null ? `refused (${why})` : `at most ${time(cell.at_most_ns)} (${why})`;
  }
  const causes = cell.method === "by_cause" ? cell.causes : [];
  const rest = causes.length > SAID ? ` and ${causes.length - SAID} more` : "";
  const from = causes.length > 0 ? ` (${causes.slice(0, SAID).join("; ")}${rest})` : "";
  const told = [METHODS[cell.method] + from, ...cell.doubts_without_figures.map((doubt) => `doubt: ${doubt}`)];
  return `${time(cell.level_ns)} [${time(cell.low_ns)}, ${time(cell.high_ns)}] (${mark(told)})`;
}

/** How long to record for each horizon, where something is refused. */
function howLong({ services }: LoadForecast): HTMLElement | null {
  const without = new Map<string, number>();
  for (const cell of services.flatMap(({ cells }) => cells)) {
    if (!isTold(cell)) without.set(cell.horizon, cell.record_without_model_ns);
  }
  if (without.size === 0) return null;
  const parts = [...without].map(([horizon, ns]) => `${meanTime(ns)} in all for the ${horizon}`);
  return h("p", {}, `Without a model it takes recordings of ${parts.join(", ")}.`);
}

/** The second estimate, and whether the first agrees. */
function composed({ services }: LoadForecast): HTMLElement | null {
  const known = services.flatMap((service) => (service.composed ? [{ service, found: service.composed }] : []));
  if (known.length === 0) return null;
  const most = (who: string | null | undefined) => (who ? ` (most: ${who})` : "");
  const rows = known.map(({ service, found }) => [
    lineName(service),
    found.latency_ns === null ? "no bound" : time(found.latency_ns),
    time(found.blocking_ns) + most(found.blocked_by),
    time(found.above.reduce((sum, { time_ns }) => sum + time_ns, 0)) + most(found.above[0]?.who),
    time(found.own_ns),
    time(found.unexplained_ns),
    disagreement(service, found.latency_ns),
  ]);
  const head = ["service", "together", "not preemptible", "above it", "its own", "unexplained, left out", "beside the level"];
  return tableElement({ head, rows }, { caption: "Second estimate, by composition: what the pieces of late activations could make together", long: [2, 3, 6] });
}

/** What speaks against one of the two estimates. */
function disagreement({ largest_ns: largest, cells }: ServiceForecast, together: number | null): string {
  if (together === null) return "what is above it leaves it no time";
  // Latencies are kept to 16 ns.
  if (largest !== null && together < 0.999 * largest) return "less than the largest seen, which it does not explain";
  const longest = cells.findLast(isTold);
  if (!longest) return "-";
  if (together < longest.low_ns) return `DISAGREES with the ${longest.horizon}'s level: that takes pieces longer than any seen`;
  if (together > 3 * longest.high_ns) return `DISAGREES with the ${longest.horizon}'s level: the pieces seen could make far more together`;
  return `does not contradict the ${longest.horizon}'s level`;
}

/** a to z, then a1, b1 ... */
function letter(index: number): string {
  const round = Math.floor(index / 26);
  return String.fromCharCode(97 + (index % 26)) + (round > 0 ? round : "");
}
