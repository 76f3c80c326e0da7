// Above the fold: what the machine does to an application, four numbers, a
// picture; and how far all that can be believed.

import { lineName, type Application, type Charts, type PageData, type Recording, type ServiceBuffers } from "../data";
import { h, section, tableElement } from "../dom";
import { atLeast, count, meanTime, quantile, roughTime, span, time, timeOrDash } from "../format";
import { curve, GOALS, refusal, type Figures } from "../qos/outlook";
import { type Buffering } from "../qos/replay";
import { differences } from "./differences";
import { distribution } from "./distribution";

/** After the first picture is drawn, ms. */
const SOON = 20;
/** What no more than one in 1,000 exceeds. */
const RARE = 0.999;

/** What an application would see on one recording's machine. */
interface Answer {
  service: string;
  /** The figures, or why there are none. */
  own: Figures | string;
  waited: boolean;
}

export function overview(data: PageData): HTMLElement {
  const { recordings } = data.report;
  const application = data.buffers?.applications[0];
  const limit = application ? { ns: application.slack_ns, words: `slack of ${application.name}, ${time(application.slack_ns)}` } : null;
  const picture = distribution(data, limit);
  const facts = recordings.length > 1 ? beside(data, application) : one(data, application);
  return section("verdict", "In short", h("div", { class: picture ? "fold" : "" }, facts, picture));
}

/** One recording: the verdict, four numbers, and what was measured. */
function one(data: PageData, application: Application | undefined): HTMLElement {
  const recording = data.report.recordings[0];
  const charts = data.charts[0];
  if (!recording || !charts) return h("p", {}, "There is no recording.");
  const row = foremostRow(recording, charts);
  const verdict = h("p", { class: "machine-verdict" });
  const mean = h("dd", {}, "...");
  const about = h("dd", { class: "small" });
  if (application) {
    setTimeout(() => {
      const answer = answerOf(data, recording, charts.foremost, application);
      tellVerdict(verdict, application, answer);
      const { large, small } = meanWords(answer);
      mean.textContent = large;
      about.textContent = small;
    }, SOON);
  }
  const rare = row?.latency.quantiles.find(({ q }) => q === RARE);
  return h(
    "div",
    { class: "facts" },
    h("p", { class: "conditions" }, conditions(recording)),
    distrust(recording),
    application && verdict,
    row &&
      h(
        "dl",
        { class: "numbers" },
        number("median", quantile(row.latency.quantiles[0] ?? {})),
        number("1 in 1,000 is later than", quantile(rare ?? {})),
        number("largest seen", atLeast(row.latency.largest_is_at_least, timeOrDash(row.latency.largest_ns))),
        application && h("div", {}, h("dt", {}, `${application.name} runs dry`), mean, about),
      ),
    row && h("p", { class: "reading" }, `Latency of ${lineName(row)} on all CPUs: from the ${source(recording)} to its first instruction.`),
    measured(recording, charts),
  );
}

function number(name: string, value: string): HTMLElement {
  return h("div", {}, h("dt", {}, name), h("dd", {}, value));
}

/** Several recordings: the same numbers side by side, and what differs between their machines. */
function beside(data: PageData, application: Application | undefined): HTMLElement {
  const { recordings } = data.report;
  const rows = recordings.map((recording, index) => foremostRow(recording, data.charts[index]!));
  const line = (name: string, value: (index: number) => string) => [name, ...recordings.map((_, index) => value(index))];
  const figure = (value: (row: Recording["services"][number]) => string) => (index: number) => (rows[index] ? value(rows[index]) : "-");
  const table = (means: string[] | null) =>
    tableElement(
      {
        head: ["", ...recordings.map((_, index) => `[${index + 1}]`)],
        rows: [
          line("service", figure(lineName)),
          line("median", figure(({ latency }) => quantile(latency.quantiles[0] ?? {}))),
          line("1 in 1,000 is later than", figure(({ latency }) => quantile(latency.quantiles.find(({ q }) => q === RARE) ?? {}))),
          line("largest seen", figure(({ latency }) => atLeast(latency.largest_is_at_least, timeOrDash(latency.largest_ns)))),
          ...(application ? [line(`${application.name} runs dry`, (index) => means?.[index] ?? "...")] : []),
        ],
      },
      { caption: "The most urgent thread of each", long: recordings.map((_, index) => index + 1) },
    );
  const place = h("div", {}, table(null));
  if (application) {
    setTimeout(() => {
      place.replaceChildren(
        table(recordings.map((recording, index) => meanOf(data, recording, data.charts[index]!, application))),
      );
    }, SOON);
  }
  return h(
    "div",
    { class: "facts" },
    h("ol", { class: "recordings" }, ...recordings.map((recording) => h("li", {}, h("strong", {}, recording.path), `: ${conditions(recording)}`, distrust(recording)))),
    place,
    differences(recordings),
  );
}

/** The mean time between failures in one line; recordings of one load are answered for together. */
function meanOf(data: PageData, recording: Recording, { foremost }: Charts, application: Application): string {
  const { large, small } = meanWords(answerOf(data, recording, foremost, application));
  const load = data.buffers?.loads.find(({ recordings }) => recordings.includes(recording.path));
  const together = load && load.recordings.length > 1 ? `all ${load.recordings.length} recordings of ${load.load} together` : "";
  return [large, small, together].filter((text) => text !== "").join("; ");
}

