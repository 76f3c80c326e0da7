// Schedulability of the user's task set: the document of `laggard sched`.

import type { PageData } from "../data";
import { documentElements } from "../document";
import { h, section } from "../dom";

export function schedulability({ sched }: PageData): HTMLElement | null {
  if (sched.length === 0) return null;
  return section(
    "schedulability",
    "Schedulability of the tasks",
    ...sched.map(({ report, document }) => h("article", {}, sched.length > 1 && h("h3", {}, `Load: ${report.load}`), ...documentElements(document))),
  );
}
