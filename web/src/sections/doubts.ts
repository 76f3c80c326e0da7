// Losses, warnings and overhead: trustworthiness of the figures.

import type { Charts, PageData, Recording } from "../data";
import { h, prose, section, tableElement } from "../dom";
import { bytes, count, time } from "../format";

export function doubts({ report, charts }: PageData): HTMLElement {
  const several = report.recordings.length > 1;
  return section(
    "doubts",
    "Losses, warnings and overhead",
    ...report.recordings.map((recording, index) =>
      h(
        "article",
        {},
        several && h("h3", {}, `[${index + 1}] ${recording.path}`),
        losses(charts[index]!),
        caveats("Missing from the recording", charts[index]!.missing, several),
        caveats("Warnings", [...recording.caveats.map(({ what, advice }) => `${what}; ${advice}`), ...charts[index]!.doubts], several),
        cost(recording),
      ),
    ),
    h(
      "p",
      { class: "reading" },
      h("strong", {}, "How to read it. "),
      "Losses: wakeups, or stages of wakeups, that happened but are missing from the figures. Warnings: conditions that limit what the figures mean. ",
      "Overhead: CPU time, memory and disk space that the measurement took.",
    ),
  );
}

function losses({ lost, losses }: Charts): HTMLElement {
  const rows = losses.map(({ words, times }) => [words, count(times)]);
  const lostOnes = `${count(lost)} wakeup${lost === 1 ? "" : "s"} lost`;
  return tableElement({ head: ["reason", "times"], rows }, { caption: `Losses: ${lostOnes}` });
}

/** Below a recording's own heading where there are several. */
function caveats(title: string, texts: string[], several: boolean): HTMLElement | null {
  if (texts.length === 0) return null;
  const item = (text: string) => h("li", {}, prose(text));
  return h("div", {}, h(several ? "h4" : "h3", {}, title), h("ul", {}, ...texts.map(item)));
}

function cost({ cost }: Recording): HTMLElement {
  if (cost.wall_ns === 0) return h("p", {}, "Overhead: unknown (the recording was not ended).");
  const share = (ns: number) => `${((100 * ns) / cost.wall_ns).toFixed(2)} %`;
  const bpf = cost.programs.reduce((sum, { run_ns }) => sum + run_ns, 0);
  const programs = cost.programs
    .filter(({ runs }) => runs > 0)
    .map(({ name, runs, run_ns }) => [name, count(runs), time(Math.floor(run_ns / runs)), share(run_ns)]);
  const rows = [
    ["CPU time, of one CPU", share(cost.measuring_cpu_ns + cost.other_cpu_ns + bpf)],
    ["measuring threads", share(cost.measuring_cpu_ns)],
    ["BPF programs", share(bpf)],
    ["collecting and writing", share(cost.other_cpu_ns)],
    ["written", bytes(cost.written_bytes)],
    ["resident", bytes(cost.resident_bytes)],
    ["page faults while measuring", count(cost.measuring_faults)],
  ];
  return h(
    "div",
    {},
    tableElement({ head: ["resource", "used"], rows }, { caption: "Overhead" }),
    programs.length > 0 &&
      h(
        "details",
        {},
        h("summary", {}, `Overhead of each of ${count(programs.length)} BPF programs`),
        tableElement({ head: ["program", "runs", "each run", "of one CPU"], rows: programs }, { caption: "BPF programs" }),
      ),
  );
}
