// Whether the user's task set can be scheduled, as `laggard sched` gives it.

import type { PageData, ResponseLimit, Sched, TaskVerdict } from "../data";
import { h, prose, section, tableElement } from "../dom";
import { meanTime, time } from "../format";

const VERDICTS = { meets: "meets", misses: "MISSES", unclear: "unclear" } as const;

export function schedulability({ sched }: PageData): HTMLElement | null {
  if (sched.length === 0) return null;
  return section(
    "schedulability",
    "Whether the tasks can be scheduled",
    ...sched.map((one) => h("article", {}, sched.length > 1 && h("h3", {}, `Load: ${one.load}`), ofLoad(one))),
    h(
      "p",
      { class: "reading" },
      h("strong", {}, "How to read it. "),
      "Worst response of each task: ideal, without latency; with the largest interrupt latency seen as release jitter and the largest of each later stage as blocking; ",
      "and with the blackouts seen in any window, at least and at most. Unclear: not shown to be met, for the reasons given below the table, which is no better than missed. ",
      "Latency is what was seen under this load, not a bound. One CPU, no migration.",
    ),
  );
}

function ofLoad(report: Sched): HTMLElement {
  const { tasks, set } = report;
  const failing = tasks.filter(({ verdict }) => verdict === "misses").map(({ name }) => name);
  const unclear = tasks.filter(({ verdict }) => verdict === "unclear").map(({ name }) => name);
  const isGood = failing.length + unclear.length === 0;
  const said = [
    isGood && "Every task meets its deadline with the latencies that were seen, and no more often late than permitted.",
    failing.length > 0 && `Misses: ${failing.join(", ")}.`,
    unclear.length > 0 && `Cannot be told: ${unclear.join(", ")}.`,
  ].filter((text) => text !== false);
  return h(
    "div",
    {},
    h("p", { class: `trust ${isGood ? "good" : "bad"}` }, h("strong", {}, said.join(" "))),
    tableElement(
      {
        head: ["task", "service", "work", "period", "deadline", "ideal", "jitter + blocking", "blackouts", "slack", "verdict"],
        rows: tasks.map(row),
      },
      { caption: `Load ${report.load}, ${meanTime(report.observed_ns)} observed`, words: 2 },
    ),
    h("ul", {}, ...tasks.flatMap((task) => [limits(task), ...task.doubts.map((doubt) => `${task.name} cannot be told: ${doubt}.`)].map((text) => h("li", {}, prose(text))))),
    h("p", {}, ofSet(set)),
    report.notes.length > 0 && h("ul", {}, ...report.notes.map((note) => h("li", {}, prose(note)))),
  );
}

const bound = (ns: number | null) => (ns === null ? "no bound" : time(ns));

function row(task: TaskVerdict): string[] {
  const slack = task.slack_ns === null ? "-" : (task.slack_ns < 0 ? "-" : "") + time(Math.abs(task.slack_ns));
  return [
    task.name,
    task.service,
    time(task.compute_ns),
    time(task.period_ns),
    time(task.deadline_ns),
    bound(task.ideal_ns),
    bound(task.jitter_ns),
    task.most_ns === null && task.verdict === "unclear" ? `${bound(task.least_ns)} or more` : `${bound(task.least_ns)} to ${bound(task.most_ns)}`,
    slack,
    VERDICTS[task.verdict],
  ];
}

/** The largest part of a response, in the words of `laggard sched`. */
function largestPart(limit: ResponseLimit): string {
  switch (limit.kind) {
    case "overload":
      return "an overload of the processor";
    case "blackouts":
      return `stalls, which leave too little of the processor (the longest seen: ${meanTime(limit.longest_ns)})`;
    case "stall":
      return `a stall that had lasted for ${time(limit.waited_ns)} when the recording ended, and went on`;
    case "work":
      return `its execution time, ${meanTime(limit.time_ns)}`;
    case "blocking":
      return `blocking, ${meanTime(limit.time_ns)}`;
    case "above":
      return `tasks that run before it, ${meanTime(limit.time_ns)}`;
    case "latency":
      return `latency, ${meanTime(limit.time_ns)}`;
  }
}

function unseen({ unseen }: ResponseLimit): string {
  if (!unseen) return "";
  if (unseen.kind === "unbounded") return "; the recording cannot bound the additional time";
  return `; the recording cannot rule out up to ${meanTime(unseen.time_ns)} more: a bound, not a measurement`;
}

function limits({ name, limit, pseudo, buffers }: TaskVerdict): string {
  const text = `${name}: the largest part of the response is ${largestPart(limit)}${unseen(limit)}.`;
  if (!pseudo) return text;
  const passes = (passes: boolean) => (passes ? "passes" : "fails");
  return (
    `${text} With ${buffers} buffers, rare latency ${time(pseudo.rare_ns)} (${pseudo.rare_from}), ordinary ${time(pseudo.ordinary_ns)}: ` +
    `exact test ${passes(pseudo.exact_passes)}; pseudo worst case ${time(pseudo.pseudo_worst_case_ns)} a cycle, amortised test ${passes(pseudo.amortised_passes)}.`
  );
}

function ofSet(set: Sched["set"]): string {
  const within = (holds: boolean) => (holds ? "within" : "above");
  const edf = (found: boolean | null) => (found === null ? "it cannot be decided" : found ? "no deadline is missed" : "some are missed");
  const bounds = set.bounds_apply
    ? `${within(set.utilization <= set.utilization_bound)} Liu & Layland's bound ${set.utilization_bound.toFixed(3)}; hyperbolic product ${set.hyperbolic_product.toFixed(3)}, ${within(set.hyperbolic_product <= 2)} 2`
    : "bounds on it do not apply (deadlines, blocking or priorities)";
  return (
    `Utilisation ${set.utilization.toFixed(3)}: ${bounds}. ` +
    `Breakdown utilisation: ${set.breakdown_ideal.toFixed(3)} without latency, ${set.all_kept ? "" : "at most "}${set.breakdown.toFixed(3)} with the blackouts ${set.all_kept ? "seen" : "kept"}. ` +
    `Earliest deadline first: ${edf(set.edf_ideal)} without latency, ${set.all_kept ? edf(set.edf) : "cannot be told"} with the longest blackout as blocking.`
  );
}
