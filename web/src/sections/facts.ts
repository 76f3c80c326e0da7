// Names and values of the measurement and its machine. All recordings have the
// same names.

import type { Charts, Host, Load, Recording } from "../data";
import { bytes, count, perSecond, span, time } from "../format";

/** Values that are compared word by word. */
export const COMMAND_LINE = "kernel command line";

/** A value is null or empty where it is not known. */
export type Fact = [name: string, value: string | null];

/** Period of the services. Unnamed services have the first period. */
function periods({ period_ns: period, every = {} }: Recording["plan"]): string {
  const seldom = Object.entries(every).map(([service, times]) => `, ${service} ${time(period * times)}`);
  return time(period) + seldom.join("");
}

/** Returns the parameters of the recording, and its machine. The start time is
 * shown elsewhere. */
export function facts({ host, plan, duration_ns, load, services, ...rest }: Recording, { measured_with }: Charts): Fact[] {
  return [
    ["lasted", `${span(duration_ns)}, ${ending(rest)}`],
    ["load", name(load)],
    ["load throughput", rate(load)],
    ["services", [...new Set(services.map(({ service }) => service))].join(", ")],
    ["period", `${periods(plan)}, ${plan.dither ? "dithered" : "not dithered"}`],
    ["threshold", time(plan.threshold_ns)],
    ["kept", plan.keep === "all" ? "every sample" : "histograms and the tail"],
    ["CPUs kept awake", plan.held_awake ? "yes, on request" : null],
    ["measured with", measured_with],
    ...machineLines(host),
  ];
}

function ending({ state }: Pick<Recording, "state">): string {
  switch (state.state) {
    case "complete":
      return "complete";
    case "running":
      return "not ended: still running, or killed";
    case "interrupted":
      return "ended early, on request";
    case "failed":
      return `failed: ${state.error}`;
  }
}

function name(load: Load | null): string {
  if (!load) return "none";
  return load.command.length > 0 ? load.command.join(" ") : load.name;
}

function rate(load: Load | null): string | null {
  const throughput = load?.throughput;
  if (!throughput || throughput.elapsed_ns === 0) return null;
  return perSecond(throughput.count / (throughput.elapsed_ns / 1e9), throughput.unit);
}

function some(number: number, what: string): string {
  return `${count(number)} ${what}${number === 1 ? "" : "s"}`;
}

function machineLines(host: Host): Fact[] {
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
    ["turbo", host.turbo === null ? null : host.turbo ? "on" : "off"],
    ["idle states", idle.join(", ")],
    ["isolated CPUs", host.isolation.isolated.join(", ")],
    ["microcode", processor.microcode],
    ["lockdown", host.lockdown],
    [COMMAND_LINE, host.command_line],
  ];
}
