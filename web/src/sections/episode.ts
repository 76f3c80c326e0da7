// One episode: activity of the CPU, stages and call chains.

import type { CustomSeriesOption } from "echarts/charts";
import { axisLook, base, type Option } from "../chart";
import type { Episode } from "../data";
import { h, select, type Table } from "../dom";
import { figure, type View } from "../figure";
import { count, instant, time } from "../format";
import { palette } from "../theme";
import type { Class } from "./classes";

interface Shown {
  one: Episode;
  /** Texts to which the episode refers by number. */
  texts: string[];
  label: string;
}

/** A stretch of a lane. */
interface Bar {
  lane: number;
  from: number;
  to: number;
  name: string;
  color: string;
}

const LANE = 34;
/** Room above the lanes for the names of stages, and below for scale and bar. */
const ABOVE = 80;
const BELOW = 104;
const SHORT = "several short parts";

export function episode(all: Shown[], leftOut: number, classes: Class[]): HTMLElement {
  let chosen = 0;
  const calls = h("div", { class: "calls" });
  const tellCalls = () => calls.replaceChildren(...callTree(all[chosen]!));
  const shown = figure({
    id: "episode",
    title: "Timeline of one late wakeup",
    height: 380,
    choices: [
      select(
        "Episode",
        all.map(({ one, label }) => `${label}${one.number}: ${one.name} on CPU ${one.cpu}, ${time(one.latency_ns)}, ${one.main}`),
        0,
        (index) => {
          chosen = index;
          shown.redraw();
          tellCalls();
        },
      ),
    ],
    reading: [
      "From the programmed expiry at the left to the first instruction of the service at the right (watched threads of a program: from the timer expiry or other event that woke them to the next sleep). Upper lane: class of the cause. Lanes below it: the thread on the CPU, and the interrupts, softirqs and functions that ran inside it.",
      "Dashed lines: stages of the wakeup. Drag the bar at the bottom to zoom in.",
      leftOut > 0
        ? `The report has the largest late wakeups of each service; ${count(leftOut)} more are in the recording (\`laggard why --episode N\`).`
        : "The report has every recorded late wakeup.",
    ],
    view: () => view(all[chosen]!, classes),
  });
  tellCalls();
  shown.element.querySelector("figcaption")!.before(calls);
  return shown.element;
}

function view(shown: Shown, classes: Class[]): View {
  const all = bars(shown, classes);
  const lanes = Math.max(...all.map(({ lane }) => lane)) + 1;
  return {
    words: words(shown, classes),
    option: option(shown.one, all, lanes),
    height: ABOVE + lanes * LANE + BELOW,
    table: table(shown, classes),
  };
}

function words({ one }: Shown, classes: Class[]): string {
  const totals = new Map<string, number>();
  const add = (said: string, ns: number) => totals.set(said, (totals.get(said) ?? 0) + ns);
  for (const { class: name, ns, others_ns: others = 0 } of one.slices) {
    add(name === null ? SHORT : wordsOf(name, classes), ns - others);
    if (others > 0) add(SHORT, others);
  }
  const parts = [...totals].sort(([, a], [, b]) => b - a).map(([name, ns]) => `${name} ${time(ns)}`);
  return `Episode ${one.number}: ${one.name} on CPU ${one.cpu}, ${time(one.latency_ns)} late, ${instant(one.at_ns)} after the start. ${parts.join("; ")}.`;
}

const wordsOf = (name: string, classes: Class[]) => classes.find((one) => one.class === name)?.words ?? name;

/** Class and context of each part. Adjacent equal parts are joined. */
function bars({ one, texts }: Shown, classes: Class[]): Bar[] {
  const { line, series, faint } = palette();
  const done: Bar[] = [];
  const open: Bar[] = [];
  const put = (bar: Bar) => {
    const last = open[bar.lane];
    if (last && last.to === bar.from && last.name === bar.name) {
      last.to = bar.to;
      return;
    }
    open[bar.lane] = bar;
    done.push(bar);
  };
  let at = 0;
  for (const slice of one.slices) {
    const to = at + slice.ns;
    const known = classes.find(({ class: name }) => name === slice.class);
    put({ lane: 0, from: at, to, name: known?.words ?? slice.class ?? SHORT, color: known?.color() ?? faint });
    for (const [depth, layer] of slice.layers.entries()) {
      const name = texts[layer]!;
      const color = depth > 0 ? series[5]! : name === "idle" ? line : series[2]!;
      put({ lane: depth + 1, from: at, to, name, color });
    }
    at = to;
  }
  return done;
}

