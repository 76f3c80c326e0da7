//! The manifest of a recording that begins.

use laggard_measure::Probe;
use laggard_measure::host::{self, Files, Rights};
use laggard_measure::linux;
use laggard_model::{Backend, Caveat, Clock, Host, Keep, LoadRun, Manifest, Nanos, Plan, Service};

use crate::args::{KeepArg, RecordArgs};

/// The latency from which on an activation is shown as exceeding, unless
/// asked otherwise.
const EXCEEDING: Nanos = Nanos::from_ms(1);

pub(super) fn manifest(
    args: &RecordArgs,
    probe: &dyn Probe,
    load: Option<LoadRun>,
    duration: Option<Nanos>,
    seed: u64,
) -> Manifest {
    let (host, caveats) = machine(probe);
    let plan = Plan {
        period_ns: args.period,
        dither: !args.no_dither,
        seed,
        duration_ns: duration,
        threshold_ns: args.threshold.unwrap_or(EXCEEDING),
        keep: match args.keep {
            KeepArg::All => Keep::All,
            KeepArg::Tail => Keep::Tail,
        },
        held_awake: args.hold_cpu_awake,
        stages: args.stages.as_ref().map(|stages| stages.0.clone()),
    };
    let clock = Clock::monotonic(probe.now(), wall_clock());
    Manifest {
        command: std::env::args_os()
            .map(|arg| arg.to_string_lossy().into_owned())
            .collect(),
        load,
        host,
        caveats,
        ..Manifest::new(probe.backend(), plan, clock, probe.lines().to_vec())
    }
}

/// Makes `manifest` one of a recording that begins at `now`.
pub(super) fn begin_at(manifest: &mut Manifest, now: Nanos) {
    manifest.clock.start_ns = now;
    manifest.clock.start_wall = wall_clock();
}

fn wall_clock() -> String {
    jiff::Zoned::now()
        .strftime("%Y-%m-%dT%H:%M:%S%.3f%:z")
        .to_string()
}

/// The machine, and what of it spoils latency. A script has no machine.
fn machine(probe: &dyn Probe) -> (Host, Vec<Caveat>) {
    if probe.backend() == Backend::Fake {
        return (Host::default(), Vec::new());
    }
    let files = Files::default();
    let host = host::identify(&files);
    let cpus = probe.lines().iter().map(|line| line.cpu).collect();
    let services: Vec<Service> = probe.lines().iter().map(|line| line.service).collect();
    let mut caveats = host::caveats(&host, &Rights::of_this_process(), &cpus, &services);
    caveats.extend(linux::inherited());
    (host, caveats)
}
