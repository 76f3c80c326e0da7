//! Programs or tracepoints that stamp the stages, or the warning of a probe without them.

use std::io;

use laggard_model::{Caveat, CaveatKind, Service, Stage};

use super::super::identity::Identity;
use super::super::programs::{Extent, Programs};
use super::super::reason_of;
use super::super::tracepoints::{Tracepoints, try_switches};
use super::system;
use crate::board::Stamps;
use crate::probe::ProbeError;

/// Backend of the measurement.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum BackendChoice {
    /// eBPF, otherwise perf tracepoints, otherwise neither.
    #[default]
    Best,
    /// Only eBPF.
    Bpf,
    /// Only perf tracepoints: the stages of threads on timers.
    Perf,
    /// Neither: expiry and user stage.
    User,
}

/// Method that stamps the stages of threads.
#[derive(Debug)]
pub(super) enum Stamping {
    Bpf(Box<Programs>),
    Perf(Tracepoints),
    /// Context switches of the measuring threads. They show the stage `running` without rights.
    Switches,
    None,
}

/// Returns the best method that is `wanted` and available. A device's interrupt (`is_timed` is
/// false) is visible only to BPF.
pub(super) fn load(
    wanted: BackendChoice,
    is_timed: bool,
    extent: Extent,
    services: &[Service],
    stamps: Stamps,
    caveats: &mut Vec<Caveat>,
) -> Result<Stamping, ProbeError> {
    // Without a service, stages do not exist.
    if wanted == BackendChoice::User || services.is_empty() {
        return Ok(Stamping::None);
    }
    let tracepoints = || {
        if is_timed {
            Tracepoints::new(stamps).map_err(|err| reason_of(&err))
        } else {
            Err("they do not show the interrupt of a device".into())
        }
    };
    if wanted == BackendChoice::Perf {
        return tracepoints()
            .map(Stamping::Perf)
            .map_err(|reason| system("record perf tracepoints", reason));
    }
    let refused = match Programs::load(extent, services, stamps) {
        Ok(programs) => {
            let identity = Identity::own().map_err(|refused| refused.reason);
            identity
                .and_then(|own| own.check_clock())
                .map_err(|reason| ProbeError::System {
                    action: "compare the clocks of threads and BPF programs".into(),
                    remedy: "mount /proc, or run outside the time namespace (`unshare --time`)"
                        .into(),
                    said: Some(io::Error::other(reason)),
                })?;
            return Ok(Stamping::Bpf(Box::new(programs)));
        }
        Err(refused) if wanted == BackendChoice::Bpf => {
            return Err(system("load the BPF programs", refused.reason));
        }
        Err(refused) => refused.reason,
    };
    match tracepoints() {
        Ok(tracepoints) => {
            caveats.push(Caveat::new(
                CaveatKind::AbilityAbsent,
                format!(
                    "BPF is not available ({refused}), so perf tracepoints measure the stages of threads; softirq, worker and the causes of late wakeups are not measured"
                ),
                "run on a kernel with BTF; `laggard doctor` shows what is missing",
            ));
            Ok(Stamping::Perf(tracepoints))
        }
        Err(reason) => {
            let switches = if is_timed && stamps.has(Stage::Running) {
                try_switches().is_ok()
            } else {
                false
            };
            let stages = if switches {
                "expiry, running and user"
            } else {
                "expiry and user, and the mean run delay,"
            };
            caveats.push(Caveat::new(
                CaveatKind::NoBpf,
                format!(
                    "neither BPF ({refused}) nor perf tracepoints ({reason}) are available, so only the stages {stages} are measured"
                ),
                "run as root; `laggard doctor` shows what is missing",
            ));
            Ok(if switches {
                Stamping::Switches
            } else {
                Stamping::None
            })
        }
    }
}
