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
    "Who does deferred work",
    ...all.map(({ contexts, path, index }) => h("article", {}, several && h("h3", {}, `[${index + 1}] ${path}`), ...asked(contexts, charts[index]!.contexts))),
    h(
      "p",
      { class: "reading" },
      h("strong", {}, "How to read it. "),
      "Each was asked for work again and again, beside processes that compute without end on one CPU. ",
      "Any context: a softirq, whoever runs. A boosted thread is above the others while it waits for work; a plain one is one of them: asleep, it is woken and waits for its turn; busy, it computes as they do and finds the work when it has the CPU. ",
      "Bumps: who waits in a queue is late by so many whole turns, so latencies stand a turn apart; a dash: none were seen. ",
      "A dash for a quantile: the sample is too small to say.",
    ),
  );
}

function asked({ beside, rows }: Contexts, sentences: string[]): HTMLElement[] {
  const processes = beside.busy === 1 ? "1 busy process" : `${count(beside.busy)} busy processes`;
  const head = ["context", "service", "samples", "mean", "median", "p99", "max", "bumps every"];
  return [
    ...sentences.map((text) => h("p", { class: "sentence" }, prose(text))),
    tableElement({ head, rows: rows.map(row) }, { caption: `Beside ${processes} on CPU ${beside.cpu}`, long: [0, 1] }),
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
