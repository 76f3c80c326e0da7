// How bad it will get: what `laggard forecast` says, in its order and its words.

import type { ForecastTold, PageData, TableView } from "../data";
import { h, prose, section, tableElement } from "../dom";

export function forecast({ forecast, forecast_told: all }: PageData): HTMLElement | null {
  if (!forecast || all.length === 0) return null;
  const several = all.length > 1;
  return section(
    "forecast",
    "How bad it will get",
    ...all.map((load, index) => h("article", {}, several && h("h3", {}, `Load: ${forecast.loads[index]!.load}`), ofLoad(load))),
    h("p", { class: "reading" }, h("strong", {}, "How to read it. "), prose(all[0]!.rests_on), " The largest seen is a measurement, not a forecast. Valid for the recorded load only."),
  );
}

/** What needs no model first; then what is assumed; then the levels of a fit, or that there are none. */
function ofLoad(load: ForecastTold): HTMLElement {
  const { assumed, levels, doubted } = load;
  return h(
    "div",
    {},
    h("p", {}, `${load.what}; ${load.used}.`),
    ...load.warnings.map((text) => h("p", { class: "trust bad" }, prose(text))),
    table(load.chances, "The chance of a new largest, by ranks"),
    table(load.bounds, isBounded(load.bounds) ? "What they stay within, by ranks" : "The largest seen"),
    said(load.carried),
    assumed && table(assumed.table, assumed.words),
    levels && table(levels, "Levels of a fit, each exceeded once a horizon"),
    doubted !== null && said(doubted),
    said(load.fitted),
    ...load.advice.map(said),
    every(load),
  );
}

/** Every level or the reasons against it, and what else carries them. */
function every({ every, assumed }: ForecastTold): HTMLElement {
  return h(
    "details",
    {},
    h("summary", {}, "Every level of a fit, or the reasons against it"),
    table(every.table, "Levels, each exceeded once a horizon on average"),
    ...every.legend.map(said),
    h("ul", { class: "remarks" }, ...every.remarks.map((text) => h("li", {}, prose(text)))),
    assumed && said(assumed.explained),
    every.notes.length > 0 && h("ul", {}, ...every.notes.map((text) => h("li", {}, prose(text)))),
  );
}

/** Whether there is more in it than the names and the largest seen. */
const isBounded = ({ head }: TableView): boolean => head.length > 2;

const table = (view: TableView, caption: string): HTMLElement => tableElement(view, { caption });

const said = (text: string): HTMLElement => h("p", {}, prose(text));
