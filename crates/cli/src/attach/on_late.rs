//! `attach --on-late`: actions on late cycles.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use laggard_answer::attach::{AttachChosen, AttachTaken, LateCycle};
use laggard_console::on_late::print_counts;
use laggard_measure::linux;
use laggard_model::text::Unit;
use laggard_model::{Caveat, Nanos, printable};
use laggard_session::{LateActions, LateCommandOutput, LateInput, OnLateError};
use laggard_view::attach::live;

use super::noted::NotedCycles;
use crate::args::AttachArgs;
use crate::{pipe, terminal};

/// Maximum age of a late cycle that is acted on. A cycle is older if its deadline was not known
/// when it ended.
const MAX_AGE: Nanos = Nanos::from_secs(1);

/// Actions on late cycles.
pub(super) struct AttachOnLate {
    actions: LateActions,
    /// Description of the cycle that was acted on last.
    last: String,
    noted: NotedCycles,
}

impl AttachOnLate {
    /// Prepares the actions. Returns `None` without actions.
    pub(super) fn start(
        args: &AttachArgs,
        interrupted: &Arc<AtomicBool>,
    ) -> Result<Option<Self>, OnLateError> {
        let actions = args
            .late
            .start(LateCommandOutput::StandardError, interrupted)?;
        Ok(actions.map(|actions| Self {
            actions,
            last: String::new(),
            noted: NotedCycles::default(),
        }))
    }

    /// Notes the start of the measurement.
    pub(super) const fn measure_from(&mut self, start: Nanos) {
        self.actions.measure_from(start);
    }

    /// Returns a warning if it traces events of the kernel.
    pub(super) fn caveat(&self) -> Option<Caveat> {
        self.actions.caveat()
    }

    /// Returns whether an action ended the measurement.
    pub(super) fn is_stopped(&self) -> bool {
        self.actions.is_stopped()
    }

    /// Returns whether the cycle is late and was not noted while it went on.
    pub(super) fn wants(&self, cycle: &AttachChosen) -> bool {
        let is_late = match self.actions.threshold() {
            Some(threshold) => cycle.activation().response() > threshold,
            None => cycle.missed(),
        };
        is_late && !self.noted.has(cycle)
    }

    /// Acts on a cycle if it is late. `taken` has the causes of its time, if they are known.
    pub(super) fn note(&mut self, cycle: &AttachChosen, taken: &[AttachTaken]) {
        let activation = cycle.activation();
        let latency = activation.response();
        let now = linux::now();
        if !self.wants(cycle) {
            return;
        }
        if cycle.passed() > 0 {
            return self.actions.skip_passed(cycle.passed());
        }
        self.noted.add(cycle);
        if now.saturating_sub(activation.done) > MAX_AGE {
            return self.actions.skip_old();
        }
        let has_acted = self.actions.act(1, (activation.done, latency), now, || {
            let json = pipe::json_line(&LateCycle::new(cycle, taken));
            LateInput {
                json: json.unwrap_or_default().into_bytes(),
                variables: vec![
                    ("LAGGARD_LATENCY_NS", latency.ns().to_string()),
                    ("LAGGARD_CPU", activation.first_cpu.to_string()),
                    (
                        "LAGGARD_SERVICE",
                        printable(&cycle.thread().name.to_string()).to_string(),
                    ),
                ],
            }
        });
        if has_acted {
            let after = activation
                .origin
                .saturating_sub(self.actions.measured_from());
            self.last = live::late(cycle, taken, after);
        }
    }

    /// Ends the actions, and prints their counts and the cycle that ended the measurement.
    pub(super) fn end(self) {
        let counters = self.actions.counters();
        print_counts(&self.actions.finish(), false, terminal::look(Unit::Auto));
        if counters.is_stopped() {
            pipe::say_as_it_is(&self.last);
        }
    }
}
