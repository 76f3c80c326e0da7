// Who made activations late: ranking, periodic sources, flame graph, episodes.

import type { Cause, Causes, PageData, Rhythm, Why } from "../data";
import { h, prose, section, select, tableElement } from "../dom";
import { figure } from "../figure";
import { flame } from "../flame";
import { count, meanTime, percent, time } from "../format";
import { classesOf, type Class } from "./classes";
import { episode } from "./episode";

/** Sentences before the table. */
const SAID = 2;

export function causes(data: PageData): HTMLElement | null {
  const all = data.charts.flatMap(({ causes }, index) => (causes && causes.why.episodes > 0 ? [{ causes, index }] : []));
  if (all.length === 0) return null;
  const classes = classesOf(data);
  const several = data.report.recordings.length > 1;
  const label = (index: number) => `[${index + 1}] ${data.report.recordings[index]!.path}`;
  return section(
    "causes",
    "Who made it late",
    ...all.map(({ causes, index }) =>
      h("article", {}, several && h("h3", {}, label(index)), whoMadeItLate(causes)),
    ),
    flames(all.map(({ causes, index }) => ({ causes, label: label(index) })), classes),
    episode(
      all.flatMap(({ causes, index }) =>
        causes.episodes.map((one) => ({ one, texts: causes.texts, label: several ? `[${index + 1}] ` : "" })),
      ),
      all.reduce((sum, { causes }) => sum + causes.left_out, 0),
      classes,
    ),
  );
}

/** A time, as a lower limit if it is one: what had not ended when measuring did. */
function atLeast(isAtLeast: boolean | undefined, ns: number): string {
  return (isAtLeast ? ">= " : "") + time(ns);
}

/** The service that the first screen speaks of, with its order and shares; then all services. */
function whoMadeItLate(causes: Causes): HTMLElement {
  const { foremost, why, classes } = causes;
  if (!foremost) return h("div", {}, ranking(why, classes), periodic(why, classes));
  return h(
    "div",
    {},
    h("p", { class: "sentence" }, h("strong", {}, `${foremost.head}.`)),
    ranking(foremost.why, classes),
    periodic(foremost.why, classes),
    h("details", {}, h("summary", {}, `All services: ${count(why.episodes)} late activations`), ranking(why, classes), periodic(why, classes)),
  );
}

function ranking(why: Why, classes: Causes["classes"]): HTMLElement {
  const words = (name: string) => classes.find((one) => one.class === name)?.words ?? name;
  const row = (cause: Cause) => [
    words(cause.class),
    cause.who ?? "",
    cause.cpus.join(", "),
    `${count(cause.episodes)} of ${count(why.episodes)}`,
    cause.per_hour < 10 ? cause.per_hour.toFixed(1) : count(Math.round(cause.per_hour)),
    time(cause.total_ns),
    `${percent(Math.round(cause.share * 1000) / 1000)} %`,
    atLeast(cause.is_at_least, cause.largest_ns),
    atLeast(cause.largest_without_is_at_least, cause.largest_without_ns),
  ];
  const lost = [
    why.surplus > 0 && `${count(why.surplus)} more late activations were not kept with who caused them.`,
    why.overwritten > 0 && `Of ${count(why.overwritten)} episodes, evidence had been overwritten.`,
    why.unseen_switches !== null &&
      why.unseen_switches > 0 &&
      `${count(why.unseen_switches)} switches of threads were not seen, at least: what ran between is not known.`,
    ...why.shortfalls.map(({ what }) => `${what}.`),
  ].filter((text) => text !== false);
  const said = why.sentences.map((sentence) => h("p", { class: "sentence" }, prose(sentence)));
  return h(
    "div",
    { class: "ranking" },
    ...said.slice(0, SAID),
    tableElement(
      {
        head: ["class", "who", "CPU", "in episodes", "an hour", "total", "share", "largest", "largest seen without it"],
        rows: why.causes.map(row),
      },
      { caption: "Causes, those with most time first", words: 3, long: [1] },
    ),
    said.length > SAID &&
      h("details", {}, h("summary", {}, said.length - SAID === 1 ? "1 more sentence about them" : `${count(said.length - SAID)} more sentences about them`), ...said.slice(SAID)),
    why.more_causes > 0 && h("p", {}, prose(`${count(why.more_causes)} more, each smaller: \`laggard why --top\`.`)),
    lost.length > 0 && h("p", {}, lost.join(" ")),
    h(
      "p",
      { class: "reading" },
      h("strong", {}, "How to read it. "),
      "An episode is an activation later than its line's threshold. Its latency is divided among causes without remainder, so the totals add up to the time of all episodes; ",
      "own interrupt and wakeup is the way that every activation goes. The last column: how late the latest of them would have been, had the cause taken no time.",
    ),
  );
}