/** The service that stands for a recording. */
function foremostRow({ services }: Recording, { foremost }: Charts): Recording["services"][number] | undefined {
  return services.find((row) => lineName(row) === foremost);
}

const source = ({ caveats }: Recording) => (caveats.some(({ kind }) => kind === "external_source") ? "raise of the interrupt" : "programmed expiry");

/** `30 s under load fileio, 2 CPUs, Linux 6.18.44 (preemption: none), kvm guest`. */
function conditions({ duration_ns, load, host }: Recording): string {
  const under = load ? `under load ${load.name}` : "without a load of ours";
  const cpus = host.processor.threads;
  const parts = [
    `${span(duration_ns)} ${under}`,
    cpus > 0 ? `${cpus} CPU${cpus === 1 ? "" : "s"}` : "",
    host.kernel === "" ? "" : `Linux ${host.kernel}${host.preemption ? ` (preemption: ${host.preemption})` : ""}`,
    host.hypervisor ? `${host.hypervisor} guest` : "",
  ];
  return parts.filter((part) => part !== "").join(", ");
}

/** What forbids to believe any of it, before all else. */
function distrust({ trust, backend }: Recording): HTMLElement | null {
  if (trust.verdict === "none") {
    return h("p", { class: "trust bad" }, h("strong", {}, "This measurement is not trustworthy. "), trust.why.join("; ") + ".");
  }
  return backend === "fake" ? h("p", { class: "trust bad" }, h("strong", {}, "Not a measurement. "), "A script was played.") : null;
}

/** How the measurement went; that it can be trusted is no praise of the machine. */
function measured({ cost, caveats }: Recording, { lost }: Charts): HTMLElement {
  const bpf = cost.programs.reduce((sum, { run_ns }) => sum + run_ns, 0);
  const share = (100 * (cost.measuring_cpu_ns + cost.other_cpu_ns + bpf)) / cost.wall_ns;
  const parts = [
    `${count(lost)} activation${lost === 1 ? "" : "s"} lost`,
    cost.wall_ns > 0 && `own cost ${share.toFixed(share < 10 ? 1 : 0)} % of one CPU`,
    `${count(caveats.length)} caveat${caveats.length === 1 ? "" : "s"}`,
  ].filter((part) => part !== false);
  return h("p", { class: "measured" }, `Measurement: ${parts.join(", ")} (`, h("a", { href: "#doubts" }, "details"), ").");
}

/** How the application fares with the service that stands for the recording. */
function answerOf({ buffers }: PageData, { path }: Recording, foremost: string | null, application: Application): Answer | null {
  const load = buffers?.loads.find(({ recordings }) => recordings.includes(path));
  const service = load?.services.find(({ name }) => name === foremost);
  if (!service) return null;
  return { service: service.name, own: ownFigures(service, application), waited: service.waited_ns !== null };
}

function ownFigures(service: ServiceBuffers, { buffers, buffer_ns: period, compute_ns: compute }: Application): Figures | string {
  const now: Buffering = { buffers, period, compute };
  return curve(service, now).find((point) => point.buffers === buffers)?.figures ?? refusal(service, now) ?? "not known";
}

/** The mean time between failures for the eye: the number, and its interval. */
function meanWords(answer: Answer | null): { large: string; small: string } {
  if (!answer || typeof answer.own === "string") return { large: "not known", small: answer ? "see Buffers" : "" };
  const { mttf, low, high, exposure, failures } = answer.own;
  if (answer.waited) return { large: "not known", small: "it was still waiting when measuring ended" };
  const limit = (ns: number) => (Number.isFinite(ns) ? roughTime(ns, 2) : "no end");
  if (mttf !== null) return { large: `every ${roughTime(mttf, 2)}`, small: `${limit(low)} to ${limit(high)} with 95 % confidence` };
  if (Number.isFinite(high)) return { large: `every ${limit(low)} to ${limit(high)}`, small: "95 % interval; too coarse for an estimate" };
  if (failures === null) return { large: `not known`, small: `${limit(low)} or more apart: too coarse for an estimate` };
  return { large: failures === 0 ? "not once" : "less than once", small: `in ${meanTime(exposure)} of CPU time; on average in ${limit(low)} or more` };
}

/** Fit, not fit, or not decided: by the 95 % interval, against one failure in an hour. */
function tellVerdict(place: HTMLElement, { name, slack_ns }: Application, answer: Answer | null): void {
  const hour = GOALS[0]![1];
  const own = answer === null || answer.waited || typeof answer.own === "string" ? null : answer.own;
  const as = `(run as ${answer?.service ?? "a thread"}, slack ${time(slack_ns)})`;
  const [kind, head, rest] =
    own !== null && own.high < hour
      ? ["bad", `Not fit for ${name}`, `: its buffers run dry more than once an hour ${as}.`]
      : own !== null && own.low >= hour
        ? ["good", `Fit for ${name}`, `: its buffers run dry less than once an hour ${as}.`]
        : ["open", `Not decided for ${name}`, `: this recording does not tell whether its buffers run dry more than once an hour ${as}.`];
  place.classList.add(kind);
  place.replaceChildren(h("strong", {}, head), rest);
}
