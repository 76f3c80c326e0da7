//! Causes of late cycles, during the measurement.

use std::time::{Duration, Instant};

use laggard_answer::attach::{AttachChosen, AttachCollector};
use laggard_measure::linux::{self, FlightError, FlightOptions, FlightRecorder, FlightRings};
use laggard_measure::{Flight as _, LiveNames};
use laggard_model::{Caveat, CaveatKind, Nanos};
use laggard_session::EpisodesChoice;

use super::live::AttachLive;
use super::on_late::AttachOnLate;
use super::recording::AttachRecording;
use crate::args::AttachArgs;

/// Time for the analysis of cycles per look, which is a fifth of the time between two looks: an
/// analysis takes some hundred microseconds.
const ANALYSIS_TIME: Duration = Duration::from_millis(20);
/// The same after the measurement.
const LAST_ANALYSIS_TIME: Duration = Duration::from_secs(2);
/// Cycles that are analysed per look in any case.
const MIN_EXPLAINED: usize = 10;
/// Maximum number of cycles that wait for their analysis.
const MAX_POSTPONED: usize = 1_024;
/// Time until a cycle that waits is left out: newer events overwrite its trace data.
pub(super) const MAX_WAIT: Nanos = Nanos::from_secs(10);

/// Flight recorder with the names of its threads and functions.
pub(super) struct LateWatch {
    flight: Option<FlightRecorder>,
    pub(super) names: LiveNames,
}

impl LateWatch {
    /// Starts the flight recorder if the user wants it, over `rings` if the programs of the probe
    /// record. Returns warnings if it is not available or incomplete.
    pub(super) fn start(
        args: &AttachArgs,
        rings: Option<FlightRings>,
    ) -> anyhow::Result<(Self, Vec<Caveat>)> {
        let options = FlightOptions {
            stacks_hz: Some(args.stack_rate).filter(|&rate| rate > 0),
        };
        let (flight, caveats) = match args.episodes {
            EpisodesChoice::Off => (None, Vec::new()),
            EpisodesChoice::On | EpisodesChoice::Auto => {
                let recorder = match rings {
                    Some(rings) => FlightRecorder::joined(rings, options, None),
                    None => FlightRecorder::new(&linux::online_cpus(), options, None),
                };
                match recorder {
                    Ok((flight, caveats)) => (Some(flight), caveats),
                    Err(err @ FlightError::Rate(_)) => return Err(err.into()),
                    Err(err) if args.episodes == EpisodesChoice::On => return Err(err.into()),
                    Err(err) => {
                        let caveat = Caveat::new(
                            CaveatKind::AbilityAbsent,
                            format!("no causes of late cycles: {err}"),
                            "`laggard doctor` lists what this kernel supports",
                        );
                        (None, vec![caveat])
                    }
                }
            }
        };
        let names = LiveNames::read();
        Ok((Self { flight, names }, caveats))
    }

    /// Finds the causes of the cycles that ended since the last call, and of those that wait.
    /// `is_last`: no call follows.
    pub(super) fn explain(
        &mut self,
        seen: &mut AttachCollector,
        is_last: bool,
        mut recording: Option<&mut AttachRecording>,
        mut live: Option<&mut AttachLive>,
        mut on_late: Option<&mut AttachOnLate>,
    ) {
        seen.learn_processes(&mut self.names);
        let chosen = seen.choose();
        let Some(flight) = &mut self.flight else {
            for cycle in &chosen {
                if let Some(on_late) = &mut on_late {
                    on_late.note(cycle, &[]);
                }
                if let Some(live) = live.as_mut().filter(|live| live.wants(cycle)) {
                    live.late(cycle, &[]);
                }
                if let Some(recording) = recording.as_mut().filter(|_| cycle.missed()) {
                    recording.leave_out(cycle);
                }
            }
            return;
        };
        flight.poll();
        let since = Instant::now();
        let time = if is_last {
            LAST_ANALYSIS_TIME
        } else {
            ANALYSIS_TIME
        };
        let oldest = linux::now().saturating_sub(MAX_WAIT);
        let mut postponed = Vec::new();
        for (place, cycle) in chosen.into_iter().enumerate() {
            let has_time =
                !cycle.is_left_out() && (place < MIN_EXPLAINED || since.elapsed() < time);
            let mut taken = Vec::new();
            if has_time {
                let evidence = |cpu, from, to| flight.evidence(cpu, from, to);
                taken = cycle.taken(evidence, &mut self.names);
                seen.explain(&cycle, &taken);
                if let Some(live) = live.as_mut().filter(|live| live.wants(&cycle)) {
                    live.late(&cycle, &taken);
                }
                if let Some(recording) = &mut recording {
                    recording.keep(&cycle, &taken, evidence);
                }
            }
            // An action does not wait for the causes.
            if let Some(on_late) = on_late.as_mut().filter(|_| !cycle.is_postponed()) {
                on_late.note(&cycle, &taken);
            }
            if has_time {
                continue;
            }
            let can_wait = !is_last && !cycle.is_left_out() && cycle.activation().done >= oldest;
            if can_wait && postponed.len() < MAX_POSTPONED {
                postponed.push(cycle);
                continue;
            }
            if let Some(live) = live.as_mut().filter(|live| live.wants(&cycle)) {
                live.left_out();
            }
            if let Some(recording) = &mut recording {
                recording.leave_out(&cycle);
            }
        }
        seen.postpone(postponed);
    }

    /// Shows late cycles that go on or are not counted yet, each once.
    pub(super) fn show_overdue(
        &mut self,
        overdue: &[AttachChosen],
        live: Option<&mut AttachLive>,
        on_late: Option<&mut AttachOnLate>,
    ) {
        let (mut live, mut on_late) = (live, on_late);
        for cycle in overdue {
            let live = live.as_mut().filter(|live| live.wants(cycle));
            let on_late = on_late.as_mut().filter(|on_late| on_late.wants(cycle));
            if live.is_none() && on_late.is_none() {
                continue;
            }
            let taken = self.flight.as_mut().map(|flight| {
                flight.poll();
                cycle.taken(
                    |cpu, from, to| flight.evidence(cpu, from, to),
                    &mut self.names,
                )
            });
            let taken = taken.unwrap_or_default();
            if let Some(on_late) = on_late {
                on_late.note(cycle, &taken);
            }
            if let Some(live) = live {
                live.late(cycle, &taken);
            }
        }
    }

    /// Finds the causes of the cycles that did not end.
    pub(super) fn explain_unfinished(&mut self, collector: &mut AttachCollector) {
        if let Some(flight) = &mut self.flight {
            flight.poll();
            let evidence = |cpu, from, to| flight.evidence(cpu, from, to);
            collector.explain_unfinished(evidence, &mut self.names);
        }
    }

    /// Returns the number of context switches that the flight recorder missed. `None` without a
    /// recorder.
    pub(super) fn unseen_switches(&self) -> Option<u64> {
        self.flight.as_ref().map(|flight| flight.unseen_switches())
    }
}
