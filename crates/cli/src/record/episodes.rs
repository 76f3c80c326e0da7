//! Keeping late activations with their evidence, while recording.

use std::path::Path;

use anyhow::Context as _;
use laggard_measure::linux::{FlightOptions, FlightRecorder};
use laggard_measure::{Probe, SymbolBook};
use laggard_model::{
    Backend, Batch, Caveat, CaveatKind, Cpu, Episode, EpisodeNotes, Line, Nanos, ProgramCost,
};
use laggard_record::{EpisodeSelector, EpisodeWriter, Threshold, WriteError};

use crate::args::{EpisodesArg, RecordArgs};

/// How much of the time before a late activation's expiry is kept: what was
/// already under way then often is the cause.
const BEFORE: Nanos = Nanos::from_ms(1);
/// The same after its end.
const AFTER: Nanos = Nanos::from_us(200);

/// Watches for late activations.
#[derive(Debug)]
pub(super) struct EpisodeWatch {
    flight: FlightRecorder,
    selector: EpisodeSelector,
    writer: EpisodeWriter,
    book: SymbolBook,
    cpus: Vec<Cpu>,
    overwritten: u64,
}

impl EpisodeWatch {
    /// Starts the flight recorder of the probe's CPUs, for the recording in
    /// `dir`. `None`: nothing to watch with, and a caveat says why.
    pub(super) fn start(
        args: &RecordArgs,
        dir: &Path,
        probe: &dyn Probe,
    ) -> anyhow::Result<(Option<Self>, Vec<Caveat>)> {
        let possible = probe.backend() == Backend::Bpf;
        match args.episodes {
            EpisodesArg::Off => return Ok((None, Vec::new())),
            EpisodesArg::Auto if !possible => return Ok((None, Vec::new())),
            EpisodesArg::On if !possible => {
                anyhow::bail!("episodes need eBPF; record as root, or use `--episodes off`")
            }
            EpisodesArg::Auto | EpisodesArg::On => {}
        }
        let cpus: Vec<Cpu> = probe.lines().iter().map(|line: &Line| line.cpu).collect();
        let options = FlightOptions {
            stacks_hz: Some(args.stack_rate).filter(|&rate| rate > 0),
        };
        let list = cpus.iter().copied().collect();
        let (flight, caveats) = match FlightRecorder::new(&list, options) {
            Ok(started) => started,
            Err(err) if args.episodes == EpisodesArg::On => {
                return Err(err).context("watch for late activations");
            }
            Err(err) => {
                let caveat = Caveat::new(
                    CaveatKind::AbilityAbsent,
                    format!("late activations are not explained: {err}"),
                    "`laggard doctor` lists what this kernel allows",
                );
                return Ok((None, vec![caveat]));
            }
        };
        let threshold = args
            .threshold
            .map_or(Threshold::Automatic, Threshold::Fixed);
        let watch = Self {
            flight,
            selector: EpisodeSelector::new(cpus.len(), threshold, args.max_episodes_per_minute),
            writer: EpisodeWriter::new(dir),
            book: SymbolBook::default(),
            cpus,
            overwritten: 0,
        };
        Ok((Some(watch), caveats))
    }

    /// Keeps what is late in a batch that was just drained.
    pub(super) fn observe(&mut self, batch: &Batch, now: Nanos) -> Result<(), WriteError> {
        self.flight.poll();
        let mut number = self.selector.kept();
        for late in self.selector.choose(batch) {
            number += 1;
            let cpu = self.cpus[usize::from(late.activation.line.0)];
            let mut episode = Episode::new(number, cpu, &late.activation, late.threshold);
            let from = episode.expiry_ns.saturating_sub(BEFORE);
            episode.evidence = self.flight.evidence(cpu, from, episode.end() + AFTER);
            self.overwritten += u64::from(episode.evidence.overwritten);
            self.book.note(&episode.evidence);
            self.writer.append(&episode)?;
        }
        let notes = self.notes();
        self.writer.flush(now, &notes)
    }

    fn notes(&self) -> EpisodeNotes {
        EpisodeNotes {
            overwritten: self.overwritten,
            ..self.selector.notes()
        }
    }

    /// What the flight recorder cost so far.
    pub(super) fn cost(&self, wall: Nanos) -> Vec<ProgramCost> {
        self.flight.cost(wall)
    }

    /// Looks up all names and writes what waits.
    pub(super) fn finish(self) -> Result<(), WriteError> {
        let notes = EpisodeNotes {
            symbols: self.book.resolve(),
            ..self.notes()
        };
        drop(self.flight);
        self.writer.finish(&notes)
    }
}
