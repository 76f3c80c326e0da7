// Losses, warnings and overhead: trustworthiness of the figures.

import type { Charts, PageData, Recording } from "../data";
import { h, prose, section, tableElement } from "../dom";
import { bytes, count, time } from "../format";

export function doubts({ report, charts }: PageData): HTMLElement {
  const several = report.recordings.length > 1;
  return section(
    "doubts",
    "Losses, caveats and own cost",
    ...report.recordings.map((recording, index) =>
      h(
        "article",
        {},
        several && h("h3", {}, `[${index + 1}] ${recording.path}`),
        losses(charts[index]!),
        caveats("Missing from the recording", charts[index]!.missing, several),
        caveats("Caveats", [...recording.caveats.map(({ what, advice }) => `${what}; ${advice}`), ...charts[index]!.doubts], several),
        cost(recording),
      ),
    ),
    h(
      "p",
      { class: "reading" },
      h("strong", {}, "How to read it. "),
      "A loss is an activation, or a stage of one, that happened and is not in the figures; zeros are shown too. A caveat leaves the figures true and says what they are true of. ",
      "Own cost is what measuring itself took from the machine.",
    ),
  );
}

function losses({ lost, losses }: Charts): HTMLElement {
  const rows = losses.map(({ words, times }) => [words, count(times)]);
  const lostOnes = `${count(lost)} activation${lost === 1 ? "" : "s"} lost`;
  return tableElement({ head: ["reason", "times"], rows }, { caption: `Losses: ${lostOnes}` });
}

/** Below a recording's own heading where there are several. */
function caveats(title: string, texts: string[], several: boolean): HTMLElement | null {
  if (texts.length === 0) return null;
  const item = (text: string) => h("li", {}, prose(text));
  return h("div", {}, h(several ? "h4" : "h3", {}, title), h("ul", {}, ...texts.map(item)));
}

function cost({ cost }: Recording): HTMLElement {
  if (cost.wall_ns === 0) return h("p", {}, "Own cost: not known (the recording has no end).");
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
    tableElement({ head: ["what", "cost"], rows }, { caption: "Own cost" }),
    programs.length > 0 &&
      h(
        "details",
        {},
        h("summary", {}, `What each of ${count(programs.length)} BPF programs cost`),
        tableElement({ head: ["program", "runs", "each run", "of one CPU"], rows: programs }, { caption: "BPF programs" }),
      ),
  );
}
