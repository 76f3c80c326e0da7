//! BPF programs of a probe, or the warning of a probe without them.

use std::io;

use laggard_model::{Caveat, CaveatKind, Service};

use super::super::identity::Identity;
use super::super::programs::{Extent, Programs};
use super::system;
use crate::board::Stamps;
use crate::probe::ProbeError;

/// Backend of the measurement.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum BackendChoice {
    /// eBPF, or without it if it is not available.
    #[default]
    Best,
    /// Only eBPF.
    Bpf,
    /// Without eBPF: expiry and user stage.
    User,
}

/// Returns the programs, if they are `wanted` and available.
pub(super) fn load(
    wanted: BackendChoice,
    extent: Extent,
    services: &[Service],
    stamps: Stamps,
    caveats: &mut Vec<Caveat>,
) -> Result<Option<Programs>, ProbeError> {
    // Without a service there is nothing to stamp.
    if wanted == BackendChoice::User || services.is_empty() {
        return Ok(None);
    }
    match Programs::load(extent, services, stamps) {
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
            Ok(Some(programs))
        }
        Err(refused) if wanted == BackendChoice::Bpf => {
            Err(system("load the BPF programs", refused.reason))
        }
        Err(refused) => {
            caveats.push(Caveat::new(
                CaveatKind::NoBpf,
                format!(
                    "BPF is not available ({}), so only the stages expiry and user are measured",
                    refused.reason
                ),
                "run as root on a kernel with BTF; `laggard doctor` shows what is missing",
            ));
            Ok(None)
        }
    }
}
