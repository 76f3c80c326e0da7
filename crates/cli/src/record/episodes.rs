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
    cpus: Vec<Cpu>,
    kept: Option<Kept>,
}

/// The episodes of a recording.
#[derive(Debug)]
struct Kept {
    writer: EpisodeWriter,
    book: SymbolBook,
    overwritten: u64,
    /// What was chosen before the recording began.
    before: EpisodeNotes,
}

impl EpisodeWatch {
    /// Starts the flight recorder of the probe's CPUs. `None`: nothing to
    /// watch with, and a caveat says why.
    pub(super) fn start(
        args: &RecordArgs,
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
            cpus,
            kept: None,
        };
        Ok((Some(watch), caveats))
    }

    /// Keeps late activations in the recording in `dir` from now on.
    pub(super) fn record_into(&mut self, dir: &Path) {
        self.kept = Some(Kept {
            writer: EpisodeWriter::new(dir),
            book: SymbolBook::default(),
            overwritten: 0,
            before: self.selector.notes(),
        });
    }

    /// What is late in a batch that was just drained, with the evidence.
    /// Numbers are those of the recording; 0 where there is none.
    pub(super) fn observe(
        &mut self,
        batch: &Batch,
        now: Nanos,
    ) -> Result<Vec<Episode>, WriteError> {
        self.flight.poll();
        let mut number = self.selector.kept();
        let mut late = Vec::new();
        for one in self.selector.choose(batch) {
            number += 1;
            let before = self.kept.as_ref().map_or(number, |kept| kept.before.kept);
            let cpu = self.cpus[usize::from(one.activation.line.0)];
            let mut episode = Episode::new(number - before, cpu, &one.activation, one.threshold);
            let from = episode.expiry_ns.saturating_sub(BEFORE);
            episode.evidence = self.flight.evidence(cpu, from, episode.end() + AFTER);
            if let Some(kept) = &mut self.kept {
                kept.keep(&episode)?;
            }
            late.push(episode);
        }
        let notes = self.selector.notes();
        if let Some(kept) = &mut self.kept {
            let notes = kept.notes(notes);
            kept.writer.flush(now, &notes)?;
        }
        Ok(late)
    }

    /// What the flight recorder cost so far.
    pub(super) fn cost(&self, wall: Nanos) -> Vec<ProgramCost> {
        self.flight.cost(wall)
    }

    /// Looks up all names and writes what waits.
    pub(super) fn finish(self) -> Result<(), WriteError> {
        let notes = self.selector.notes();
        drop(self.flight);
        let Some(kept) = self.kept else {
            return Ok(());
        };
        let notes = EpisodeNotes {
            symbols: kept.book.resolve(),
            ..kept.notes(notes)
        };
        kept.writer.finish(&notes)
    }
}

impl Kept {
    fn keep(&mut self, episode: &Episode) -> Result<(), WriteError> {
        self.overwritten += u64::from(episode.evidence.overwritten);
        self.book.note(&episode.evidence);
        self.writer.append(episode)
    }

    fn notes(&self, all: EpisodeNotes) -> EpisodeNotes {
        EpisodeNotes {
            kept: all.kept.saturating_sub(self.before.kept),
            surplus: all.surplus.saturating_sub(self.before.surplus),
            overwritten: self.overwritten,
            ..all
        }
    }
}
