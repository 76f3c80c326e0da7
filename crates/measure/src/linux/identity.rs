//! PID of this process as the kernel knows it, and whether both have the same time.

use std::fs;

use laggard_bpf::object::ObjectRefused;
use laggard_model::Nanos;

use super::programs::values;
use super::{clock, objects};

/// This process as BPF programs see it.
#[derive(Clone, Copy, Debug)]
pub struct Identity {
    /// PID (TGID) in the initial PID namespace, as in every stack sample. In a container
    /// `std::process::id()` returns another.
    pub process: u32,
    /// PID under `/proc`, if `/proc` is mounted.
    own_in_proc: Option<u32>,
    /// Offset of the kernel's clock from [`clock::now`] beyond the time to read both; zero if
    /// they agree.
    clock_differs_by: Nanos,
}

impl Identity {
    /// Asks the kernel.
    ///
    /// # Errors
    ///
    /// Returns an error if the kernel accepts no BPF programs.
    pub fn own() -> Result<Self, ObjectRefused> {
        let loaded = objects::IDENTITY.load(&[], &[], |_| Ok(()))?;
        let nobody = values::Identity::default();
        let before = clock::now();
        let answer = loaded.call_with("identify", &nobody)?;
        let after = clock::now();
        let now = Nanos::from_ns(answer.now_ns);
        Ok(Self {
            process: answer.process,
            own_in_proc: fs::read_link("/proc/self")
                .ok()
                .and_then(|link| link.to_str()?.parse().ok()),
            clock_differs_by: before.saturating_sub(now) + now.saturating_sub(after),
        })
    }

    /// # Errors
    ///
    /// Returns the reason if the kernel's clock and the clock of this process disagree.
    pub(super) fn check_clock(&self) -> Result<(), String> {
        match self.clock_differs_by {
            Nanos::ZERO => Ok(()),
            by => Err(format!(
                "CLOCK_MONOTONIC of this process differs from the kernel's by {:.3} s, and /proc/self/timens_offsets does not show it (a time namespace without /proc?)",
                by.as_secs_f64()
            )),
        }
    }

    /// Returns the PID of `process` in `/proc`. `None` if it is unknown, because `/proc` belongs to
    /// a PID namespace (a container) and the process is not this one.
    pub fn in_proc(&self, process: u32) -> Option<u32> {
        match self.own_in_proc {
            Some(own) if own == self.process => Some(process),
            own => own.filter(|_| process == self.process),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_this_process_is_found_under_proc_in_a_container() {
        let identity = |own_in_proc| Identity {
            process: 4711,
            own_in_proc,
            clock_differs_by: Nanos::ZERO,
        };

        for (own_in_proc, process, expected) in [
            (Some(4711), 4711, Some(4711)),
            (Some(4711), 12, Some(12)),
            (Some(3), 4711, Some(3)),
            (Some(3), 12, None),
            (None, 4711, None),
        ] {
            let identity = identity(own_in_proc);
            assert_eq!(
                identity.in_proc(process),
                expected,
                "{process} of {own_in_proc:?}"
            );
        }
    }

    #[test]
    fn different_clocks_are_reported_with_the_offsets_file() {
        let identity = Identity {
            process: 1,
            own_in_proc: None,
            clock_differs_by: Nanos::from_ms(5_000_250),
        };

        let reason = identity.check_clock().unwrap_err();

        assert!(
            reason.contains("differs from the kernel's by 5000.250 s"),
            "{reason}"
        );
    }
}
