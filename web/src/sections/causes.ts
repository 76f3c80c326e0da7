// Causes of late wakeups: ranking, flame graph, episodes.

import type { Causes, PageData } from "../data";
import type { Document } from "../types";
import { documentElements } from "../document";
import { h, prose, section, select } from "../dom";
import { figure } from "../figure";
import { flame } from "../flame";
import { classesOf, type Class } from "./classes";
import { episode } from "./episode";

export function causes(data: PageData): HTMLElement | null {
  const all = data.charts.flatMap(({ causes }, index) => (causes && causes.series.length > 0 ? [{ causes, index }] : []));
  if (all.length === 0) return null;
  const classes = classesOf(data);
  const several = data.report.recordings.length > 1;
  const label = (index: number) => `[${index + 1}] ${data.report.recordings[index]!.path}`;
  return section(
    "causes",
    "Causes of late wakeups",
    ...all.map(({ causes, index }) =>
      h("article", {}, several && h("h3", {}, label(index)), ranked(causes)),
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

/** The first series with late wakeups, and the others below a summary. */
function ranked({ series, gaps }: Causes): HTMLElement {
  const ranking = (document: Document) => h("div", { class: "ranking" }, ...documentElements(document));
  const [first, ...others] = series;
  return h(
    "div",
    {},
    first && h("p", { class: "sentence" }, h("strong", {}, first.title)),
    first && ranking(first),
    ...others.map((document) => h("details", {}, h("summary", {}, document.title), ranking(document))),
    ...gaps.map((gap) => h("p", { class: "measured" }, prose(gap))),
    h(
      "p",
      { class: "reading" },
      h("strong", {}, "How to read it. "),
      "A wakeup is late if its latency is above the threshold of its series. The times of the causes add up to the latencies of all late wakeups. ",
      "max without it: the maximum latency of the series if the cause is removed.",
    ),
  );
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
    title: "Causes by time, all recorded late wakeups",
    choices: all.length > 1 ? [select("Recording", all.map(({ label }) => label), 0, choose)] : [],
    reading: [
      "Width is time. From top to bottom: all late wakeups, class of the cause, thread or interrupt, call chain.",
      "Click a box to zoom in, and a box above it to zoom out. Keyboard: arrows move, Enter zooms in, Escape shows everything.",
      "The part of a box without a box below it is time in that function itself, or time without a call chain.",
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
