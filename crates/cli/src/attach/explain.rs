//! To whom the time of late activations went, as they come.

use laggard_answer::attach::Attended;
use laggard_measure::linux::{self, FlightOptions, FlightRecorder};
use laggard_measure::{Flight as _, LiveNames};
use laggard_model::{Caveat, CaveatKind};

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
    pub(super) fn explain(&mut self, seen: &mut Attended) {
        let chosen = seen.choose(EXPLAINED);
        let Some(flight) = &mut self.flight else {
            return;
        };
        flight.poll();
        for one in chosen {
            let evidence = |cpu, from, to| flight.evidence(cpu, from, to);
            let taken = one.taken(evidence, &mut self.names);
            seen.explain(&one, &taken);
        }
    }
}
