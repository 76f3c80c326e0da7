//! To whom the time of late activations went, as they come.

use laggard_answer::attach::Attended;
use laggard_measure::linux::{self, FlightError, FlightOptions, FlightRecorder};
use laggard_measure::{Flight as _, LiveNames};
use laggard_model::{Caveat, CaveatKind};

use super::live::AttachLive;
use super::recording::AttachRecording;
use crate::args::{AttachArgs, EpisodesArg};

/// Activations of one look of which it is asked to whom their time went: each takes
/// some hundred microseconds.
const EXPLAINED: usize = 10;

/// Knows to whom the time of activations went.
pub(super) struct LateWatch {
    flight: Option<FlightRecorder>,
    pub(super) names: LiveNames,
}

impl LateWatch {
    /// Begins to record what each CPU does, as it is asked; why it does not, or what it
    /// lacks.
    pub(super) fn start(args: &AttachArgs) -> anyhow::Result<(Self, Vec<Caveat>)> {
        let options = FlightOptions {
            stacks_hz: Some(args.stack_rate).filter(|&rate| rate > 0),
        };
        let (flight, caveats) = match args.episodes {
            EpisodesArg::Off => (None, Vec::new()),
            EpisodesArg::On | EpisodesArg::Auto => {
                match FlightRecorder::new(&linux::online_cpus(), options, None) {
                    Ok((flight, caveats)) => (Some(flight), caveats),
                    Err(err @ FlightError::Rate(_)) => return Err(err.into()),
                    Err(err) if args.episodes == EpisodesArg::On => return Err(err.into()),
                    Err(err) => {
                        let caveat = Caveat::new(
                            CaveatKind::AbilityAbsent,
                            format!("late activations are not explained: {err}"),
                            "`laggard doctor` lists what this kernel allows",
                        );
                        (None, vec![caveat])
                    }
                }
            }
        };
        let names = LiveNames::read();
        Ok((Self { flight, names }, caveats))
    }

    /// Says to whom the time of those went that have come.
    pub(super) fn explain(
        &mut self,
        seen: &mut Attended,
        mut recording: Option<&mut AttachRecording>,
        mut live: Option<&mut AttachLive>,
    ) {
        let chosen = seen.choose();
        let Some(flight) = &mut self.flight else {
            for one in chosen.iter().filter(|one| one.missed()) {
                if let Some(live) = &mut live {
                    live.late(one, &[]);
                }
                if let Some(recording) = &mut recording {
                    recording.leave_out(one);
                }
            }
            return;
        };
        flight.poll();
        for (place, one) in chosen.iter().enumerate() {
            let evidence = |cpu, from, to| flight.evidence(cpu, from, to);
            if place < EXPLAINED {
                let taken = one.taken(evidence, &mut self.names);
                seen.explain(one, &taken);
                if let Some(live) = live.as_mut().filter(|_| one.missed()) {
                    live.late(one, &taken);
                }
            } else if let Some(live) = live.as_mut().filter(|_| one.missed()) {
                live.left_out();
            }
            match &mut recording {
                Some(recording) if place < EXPLAINED => recording.keep(one, evidence),
                Some(recording) => recording.leave_out(one),
                None => {}
            }
        }
    }

    /// Looks up where the time of cycles went that did not end.
    pub(super) fn explain_unfinished(&mut self, seen: &mut Attended) {
        if let Some(flight) = &mut self.flight {
            flight.poll();
            let evidence = |cpu, from, to| flight.evidence(cpu, from, to);
            seen.explain_unfinished(evidence, &mut self.names);
        }
    }

    /// Switches that the flight recorder did not see; `None`: there is none.
    pub(super) fn unseen_switches(&self) -> Option<u64> {
        self.flight.as_ref().map(|flight| flight.unseen_switches())
    }
}
