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
    "Handlers, late or not",
    ...all.map(({ handlers, path, index }) => h("article", {}, several && h("h3", {}, `[${index + 1}] ${path}`), ...documentElements(handlers))),
    h(
      "p",
      { class: "reading" },
      h("strong", {}, "How to read it. "),
      "Every run was counted, whether it made a wakeup late or not. Fewer than 1,000 runs have no p99.9. ",
      "Time of an interrupt within another handler counts for the interrupt only; time of a function that a handler calls counts for both. ",
      "max without steal: lower bound of the longest run, without possible steal time.",
    ),
  );
}
