// The stages of one activation (OSDI'99 Fig. 1-3): a typical one and the worst.

import type { BarSeriesOption } from "echarts/charts";
import { axisLook, base, type Option } from "../chart";
import { foremostOf, lineName, type Course, type Example, type Figures, type PageData } from "../data";
import { section, select, type Table } from "../dom";
import { figure, type View } from "../figure";
import { axisTime, instant, time } from "../format";
import { palette } from "../theme";

const KINDS = ["typical", "worst"] as const;

export function stages({ report, charts }: PageData): HTMLElement | null {
  const several = report.recordings.length > 1;
  const shownCourses = charts.flatMap(({ courses }, recording) =>
    courses
      .filter(({ typical, worst }) => typical ?? worst)
      .map((course) => ({
        course,
        name: course.name,
        recording,
        label: several ? `${course.name} [${recording + 1}]` : course.name,
        latency: report.recordings[recording]!.services.find((row) => lineName(row) === course.name)?.latency,
      })),
  );
  if (shownCourses.length === 0) return null;
  let chosen = foremostOf(charts, shownCourses);
  const shown = figure({
    id: "timeline",
    title: "Stages of a typical and of the worst wakeup",
    height: 340,
    choices: [
      select("Service", shownCourses.map(({ label }) => label), chosen, (index) => {
        chosen = index;
        shown.redraw();
      }),
    ],
    reading: [
      "Above: a wakeup with the median latency. Below: the served wakeup with the largest latency. Both cover the whole latency, from the start of the first stage to the end of the last.",
      "The two scales differ. A stage that is wide below and narrow above delayed the late wakeup.",
    ],
    view: () => view(shownCourses[chosen]!.course, shownCourses[chosen]!.latency),
  });
  return section("stages", "Time in each stage", shown.element);
}

function view(course: Course, latency: Figures | undefined): View {
  const examples = KINDS.map((kind) => course[kind]);
  return { words: words(course, latency), option: option(examples), table: table(examples) };
}

function words({ name, typical, worst }: Course, latency: Figures | undefined): string {
  const one = (which: string, example: Example | null) => {
    if (!example) return `No ${which} wakeup of ${name} was kept.`;
    const longest = example.parts.reduce((a, b) => (b.ns > a.ns ? b : a));
    return `${which === "typical" ? "Typical" : "Worst served"}: ${time(example.latency_ns)} on CPU ${example.cpu}, ${instant(example.at_ns)} after the start; the longest stage is ${longest.name}, ${time(longest.ns)}.`;
  };
  const largest = latency?.largest_ns ?? 0;
  const least = latency?.largest_is_at_least ? "at least " : "";
  const missed = worst && largest > worst.latency_ns ? ` A missed expiry was later, ${least}${time(largest)}, without stages.` : "";
  return `${one("typical", typical)} ${one("worst", worst)}${missed}`;
}

function option(examples: (Example | null)[]): Option {
  // The table names the stages between which each lies.
  const names = [...new Set(examples.flatMap((example) => example?.parts.map(({ words }) => words) ?? []))];
  const { series: colors, ground } = palette();
  const series = examples.flatMap((example, row) =>
    names.map((name, index): BarSeriesOption => {
      const part = example?.parts.find(({ words }) => words === name);
      return {
        type: "bar",
        name,
        stack: `${row}`,
        xAxisIndex: row,
        yAxisIndex: row,
        barWidth: 34,
        color: colors[index % colors.length]!,
        itemStyle: { borderColor: ground, borderWidth: 1 },
        data: [part?.ns ?? 0],
      };
    }),
  );
  const look = axisLook("", 30);
  return {
    ...base(),
    legend: { ...base().legend, type: "plain", data: names },
    grid: [
      { left: 84, right: 28, top: 96, height: 60 },
      { left: 84, right: 28, top: 226, height: 60 },
    ],
    xAxis: examples.map((example, row) => ({
      ...look,
      gridIndex: row,
      type: "value",
      min: 0,
      max: example?.latency_ns ?? 1,
      name: row === 1 ? "since the expiry" : "",
      axisLabel: { ...look.axisLabel, formatter: (ns: number) => (ns === 0 ? "0" : axisTime(ns)) },
    })),
    yAxis: KINDS.map((kind, row) => ({
      type: "category",
      gridIndex: row,
      data: [kind],
      axisLabel: { color: palette().text },
      axisTick: { show: false },
      axisLine: { show: false },
    })),
    series,
    tooltip: {
      ...base().tooltip,
      trigger: "item",
      formatter: (item) => {
        const { seriesName, value } = Array.isArray(item) ? item[0]! : item;
        return `${seriesName}: ${time(value as number)}`;
      },
    },
  };
}

function table(examples: (Example | null)[]): Table {
  return {
    head: ["wakeup", "CPU", "stage", "duration (ns)", "ends at (ns)"],
    rows: examples.flatMap((example, row) => {
      let end = 0;
      return (example?.parts ?? []).map(({ name, ns }) => {
        end += ns;
        return [KINDS[row]!, example!.cpu, name, ns, end];
      });
    }),
  };
}
