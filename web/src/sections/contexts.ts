// Deferred work while busy processes run, per service (Heubaum 1995, Tables 3
// to 5).

import { lineName, type Context, type ContextRow, type Contexts, type PageData } from "../data";
import { h, prose, section, tableElement } from "../dom";
import { atLeast, count, time, timeOrDash } from "../format";

/** What people call them, as `laggard show --all` does. */
const WORDS: Record<Context, string> = {
  any: "any context",
  worker: "kworker",
  boosted: "boosted thread",
  lent: "boosted by PI futex",
  niced: "boosted by nice",
  sliced: "boosted by slice",
  woken: "plain thread, asleep",
  plain: "plain thread, busy",
};

export function contexts({ report, charts }: PageData): HTMLElement | null {
  const all = report.recordings.flatMap(({ contexts, path }, index) => (contexts?.rows.length ? [{ contexts, path, index }] : []));
  if (all.length === 0) return null;
  const several = report.recordings.length > 1;
  return section(
    "contexts",
    "Latency of deferred work",
    ...all.map(({ contexts, path, index }) => h("article", {}, several && h("h3", {}, `[${index + 1}] ${path}`), ...asked(contexts, charts[index]!.contexts))),
    h(
      "p",
      { class: "reading" },
      h("strong", {}, "How to read it. "),
      "Each context does the same work again and again, next to processes that compute all the time on one CPU. ",
      "Any context: a softirq, in whichever thread runs. A boosted thread has a higher priority than the others while it waits for work. A plain thread has the priority of the others. Asleep: it is woken and waits for its turn. Busy: it computes like the others and finds the work when it gets the CPU. ",
      "Bumps: a context that waits in a queue is late by whole turns, so its latencies cluster one turn apart. A dash: no such clusters were found. ",
      "A dash for a quantile: too few samples.",
    ),
  );
}

function asked({ beside, rows }: Contexts, sentences: string[]): HTMLElement[] {
  const processes = beside.busy === 1 ? "1 busy process" : `${count(beside.busy)} busy processes`;
  const head = ["context", "service", "samples", "mean", "median", "p99", "max", "bumps every"];
  return [
    ...sentences.map((text) => h("p", { class: "sentence" }, prose(text))),
    tableElement({ head, rows: rows.map(row) }, { caption: `Next to ${processes} on CPU ${beside.cpu}`, long: [0, 1] }),
  ];
}

function row(one: ContextRow): string[] {
  return [
    WORDS[one.context],
    lineName(one),
    count(one.samples),
    atLeast(one.is_at_least, timeOrDash(one.mean_ns)),
    timeOrDash(one.median_ns),
    timeOrDash(one.p99_ns),
    atLeast(one.is_at_least, timeOrDash(one.largest_ns)),
    one.bumps ? time(one.bumps.every_ns) : "-",
  ];
}
