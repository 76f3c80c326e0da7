//! Manifest at the start of a recording.

use laggard_measure::Probe;
use laggard_model::{
    Backend, Caveat, Clock, Host, LoadRun, Manifest, Nanos, ProbePlan, RowsOf, Service,
};

use crate::{Plan, system};

/// Default latency threshold: wakeups above it count as exceeding.
const DEFAULT_EXCEEDING: Nanos = Nanos::from_ms(1);

/// Returns the manifest of a recording of `plan` with this `probe`.
pub(crate) fn manifest(plan: &Plan, probe: &dyn Probe, load: Option<LoadRun>) -> Manifest {
    let pace = probe.pace();
    let (host, caveats) = machine(probe);
    let probe_plan = ProbePlan {
        period_ns: pace.period,
        every: pace.every,
        dither: pace.dither,
        seed: pace.seed,
        duration_ns: plan.duration,
        threshold_ns: plan.threshold.unwrap_or(DEFAULT_EXCEEDING),
        keep: plan.keep,
        held_awake: plan.hold_cpu_awake,
        stages: plan.stages.clone(),
        contexts: plan.contexts,
        timer: plan.drive.timer(),
        rows: RowsOf::Expiries,
    };
    let clock = Clock {
        name: system::CLOCK.into(),
        ..Clock::monotonic(probe.now(), wall_clock())
    };
    Manifest {
        command: plan.command.clone(),
        application: plan.application.clone(),
        load,
        host,
        caveats,
        ..Manifest::new(probe.backend(), probe_plan, clock, probe.lines().to_vec())
    }
}

/// Sets the start of the recording in `manifest` to `now`.
pub(crate) fn begin_at(manifest: &mut Manifest, now: Nanos) {
    manifest.clock.start_ns = now;
    manifest.clock.start_wall = wall_clock();
}

fn wall_clock() -> String {
    jiff::Zoned::now()
        .strftime("%Y-%m-%dT%H:%M:%S%.3f%:z")
        .to_string()
}

/// Returns the machine and the warnings about its settings. A script does not run on a machine.
fn machine(probe: &dyn Probe) -> (Host, Vec<Caveat>) {
    if probe.backend() == Backend::Fake {
        return (Host::default(), Vec::new());
    }
    let cpus = probe.lines().iter().map(|line| line.cpu).collect();
    let services: Vec<Service> = probe.lines().iter().map(|line| line.service).collect();
    system::identity(&cpus, &services)
}
