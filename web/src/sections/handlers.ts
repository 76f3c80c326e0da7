// Handlers that the kernel ran outside threads, late or not.

import type { PageData } from "../data";
import { documentElements } from "../document";
import { h, section } from "../dom";

export function handlers({ report, charts }: PageData): HTMLElement | null {
  const all = charts.flatMap(({ handlers }, index) => (handlers ? [{ handlers, path: report.recordings[index]!.path, index }] : []));
  if (all.length === 0) return null;
  const several = report.recordings.length > 1;
  return section(
    "handlers",
    "Interrupt handlers, softirqs and work items",
    ...all.map(({ handlers, path, index }) => h("article", {}, several && h("h3", {}, `[${index + 1}] ${path}`), ...documentElements(handlers))),
    h(
      "p",
      { class: "reading" },
      h("strong", {}, "How to read it. "),
      "Every run is counted, also those that delayed no wakeup. p99.9 needs 1,000 runs. ",
      "Time of an interrupt within another handler counts for the interrupt only; time of a function that a handler calls counts for both. ",
      "max without steal: lower bound of the longest run, without possible steal time.",
    ),
  );
}
