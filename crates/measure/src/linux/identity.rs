//! What the kernel calls this process, and whether it has the same time.

use std::fs;

use laggard_bpf::object::ObjectRefused;
use laggard_model::Nanos;

use super::programs::values;
use super::{clock, objects};

/// This process, as BPF programs know it.
#[derive(Clone, Copy, Debug)]
pub struct Identity {
    /// Its number (TGID) in the kernel's own PID namespace: that of every
    /// stack sample. In a container `std::process::id()` is another.
    pub process: u32,
    /// Its number under `/proc`, if that is mounted.
    own_in_proc: Option<u32>,
    /// By how much the kernel's clock is behind or ahead of [`clock::now`]
    /// beyond what reading them takes; zero where they agree.
    clock_differs_by: Nanos,
}

impl Identity {
    /// Asks the kernel.
    ///
    /// # Errors
    /// When it takes no BPF programs.
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
    /// When the kernel's clock and ours do not agree: the reason.
    pub(super) fn check_clock(&self) -> Result<(), String> {
        match self.clock_differs_by {
            Nanos::ZERO => Ok(()),
            by => Err(format!(
                "CLOCK_MONOTONIC of this process is {:.3} s away from the kernel's, and /proc/self/timens_offsets does not say so (a time namespace without /proc?)",
                by.as_secs_f64()
            )),
        }
    }

    /// The number under which `/proc` shows `process`; `None`: it cannot be
    /// told, because `/proc` is that of a PID namespace (a container) and the
    /// process is not this one.
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
    fn in_a_container_only_the_own_process_is_found_under_proc() {
        let identity = |own_in_proc| Identity {
            process: 4711,
            own_in_proc,
            clock_differs_by: Nanos::ZERO,
        };

        for (own_in_proc, process, found) in [
            (Some(4711), 4711, Some(4711)),
            (Some(4711), 12, Some(12)),
            (Some(3), 4711, Some(3)),
            (Some(3), 12, None),
            (None, 4711, None),
        ] {
            let of = identity(own_in_proc);
            assert_eq!(of.in_proc(process), found, "{process} of {own_in_proc:?}");
        }
    }

    #[test]
    fn clocks_that_differ_are_told_with_where_to_look() {
        let identity = Identity {
            process: 1,
            own_in_proc: None,
            clock_differs_by: Nanos::from_ms(5_000_250),
        };

        let reason = identity.check_clock().unwrap_err();

        assert!(
            reason.contains("5000.250 s away from the kernel's"),
            "{reason}"
        );
    }
}
