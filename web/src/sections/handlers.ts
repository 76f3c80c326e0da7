// What the kernel ran beside threads, late or not: who was not the problem.

import type { Handler, Handlers, HandlersTable, PageData } from "../data";
import { h, prose, section, tableElement } from "../dom";
import { count, span, time } from "../format";

/** A share below this is said to be less. */
const SMALLEST = 0.0001;

export function handlers({ report, charts }: PageData): HTMLElement | null {
  const all = charts.flatMap(({ handlers }, index) => (handlers ? [{ handlers, path: report.recordings[index]!.path, index }] : []));
  if (all.length === 0) return null;
  const several = report.recordings.length > 1;
  return section(
    "handlers",
    "What the kernel ran, late or not",
    ...all.map(({ handlers, path, index }) => h("article", {}, several && h("h3", {}, `[${index + 1}] ${path}`), ...counted(handlers))),
    h(
      "p",
      { class: "reading" },
      h("strong", {}, "How to read it. "),
      "Every run was counted, whether it made an activation late or not. Of 1,000 runs, 999 took at most the time in that column; of fewer it is not told. ",
      "What an interrupt takes while another handler runs is the interrupt's alone; what a handler calls is in both. ",
      "Its own: what is left of the longest at least, without what the hypervisor may have taken meanwhile.",
    ),
  );
}

function counted({ duration_ns, cpus, sentences, tables }: Handlers): HTMLElement[] {
  return [
    ...sentences.map((text) => h("p", { class: "sentence" }, prose(text))),
    h("p", {}, `Counted for ${span(duration_ns)} on ${count(cpus)} CPU${cpus === 1 ? "" : "s"}.`),
    ...tables.flatMap(one),
  ];
}

function one(table: HandlersTable): HTMLElement[] {
  const isStretched = table.rows.some(({ own_ns }) => own_ns !== undefined);
  const row = (one: Handler) => [
    one.who,
    count(one.count),
    share(one.share),
    one.p999_ns === undefined ? "-" : time(one.p999_ns),
    time(one.longest_ns),
    ...(isStretched ? [one.own_ns === undefined ? "" : `>= ${time(one.own_ns)}`] : []),
    String(one.longest_cpu),
    `${one.longest_after_start_s.toFixed(3)} s`,
  ];
  const head = [table.what, "times", "share of the CPUs", "1 in 1,000", "longest", ...(isStretched ? ["its own"] : []), "on CPU", "after"];
  const shown = tableElement({ head, rows: table.rows.map(row) }, { caption: table.caption, long: [0] });
  if (table.more_longest_ns === undefined) return [shown];
  const sorts = table.more === 1 ? "sort" : "sorts";
  const more = `${count(table.more)} more ${sorts}, none longer than ${time(table.more_longest_ns)}: \`laggard why --handlers --all\`.`;
  return [shown, h("p", {}, prose(more))];
}

function share(share: number): string {
  return share < SMALLEST ? "< 0.01 %" : `${(100 * share).toFixed(2)} %`;
}