function periodic(why: Why, classes: Causes["classes"]): HTMLElement {
  const found = why.causes.filter(({ rhythm }) => rhythm !== null);
  if (found.length === 0) {
    return h("p", {}, "Among the causes with most time, none comes with a period that chance does not explain.");
  }
  const words = (name: string) => classes.find((one) => one.class === name)?.words ?? name;
  return tableElement(
    {
      head: ["what", "every", "seen when due", "by chance"],
      rows: found.map(({ class: name, who, rhythm }) => [
        who === null ? words(name) : `${words(name)}: ${who}`,
        meanTime(rhythm!.period_ns) +
          (rhythm!.period_error_ns === null ? "" : ` ± ${time(rhythm!.period_error_ns)}`) +
          spell(rhythm!),
        `${count(rhythm!.hits)} of ${count(rhythm!.due)}`,
        rhythm!.p < 0.001 ? "p < 0.001" : `p ${rhythm!.p.toFixed(3)}`,
      ]),
    },
    { caption: "What comes again and again" },
  );
}

/** From when to when a rhythm was there, where that is less than the recording. */
function spell({ none_before_ns: from, none_after_ns: to }: Rhythm): string {
  const before = from === undefined ? "" : `, none before ${(Math.floor(from / 1e8) / 10).toFixed(1)} s`;
  const after = to === undefined ? "" : `, none after ${(Math.ceil(to / 1e8) / 10).toFixed(1)} s`;
  return before + after;
}

function flames(all: { causes: Causes; label: string }[], classes: Class[]): HTMLElement {
  const names = classes.map(({ words }) => words);
  const make = (index: number) => flame(all[index]!.causes.flame, names, () => shown.redraw());
  let now = flame(all[0]!.causes.flame, names, () => shown.redraw());
  let chosen = 0;
  const choose = (index: number) => {
    chosen = index;
    now = make(index);
    shown.redraw();
  };
  const shown = figure({
    id: "flame",
    title: "Where the time of all episodes went",
    choices: all.length > 1 ? [select("Recording", all.map(({ label }) => label), 0, choose)] : [],
    reading: [
      "Width is time. Below all episodes come the classes, below these who it was, and below that the functions that were running, each called by the one above it.",
      "Choose a box to widen it, and one above to go back; with the keyboard, arrows walk, Enter widens and Escape shows all.",
      "A box that is wider than what is below it did the rest itself, or has no call chain.",
    ],
    view: () => ({
      words: now.words(),
      image: now.image,
      table: {
        head: ["path", "time (ns)", "share"],
        rows: paths(all[chosen]!.causes),
      },
    }),
  });
  return shown.element;
}

function paths({ flame }: Causes): (string | number)[][] {
  const rows: (string | number)[][] = [];
  const walk = (node: typeof flame, above: string) => {
    const path = above === "" ? node.name : `${above} > ${node.name}`;
    rows.push([path, node.ns, Number((node.ns / Math.max(flame.ns, 1)).toFixed(5))]);
    for (const child of node.within ?? []) walk(child, node === flame ? "" : path);
  };
  walk(flame, "");
  return rows;
}
