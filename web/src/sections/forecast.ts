// Bounds and return levels of latencies: the documents of `laggard forecast`.

import type { PageData } from "../data";
import { documentElements } from "../document";
import { h, section } from "../dom";

export function forecast({ forecast }: PageData): HTMLElement | null {
  if (!forecast || forecast.report.loads.length === 0) return null;
  return section(
    "forecast",
    "Forecast",
    ...documentElements(forecast.short),
    h("details", {}, h("summary", {}, "Every horizon, return level and reason against one"), ...documentElements(forecast.full)),
  );
}
