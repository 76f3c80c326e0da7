// Services x figures (OSDI'99 Table 3), several recordings side by side.

import { lineName, type Figures, type PageData, type ServiceRow } from "../data";
import { h, section, tableElement, type Table } from "../dom";
import { atLeast, count, instant, quantile, quantileName, timeOrDash } from "../format";

export function services({ report, charts }: PageData): HTMLElement {
  const { recordings } = report;
  const several = recordings.length > 1;
  const caption = `Latency: from ${charts[0]?.beginning} to ${charts[0]?.ending}`;
  return section(
    "services",
    "Latency of each service",
    several ? beside(recordings.map(({ services }) => services)) : tableElement(table(recordings[0]!.services), { caption }),
    h(
      "p",
      { class: "reading" },
      h("strong", {}, "How to read it. "),
      "Services: interrupt, softirq, kworker and threads, the contexts that the kernel can run code in. p99.9: 1 of 1,000 wakeups has a larger latency. ",
      "Quantiles are at most 1.09 % high. A dash: too few samples. The max is a measurement, not a bound. min (served) leaves out missed expiries; all other figures include them. ",
      "Missed: the expiry passed while the service was still busy with an earlier one. Its latency is the time until the service ran next. ",
      ">=: lower limit, because a wakeup was still waiting at the end, or too many samples were lost. Two times: limits of a quantile, because samples were lost.",
    ),
  );
}

function figures({ min_ns, mean_ns, mean_is_at_least, deviation_ns, quantiles, largest_ns, largest_is_at_least }: Figures): string[] {
  return [
    timeOrDash(min_ns),
    atLeast(mean_is_at_least, timeOrDash(mean_ns)),
    timeOrDash(deviation_ns),
    ...quantiles.map(quantile),
    atLeast(largest_is_at_least, timeOrDash(largest_ns)),
  ];
}

/** If some expiries were missed, the minimum is based on fewer wakeups than the
 * other figures. */
function figureNames(rows: ServiceRow[]): string[] {
  const { quantiles } = rows[0]!.latency;
  return [rows.some(({ missed }) => missed > 0) ? "min (served)" : "min", "mean", "std dev", ...quantiles.map(({ q }) => quantileName(q)), "max"];
}

function table(rows: ServiceRow[]): Table {
  const first = rows[0];
  if (!first) return { head: ["service"], rows: [] };
  return {
    head: ["service", "samples", "missed", ...figureNames(rows), "at"],
    rows: rows.map((row) => [
      lineName(row),
      count(row.latency.samples),
      count(row.missed),
      ...figures(row.latency),
      row.latency.largest_at_ns === null ? "-" : instant(row.latency.largest_at_ns),
    ]),
  };
}

/** One table per service: figures down, recordings across. */
function beside(recordings: ServiceRow[][]): HTMLElement {
  const names = [...new Set(recordings.flat().map(lineName))];
  const tables = names.map((name) => {
    const rows = recordings.map((services) => services.find((row) => lineName(row) === name));
    const known = rows.filter((row) => row !== undefined);
    const line = (figure: string, value: (row: ServiceRow) => string) => [
      figure,
      ...rows.map((row) => (row ? value(row) : "-")),
    ];
    return tableElement(
      {
        head: ["figure", ...recordings.map((_, index) => `[${index + 1}]`)],
        rows: [
          line("samples", ({ latency }) => count(latency.samples)),
          line("missed", ({ missed }) => count(missed)),
          ...figureNames(known).map((figure, index) => line(figure, ({ latency }) => figures(latency)[index]!)),
        ],
      },
      { caption: name },
    );
  });
  return h("div", { class: "beside" }, ...tables);
}