function option(one: Episode, all: Bar[], lanes: number): Option {
  const { text, faint, ground } = palette();
  const laneName = (lane: number) => (lane === 0 ? "counts as" : lane === 1 ? "thread" : lane === 2 ? "within it" : "");
  const stages = Object.entries(one.stages_ns).sort(([, a], [, b]) => a - b);
  const series: CustomSeriesOption = {
    type: "custom",
    data: all.map(({ lane, from, to }) => [from, to, lane]),
    encode: { x: [0, 1], y: 2 },
    renderItem: (params, api) => {
      const bar = all[params.dataIndex]!;
      const area = params.coordSys as unknown as { x: number; y: number; width: number; height: number };
      const [x0, y] = api.coord([bar.from, bar.lane]) as [number, number];
      const [x1] = api.coord([bar.to, bar.lane]) as [number, number];
      const left = Math.max(x0, area.x);
      const width = Math.max(Math.min(x1, area.x + area.width) - left, 0.5);
      if (x1 < area.x || x0 > area.x + area.width) return null;
      const shape = { x: left, y: y - LANE / 2 + 3, width, height: LANE - 6 };
      return {
        type: "group",
        children: [
          { type: "rect", shape, style: { fill: bar.color, opacity: 0.5, stroke: ground, lineWidth: 1 } },
          {
            type: "text",
            silent: true,
            x: left + 5,
            y,
            style: {
              text: width > 30 ? bar.name : "",
              fill: text,
              fontSize: 12,
              verticalAlign: "middle",
              width: width - 10,
              overflow: "truncate",
            },
          },
        ],
      };
    },
    markLine: {
      silent: true,
      symbol: "none",
      lineStyle: { color: text, type: "dashed", width: 1 },
      label: { color: text, rotate: 0, position: "start", fontSize: 11 },
      data: spread(stages, one.latency_ns).map(([name, at, row]) => ({
        xAxis: at,
        label: { formatter: name, distance: 4 + 14 * row },
      })),
    },
  };
  const look = axisLook("since the expiry", 28);
  return {
    ...base(),
    grid: { left: 84, right: 32, top: ABOVE, height: lanes * LANE },
    xAxis: {
      ...look,
      type: "value",
      min: 0,
      max: one.latency_ns,
      axisLabel: { ...look.axisLabel, formatter: (ns: number) => (ns === 0 ? "0" : time(ns)), showMaxLabel: false },
    },
    yAxis: {
      type: "category",
      inverse: true,
      data: Array.from({ length: lanes }, (_, lane) => laneName(lane)),
      axisLabel: { color: text },
      axisTick: { show: false },
      axisLine: { show: false },
    },
    dataZoom: [{ type: "slider", bottom: 8, height: 26, filterMode: "none", textStyle: { color: faint }, labelFormatter: (ns: number) => time(ns) }],
    series: [series],
    tooltip: {
      ...base().tooltip,
      trigger: "item",
      formatter: (item) => {
        const bar = all[(Array.isArray(item) ? item[0]! : item).dataIndex]!;
        return `${bar.name}\n${time(bar.to - bar.from)}, from ${time(bar.from)} on`;
      },
    },
  };
}

/** Rows of stage labels: as many as a thread has stages. */
const ROWS = 5;

/** Labels of stages that come together go above each other, in rows. */
function spread(stages: [string, number][], latency: number): [string, number, number][] {
  const ends: number[] = [];
  return stages.map(([name, at]) => {
    let row = ends.findIndex((end) => end < at / latency);
    if (row < 0) row = Math.min(ends.length, ROWS - 1);
    ends[row] = at / latency + 0.07;
    return [name, at, row];
  });
}

/** Observed call chains, with equal ones merged. */
function callTree({ one, texts }: Shown): HTMLElement[] {
  if (one.samples.length === 0) return [h("p", {}, "No call chain was sampled in this episode.")];
  const chains = new Map<string, { frames: string[]; at: number[] }>();
  for (const { frames, after_ns } of one.samples) {
    const names = frames.map((frame) => texts[frame]!);
    const key = frames.join(" ");
    const known = chains.get(key) ?? { frames: names, at: [] };
    known.at.push(after_ns);
    chains.set(key, known);
  }
  const item = ({ frames, at }: { frames: string[]; at: number[] }) =>
    h(
      "li",
      {},
      `${count(at.length)} ${at.length === 1 ? "sample" : "samples"}, at ${time(at[0]!)}: `,
      frames.length > 0 ? h("code", {}, frames.join(" < ")) : "no call chain",
    );
  const sorted = [...chains.values()].sort((a, b) => b.at.length - a.at.length);
  const left = one.samples_left_out;
  return [
    h(
      "details",
      {},
      h("summary", {}, `Call chains of episode ${one.number}: ${count(one.samples.length)} samples, innermost function first`),
      h("ul", {}, ...sorted.map(item)),
      left > 0 && h("p", {}, `${count(left)} more samples are in the recording.`),
    ),
  ];
}

function table({ one, texts }: Shown, classes: Class[]): Table {
  let at = 0;
  return {
    head: ["from (ns)", "takes (ns)", "of it in short parts of others (ns)", "counts as", "who", "what ran"],
    rows: one.slices.map(({ ns, others_ns: others = 0, class: name, who, layers }) => {
      const row = [
        at,
        ns,
        name === null ? ns : others,
        name === null ? SHORT : wordsOf(name, classes),
        who === undefined ? "" : texts[who]!,
        layers.map((layer) => texts[layer]!).join(" > "),
      ];
      at += ns;
      return row;
    }),
  };
}
