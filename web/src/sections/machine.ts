// What was measured, and on what.

import type { Host, Load, PageData, Recording } from "../data";
import { definitions, h, section } from "../dom";
import { bytes, count, span, time } from "../format";

const BACKENDS = {
  bpf: "eBPF, all stages asked for",
  user: "no BPF: expiry and user stage only",
  tracer: "the timerlat tracer: expire and kthread stage",
  fake: "a script, not a measurement",
} as const;

export function machine({ report }: PageData): HTMLElement {
  return section(
    "machine",
    "The recording and its machine",
    h("div", { class: "columns" }, ...report.recordings.map((recording, index) => one(recording, index, report.recordings.length > 1))),
  );
}

function one(recording: Recording, index: number, several: boolean): HTMLElement {
  const { host, plan } = recording;
  return h(
    "article",
    {},
    h("h3", {}, several ? `[${index + 1}] ${recording.path}` : recording.path),
    definitions([
      ["began", recording.started],
      ["lasted", `${span(recording.duration_ns)}, ${ending(recording)}`],
      ["load", load(recording.load)],
      ["period", `${time(plan.period_ns)}, ${plan.dither ? "dithered" : "not dithered"}`],
      ["threshold", time(plan.threshold_ns)],
      ["kept", plan.keep === "all" ? "every sample" : "histograms and the tail"],
      ["measured with", BACKENDS[recording.backend]],
      ...machineLines(host),
    ]),
  );
}

function ending({ state }: Recording): string {
  switch (state.state) {
    case "complete":
      return "complete";
    case "running":
      return "no end: still running, or killed";
    case "interrupted":
      return "ended early, as asked";
    case "failed":
      return `failed: ${state.error}`;
  }
}

function load(load: Load | null): string {
  if (!load) return "none of ours";
  const name = load.command.length > 0 ? load.command.join(" ") : load.name;
  const { throughput } = load;
  if (!throughput || throughput.elapsed_ns === 0) return name;
  const rate = throughput.count / (throughput.elapsed_ns / 1e9);
  return `${name}, ${count(Math.round(rate))} ${throughput.unit} a second`;
}

function some(number: number, what: string): string {
  return `${count(number)} ${what}${number === 1 ? "" : "s"}`;
}

function machineLines(host: Host): [string, string | null][] {
  const { processor } = host;
  const governors = [...new Set(host.frequency.map(({ governor }) => governor))];
  const idle = host.idle.filter(({ disabled }) => !disabled).map(({ name, exit_ns }) => `${name} (${time(exit_ns)})`);
  return [
    ["machine", host.node],
    ["processor", `${processor.model}; ${some(processor.sockets, "socket")}, ${some(processor.cores, "core")}, ${some(processor.threads, "CPU")}`],
    ["memory", bytes(host.memory_bytes)],
    ["system", host.distribution],
    ["kernel", `${host.kernel} ${host.architecture}`],
    ["preemption", host.preemption],
    ["ticks a second", host.hz === null ? null : String(host.hz)],
    ["hypervisor", host.hypervisor],
    ["clock source", host.clocksource.current],
    ["frequency governor", governors.join(", ")],
    ["idle states", idle.join(", ")],
    ["lockdown", host.lockdown],
    ["kernel command line", host.command_line],
  ];
}
