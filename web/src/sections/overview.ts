// Top of the report: the effect of the machine on an application, four numbers,
// a figure, and the trustworthiness of all of it.

import { lineName, type Application, type Charts, type Fit, type PageData, type Recording, type ServiceRow } from "../data";
import { conditions as heading, rest, verdicts } from "../summary";
import { h, section, tableElement } from "../dom";
import { atLeast, meanTime, quantile, roughTime, span, time, timeOrDash } from "../format";
import { differences } from "./differences";
import { distribution } from "./distribution";

const RARE = 0.999;

export function overview(data: PageData): HTMLElement {
  const { recordings } = data.report;
  const application = data.qos[0]?.application;
  const limit = application ? { ns: application.slack_ns, words: `slack of ${application.name}, ${time(application.slack_ns)}` } : null;
  const picture = distribution(data, limit);
  const facts = recordings.length > 1 ? beside(data, application) : one(data, application);
  const below = recordings.length === 1 && data.charts[0] ? rest(data.charts[0].summary) : [];
  return section("verdict", "Summary", h("div", { class: picture ? "fold" : "" }, facts, picture), ...below);
}

/** Returns the verdict, four numbers and the measurement of one recording. */
function one(data: PageData, application: Application | undefined): HTMLElement {
  const recording = data.report.recordings[0];
  const charts = data.charts[0];
  if (!recording || !charts) return h("p", {}, "The report contains no recording.");
  const row = foremostRow(recording, charts);
  const rare = row?.latency.quantiles.find(({ q }) => q === RARE);
  const fit = fitOf(data, 0, application);
  const { large, small } = meanWords(fit);
  return h(
    "div",
    { class: "facts" },
    heading(charts.summary),
    verdicts(charts.summary),
    row &&
      h(
        "dl",
        { class: "numbers" },
        number("median", quantile(row.latency.quantiles[0] ?? {})),
        number("p99.9", quantile(rare ?? {})),
        number("max", atLeast(row.latency.largest_is_at_least, timeOrDash(row.latency.largest_ns))),
        application && h("div", {}, h("dt", {}, `xruns of ${application.name}`), h("dd", {}, large), h("dd", { class: "small" }, small)),
      ),
    row && h("p", { class: "reading" }, reading(charts, row, fit)),
  );
}

/** Describes the source of the numbers. */
function reading({ beginning, ending }: Charts, row: ServiceRow, fit: Fit | undefined): string {
  const of = `Latency of ${lineName(row)} on all CPUs: from ${beginning} to ${ending}.`;
  if (!fit) return of;
  const { name, buffers, buffer_ns, slack_ns } = fit.application;
  return `${of} ${name}: ${buffers} buffers of ${time(buffer_ns)}, slack ${time(slack_ns)}, run as ${lineName(fit)}.`;
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
  const table = tableElement(
    {
      head: ["", ...recordings.map((_, index) => `[${index + 1}]`)],
      rows: [
        line("service", figure(lineName)),
        line("median", figure(({ latency }) => quantile(latency.quantiles[0] ?? {}))),
        line("p99.9", figure(({ latency }) => quantile(latency.quantiles.find(({ q }) => q === RARE) ?? {}))),
        line("max", figure(({ latency }) => atLeast(latency.largest_is_at_least, timeOrDash(latency.largest_ns)))),
        ...(application ? [line(`xruns of ${application.name}`, (index) => meanOf(fitOf(data, index, application)))] : []),
      ],
    },
    { caption: "The most urgent thread of each", long: recordings.map((_, index) => index + 1) },
  );
  return h(
    "div",
    { class: "facts" },
    h("ol", { class: "recordings" }, ...recordings.map((recording) => h("li", {}, h("strong", {}, recording.path), `: ${conditions(recording)}`, distrust(recording)))),
    table,
    differences(data),
  );
}

/** The verdict and the mean time between failures in one line. */
function meanOf(fit: Fit | undefined): string {
  const { large, small } = meanWords(fit);
  const word = fit ? { fit: "fit", not_fit: "not fit", unknown: "unknown" }[fit.verdict] : "";
  return [word, large, small].filter((text) => text !== "").join("; ");
}

/** The service that stands for a recording. */
function foremostRow({ services }: Recording, { foremost }: Charts): Recording["services"][number] | undefined {
  return services.find((row) => lineName(row) === foremost);
}

/** `30 s under load fileio, 2 CPUs, Linux 6.18.44 (preemption: none), kvm guest`. */
function conditions({ duration_ns, load, host }: Recording): string {
  const under = load ? `under load ${load.name}` : "no load";
  const cpus = host.processor.threads;
  const system = host.kernel.startsWith("Windows ") ? host.kernel : `Linux ${host.kernel}`;
  const parts = [
    `${span(duration_ns)} ${under}`,
    cpus > 0 ? `${cpus} CPU${cpus === 1 ? "" : "s"}` : "",
    host.kernel === "" ? "" : `${system}${host.preemption ? ` (preemption: ${host.preemption})` : ""}`,
    host.hypervisor ? `${host.hypervisor} guest` : "",
  ];
  return parts.filter((part) => part !== "").join(", ");
}

/** What forbids to believe any of it, before all else. */
function distrust({ trust, backend }: Recording): HTMLElement | null {
  if (trust.verdict === "none") {
    return h("p", { class: "trust bad" }, h("strong", {}, "This measurement is not trustworthy. "), trust.why.join("; ") + ".");
  }
  return backend === "fake" ? h("p", { class: "trust bad" }, h("strong", {}, "Not a measurement. "), "The recording was made from a script.") : null;
}

/** How the application fares with the service that would run it. */
function fitOf({ report }: PageData, index: number, application: Application | undefined): Fit | undefined {
  return report.overviews[index]?.fits.find((fit) => fit.application.name === application?.name);
}

/** The mean time between failures for the eye: the number, and its interval. */
function meanWords(fit: Fit | undefined): { large: string; small: string } {
  if (!fit) return { large: "unknown", small: "" };
  const { mttf_ns: mttf, mttf_low_ns: low, mttf_high_ns: high, exposure_ns: exposure, failures } = judged(fit);
  const where = fit.apart ? `on CPU${fit.apart.cpus.length === 1 ? "" : "s"} ${fit.apart.cpus.join(", ")}: ` : "";
  const least = roughTime(low, 2);
  const most = high === null ? "no end" : roughTime(high, 2);
  if (fit.waited_ns !== null) return { large: "unknown", small: "a wakeup was still waiting at the end" };
  if (mttf !== null) return { large: `every ${roughTime(mttf, digits(fit))}`, small: `${where}${least} to ${most} with 95 % confidence` };
  if (high !== null) return { large: `every ${least} to ${most}`, small: `${where}95 % interval; too coarse for an estimate` };
  if (failures === null) return { large: "unknown", small: `${least} or more apart: too coarse for an estimate` };
  return { large: failures === 0 ? "not once" : "less than once", small: `${where}in ${meanTime(exposure)} of CPU time; on average in ${least} or more` };
}

/** Returns the figures behind the verdict: those of conspicuous CPUs, otherwise
 * those of all. */
function judged(fit: Fit): Fit["figures"] {
  return fit.apart?.on ?? fit.figures;
}

/** Returns the number of digits that this number of clusters justifies, as in
 * the terminal. */
function digits(fit: Fit): number {
  const clusters = judged(fit).clusters ?? 0;
  return clusters < 10 ? 1 : clusters < 1000 ? 2 : 3;
}
