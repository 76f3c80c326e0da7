//! Keeping late activations with their evidence, while recording.
//!
//! The flight recorder overwrites what it has: evidence is copied at once, by
//! the collector. Writing it, and looking at the processes in it, may take as
//! long as a busy disk or a busy process does, and is for a thread.

use std::path::Path;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;

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

/// Episodes that may wait to be written; more are not kept. One takes some
/// ten kB.
const MOST_WAITING: usize = 256;

/// Watches for late activations.
#[derive(Debug)]
pub(super) struct EpisodeWatch {
    flight: FlightRecorder,
    selector: EpisodeSelector,
    jobs: SyncSender<Job>,
    writer: JoinHandle<Written>,
    cpus: Vec<Cpu>,
    overwritten: u64,
    /// Late activations that were chosen and found no room.
    refused: u64,
}

/// What the thread that writes is asked.
#[derive(Debug)]
enum Job {
    Keep(Box<Episode>),
    Flush(Nanos, EpisodeNotes),
}

/// What that thread leaves.
type Written = Result<(EpisodeWriter, SymbolBook), WriteError>;

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
        let (jobs, taken) = sync_channel(MOST_WAITING);
        let writer = EpisodeWriter::new(dir);
        let watch = Self {
            flight,
            selector: EpisodeSelector::new(cpus.len(), threshold, args.max_episodes_per_minute),
            jobs,
            writer: std::thread::Builder::new()
                .name("laggard/episode".into())
                .spawn(move || write(writer, &taken))
                .context("start the thread that writes episodes")?,
            cpus,
            overwritten: 0,
            refused: 0,
        };
        Ok((Some(watch), caveats))
    }

    /// Keeps what is late in a batch that was just drained. Returns whether
    /// the thread still writes; [`EpisodeWatch::finish`] says why not.
    pub(super) fn observe(&mut self, batch: &Batch, now: Nanos) -> bool {
        self.flight.poll();
        let mut number = self.selector.kept() - self.refused;
        for late in self.selector.choose(batch) {
            let cpu = self.cpus[usize::from(late.activation.line.0)];
            let mut episode = Episode::new(number + 1, cpu, &late.activation, late.threshold);
            let from = episode.expiry_ns.saturating_sub(BEFORE);
            episode.evidence = self.flight.evidence(cpu, from, episode.end() + AFTER);
            let overwritten = episode.evidence.overwritten;
            match self.jobs.try_send(Job::Keep(Box::new(episode))) {
                Ok(()) => {
                    number += 1;
                    self.overwritten += u64::from(overwritten);
                }
                Err(_) => self.refused += 1,
            }
        }
        // Where there is no room for this either, the next one does it.
        let _ = self.jobs.try_send(Job::Flush(now, self.notes()));
        !self.writer.is_finished()
    }

    fn notes(&self) -> EpisodeNotes {
        let chosen = self.selector.notes();
        EpisodeNotes {
            overwritten: self.overwritten,
            kept: chosen.kept - self.refused,
            surplus: chosen.surplus + self.refused,
            ..chosen
        }
    }

    /// What the flight recorder cost so far.
    pub(super) fn cost(&self) -> Vec<ProgramCost> {
        self.flight.cost()
    }

    /// Looks up all names and writes what waits.
    pub(super) fn finish(self) -> Result<(), WriteError> {
        let notes = self.notes();
        drop(self.jobs);
        let (writer, book) = match self.writer.join() {
            Ok(written) => written?,
            Err(panic) => std::panic::resume_unwind(panic),
        };
        drop(self.flight);
        writer.finish(&EpisodeNotes {
            symbols: book.resolve(),
            ..notes
        })
    }
}

fn write(mut writer: EpisodeWriter, jobs: &Receiver<Job>) -> Written {
    let mut book = SymbolBook::default();
    while let Ok(job) = jobs.recv() {
        match job {
            Job::Keep(episode) => {
                book.note(&episode.evidence);
                writer.append(&episode)?;
            }
            Job::Flush(now, notes) => writer.flush(now, &notes)?,
        }
    }
    Ok((writer, book))
}
