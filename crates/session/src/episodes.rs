//! Recording of late wakeups with their trace data.
//!
//! The flight recorder overwrites its rings, so the collector copies trace data immediately. A
//! separate thread writes them and examines the processes in them, because a busy disk or a busy
//! process can block this work.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread::{JoinHandle, sleep};
use std::time::Duration;

use laggard_measure::{Flight, Probe};
use laggard_model::{
    Batch, Caveat, CaveatKind, Cpu, Episode, EpisodeNotes, Evidence, Line, LineId, Nanos,
    ProgramCost, Tid, Untraced,
};
use laggard_record::{
    EpisodeSelector, EpisodeWriter, FLUSH_EVERY, Folder, PassedExpiry, Threshold, WriteError,
};

use crate::handlers::HandlerWatch;
use crate::system::{self, SymbolBook, SymbolSource};
use crate::{EpisodesChoice, Plan, SessionError};

/// Time before the expiry of a late wakeup that is kept, because the cause often started earlier.
const BEFORE: Nanos = Nanos::from_ms(1);
/// Time after the end of a late wakeup that is kept.
const AFTER: Nanos = Nanos::from_us(200);

/// Watch for late wakeups.
#[derive(Debug)]
pub(crate) struct EpisodeWatch {
    flight: Box<dyn Flight>,
    symbols: SymbolSource,
    selector: EpisodeSelector,
    cpus: Vec<Cpu>,
    /// True for each line that the flight recorder covers.
    explained: Vec<bool>,
    /// Thread that is each line's service, if it has one.
    threads: Vec<Option<Tid>>,
    kept: Option<EpisodeQueue>,
    /// Counter of kernel activity outside threads, if requested.
    handlers: Option<HandlerWatch>,
}

/// Maximum number of episodes that wait to be written; more are not kept. One takes some
/// ten kB.
const MAX_WAITING: usize = 256;
/// Maximum number of episodes that wait because expiries may have passed during the first of
/// them. A thread that never wakes up again must not keep them from the disk.
const MAX_OPEN: usize = 64;
/// Maximum time that an episode waits for expiries that passed during it. They are known at
/// the next wakeup of its thread, which may be late in turn.
const MAX_OPEN_TIME: Nanos = Nanos::from_secs(30);
/// Interval between two checks whether the writing thread has ended.
const CHECK_INTERVAL: Duration = Duration::from_millis(10);

/// Episodes of a recording.
#[derive(Debug)]
struct EpisodeQueue {
    jobs: SyncSender<Job>,
    writer: JoinHandle<WriterResult>,
    /// Set at the end of the session, so that the thread does not wait for a process.
    hurry: Arc<AtomicBool>,
    /// Episodes in order of their numbers that the thread does not have yet. Expiries that passed
    /// during the first may follow, or the thread is busy.
    held: VecDeque<Episode>,
    overwritten: u64,
    /// Number of selected late wakeups without room, by line, and the late wakeups in them.
    refused: Vec<(u64, Untraced)>,
    /// Time of the last request to write.
    flushed_at: Option<Nanos>,
}

/// Job of the writing thread.
#[derive(Debug)]
enum Job {
    Keep(Box<Episode>),
    Flush(Nanos, Box<EpisodeNotes>),
}

/// Result of the writing thread.
type WriterResult = Result<(EpisodeWriter, SymbolBook), WriteError>;

impl EpisodeWatch {
    /// Starts the flight recorder of the probe's CPUs. `None`: it is not available, and a warning
    /// gives the reason.
    pub(crate) fn start(
        plan: &Plan,
        probe: &mut dyn Probe,
    ) -> Result<(Option<Self>, Vec<Caveat>), SessionError> {
        let possible = system::can_explain(probe);
        match plan.episodes {
            EpisodesChoice::Off if plan.handlers => return Err(SessionError::HandlersAlone),
            EpisodesChoice::Off => return Ok((None, Vec::new())),
            EpisodesChoice::Auto if !possible && !plan.handlers => return Ok((None, Vec::new())),
            EpisodesChoice::Auto | EpisodesChoice::On if !possible => {
                return Err(SessionError::NoEpisodes);
            }
            EpisodesChoice::Auto | EpisodesChoice::On => {}
        }
        let cpus: Vec<Cpu> = probe.lines().iter().map(|line: &Line| line.cpu).collect();
        let list = cpus.iter().copied().collect();
        let (flight, caveats) = match system::flight(&list, plan.stack_rate, probe) {
            Ok(started) => started,
            Err(err) if plan.episodes == EpisodesChoice::On || plan.handlers => {
                return Err(SessionError::Flight(err));
            }
            Err(err) => {
                let caveat = Caveat::new(
                    CaveatKind::AbilityAbsent,
                    format!("late wakeups have no causes: {err}"),
                    "`laggard doctor` shows what this kernel supports",
                );
                return Ok((None, vec![caveat]));
            }
        };
        let handlers = if plan.handlers {
            Some(HandlerWatch::new(&list, &plan.functions)?)
        } else {
            None
        };
        let threshold = plan
            .threshold
            .map_or(Threshold::Automatic, Threshold::Fixed);
        let watch = Self {
            flight,
            symbols: SymbolSource::of(probe),
            selector: EpisodeSelector::new(cpus.len(), threshold, plan.max_episodes_per_minute),
            explained: probe
                .lines()
                .iter()
                .map(|line| system::explains(line.service))
                .collect(),
            threads: (0..cpus.len())
                .map(|place| probe.thread_of(LineId::at(place)?))
                .collect(),
            cpus,
            kept: None,
            handlers,
        };
        Ok((Some(watch), caveats))
    }

    /// Starts to keep late wakeups in the recording in `folder`.
    pub(crate) fn record_into(&mut self, folder: &Folder) -> Result<(), SessionError> {
        self.selector.begin();
        if let Some(handlers) = &mut self.handlers {
            handlers.begin()?;
        }
        let (jobs, taken) = sync_channel(MAX_WAITING);
        let writer = EpisodeWriter::new(folder);
        let hurry = Arc::<AtomicBool>::default();
        let writer = std::thread::Builder::new()
            .name("laggard/episode".into())
            .spawn({
                let book = self.symbols.clone();
                let hurry = Arc::clone(&hurry);
                move || write(writer, book.book(hurry), &taken)
            })
            .map_err(|source| SessionError::Thread {
                what: " episodes",
                source,
            })?;
        self.kept = Some(EpisodeQueue {
            jobs,
            writer,
            hurry,
            held: VecDeque::new(),
            overwritten: 0,
            refused: vec![(0, Untraced::default()); self.cpus.len()],
            flushed_at: None,
        });
        Ok(())
    }

    /// Returns the late wakeups of a batch that was just drained, with their trace data. Numbers
    /// come from the recording, or are 0 without a recording.
    pub(crate) fn observe(
        &mut self,
        batch: &Batch,
        now: Nanos,
    ) -> Result<Vec<Episode>, SessionError> {
        self.flight.poll();
        // Number of the last selected episode that had room.
        let mut number = self
            .kept
            .as_ref()
            .map_or(0, |kept| self.selector.kept() - kept.refused());
        let mut late = Vec::new();
        let chosen = self.selector.choose(batch);
        if let Some(kept) = &mut self.kept {
            kept.add_passed(self.selector.passed());
        }
        for activation in chosen {
            let cpu = self.cpus[usize::from(activation.activation.line.0)];
            let next = self.kept.as_ref().map_or(0, |_| number + 1);
            let mut episode = Episode::new(next, cpu, &activation.activation, activation.threshold);
            let wakeups = activation.wakeups();
            episode.passed_ns = activation.passed;
            episode.thread = self.threads[usize::from(activation.activation.line.0)];
            let from = episode.expiry_ns.saturating_sub(BEFORE);
            let to = episode.end() + AFTER;
            episode.evidence = if self.explained[usize::from(activation.activation.line.0)] {
                self.flight.evidence(cpu, from, to)
            } else {
                Evidence {
                    from_ns: from,
                    to_ns: to,
                    ..Evidence::default()
                }
            };
            if let Some(kept) = &mut self.kept {
                if kept.keep(&episode, wakeups) {
                    number = next;
                } else {
                    // The next kept episode gets this number.
                    episode.number = 0;
                }
            }
            late.push(episode);
        }
        if let Some(kept) = &mut self.kept {
            kept.send_complete(&self.selector, now);
        }
        if let Some(kept) = self.kept.take_if(|kept| kept.writer.is_finished()) {
            // The thread only ends early for one reason.
            return Ok(kept.join(&AtomicBool::new(false)).map(|_| late)?);
        }
        if let Some(kept) = self.kept.as_mut().filter(|kept| kept.is_flush_due(now)) {
            let mut notes = self.selector.notes();
            notes.unseen_switches = Some(self.flight.unseen_switches());
            if let Some(handlers) = &mut self.handlers {
                notes.handlers = handlers.recent(now)?;
            }
            kept.flush(now, notes);
        }
        Ok(late)
    }

    /// Returns the overhead of the flight recorder so far.
    pub(crate) fn cost(&self) -> Vec<ProgramCost> {
        let handlers = self.handlers.iter().flat_map(HandlerWatch::cost);
        self.flight.cost().into_iter().chain(handlers).collect()
    }

    /// Looks up all names and writes the remaining episodes. Once `interrupted` is set, names
    /// take at most a second.
    pub(crate) fn finish(self, interrupted: &AtomicBool) -> Result<(), SessionError> {
        let mut notes = self.selector.notes();
        notes.unseen_switches = Some(self.flight.unseen_switches());
        if let Some(handlers) = &self.handlers {
            notes.handlers = handlers.last()?;
        }
        drop((self.flight, self.handlers));
        let Some(kept) = self.kept else {
            return Ok(());
        };
        let notes = kept.notes(notes);
        let (writer, mut book) = kept.join(interrupted)?;
        if let Some(counts) = &notes.handlers {
            book.note_handlers(counts);
        }
        Ok(writer.finish(&EpisodeNotes {
            symbols: book.resolve(interrupted),
            ..notes
        })?)
    }
}

impl EpisodeQueue {
    /// Returns the number of selected late wakeups without room.
    fn refused(&self) -> u64 {
        self.refused.iter().map(|(count, _)| count).sum()
    }

    /// Keeps an episode, and returns whether there was room for it. `wakeups` are the number of
    /// late wakeups in it and the sum of their latencies.
    fn keep(&mut self, episode: &Episode, wakeups: (u64, Nanos)) -> bool {
        let has_room = self.held.len() < MAX_WAITING;
        if has_room {
            self.overwritten += u64::from(episode.evidence.overwritten);
            self.held.push_back(episode.clone());
        } else if let Some(refused) = self.refused.get_mut(usize::from(episode.line.0)) {
            refused.0 += 1;
            refused.1.add(wakeups.0, wakeups.1);
        }
        has_room
    }

    /// Adds expiries to the episodes that they passed during. The causes are unknown if the
    /// episode was refused or is with the writing thread.
    fn add_passed(&mut self, expiries: &[PassedExpiry]) {
        for passed in expiries {
            let is_of =
                |episode: &&mut Episode| (episode.line, episode.seq) == (passed.line, passed.seq);
            if let Some(episode) = self.held.iter_mut().rev().find(is_of) {
                episode.passed_ns.push(passed.after);
            } else if let Some(refused) = self.refused.get_mut(usize::from(passed.line.0)) {
                refused.1.add(1, passed.latency);
            }
        }
    }

    /// Sends episodes to the writing thread, up to the first during which more expiries may have
    /// passed.
    fn send_complete(&mut self, selector: &EpisodeSelector, now: Nanos) {
        while let Some(episode) = self.held.pop_front() {
            let may_wait = self.held.len() < MAX_OPEN && now < episode.end() + MAX_OPEN_TIME;
            if may_wait && selector.may_grow(episode.line, episode.seq) {
                return self.held.push_front(episode);
            }
            match self.jobs.try_send(Job::Keep(Box::new(episode))) {
                Ok(()) => {}
                Err(TrySendError::Full(Job::Keep(episode))) => {
                    return self.held.push_front(*episode);
                }
                // The thread ended with an error, which `join` returns.
                Err(_) => return,
            }
        }
    }

    /// Returns whether the pending data is to be written. A request wakes the writing thread, which
    /// a request per pass would do in vain.
    fn is_flush_due(&self, now: Nanos) -> bool {
        let is_over = |last: Nanos| now >= last + FLUSH_EVERY;
        self.flushed_at.is_none_or(is_over)
    }

    /// Requests a write of the pending data. If the queue is full, the next call does it.
    fn flush(&mut self, now: Nanos, notes: EpisodeNotes) {
        let job = Job::Flush(now, Box::new(self.notes(notes)));
        if self.jobs.try_send(job).is_ok() {
            self.flushed_at = Some(now);
        }
    }

    /// Returns the notes on the selection, minus the episodes without room.
    fn notes(&self, mut notes: EpisodeNotes) -> EpisodeNotes {
        for (line, (refused, untraced)) in notes.lines.iter_mut().zip(&self.refused) {
            line.kept = line.kept.saturating_sub(*refused);
            line.surplus += refused;
            if let Some(line) = &mut line.untraced {
                line.add(untraced.wakeups, untraced.total_ns);
            }
        }
        let refused = self.refused();
        notes.kept = notes.kept.saturating_sub(refused);
        notes.surplus += refused;
        notes.overwritten = self.overwritten;
        notes
    }

    /// Waits until every episode is written.
    fn join(self, interrupted: &AtomicBool) -> WriterResult {
        for episode in self.held {
            // The thread may have ended with an error, which is returned below.
            let _ = self.jobs.send(Job::Keep(Box::new(episode)));
        }
        drop(self.jobs);
        while !self.writer.is_finished() {
            if interrupted.load(Ordering::Relaxed) {
                self.hurry.store(true, Ordering::Relaxed);
            }
            sleep(CHECK_INTERVAL);
        }
        match self.writer.join() {
            Ok(written) => written,
            Err(panic) => std::panic::resume_unwind(panic),
        }
    }
}

fn write(mut writer: EpisodeWriter, mut book: SymbolBook, jobs: &Receiver<Job>) -> WriterResult {
    system::use_little();
    while let Ok(job) = jobs.recv() {
        match job {
            Job::Keep(episode) => {
                book.note(&episode.evidence);
                system::note_competitors(&mut book, &episode);
                writer.append(&episode)?;
            }
            Job::Flush(now, notes) => writer.flush(now, &notes)?,
        }
    }
    Ok((writer, book))
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use laggard_model::{Activation, STAGES, Stage};

    use super::*;

    /// Flight recorder without trace data.
    #[derive(Debug)]
    struct NoFlight;

    impl Flight for NoFlight {
        fn poll(&mut self) {}

        fn evidence(&self, _: Cpu, _: Nanos, _: Nanos) -> Evidence {
            Evidence::default()
        }

        fn unseen_switches(&self) -> u64 {
            0
        }

        fn cost(&self) -> Vec<ProgramCost> {
            Vec::new()
        }
    }

    /// Creates a watch for `lines` lines with a threshold of 500 us. The second value receives
    /// the jobs of the writing thread.
    fn watch(lines: usize) -> (EpisodeWatch, Receiver<Job>) {
        let (jobs, taken) = sync_channel(MAX_WAITING);
        let threshold = Threshold::Fixed(Nanos::from_us(500));
        let watch = EpisodeWatch {
            flight: Box::new(NoFlight),
            symbols: SymbolSource,
            selector: EpisodeSelector::new(lines, threshold, 600),
            explained: vec![true; lines],
            threads: vec![None; lines],
            cpus: vec![Cpu(0); lines],
            kept: Some(EpisodeQueue {
                jobs,
                writer: std::thread::spawn(|| {
                    loop {
                        std::thread::park();
                    }
                }),
                hurry: Arc::default(),
                held: VecDeque::new(),
                overwritten: 0,
                refused: vec![(0, Untraced::default()); lines],
                flushed_at: None,
            }),
            handlers: None,
        };
        (watch, taken)
    }

    /// Returns expiry `ms` of `line`, served `latency_ms` later.
    fn row(line: u16, ms: u64, latency_ms: u64, missed: bool) -> Activation {
        let mut steps = [None; STAGES.len()];
        steps[Stage::User.index()] = Some(Nanos::from_ms(latency_ms));
        Activation {
            line: LineId(line),
            seq: ms,
            expiry: Nanos::from_ms(ms),
            missed,
            censored: false,
            steps,
        }
    }

    fn observe(watch: &mut EpisodeWatch, ms: u64, rows: &[Activation]) -> Vec<u64> {
        let mut batch = Batch::default();
        rows.iter().for_each(|row| batch.push(row));
        let late = watch.observe(&batch, Nanos::from_ms(ms)).unwrap();
        late.iter().map(|episode| episode.number).collect()
    }

    /// Returns number and passed expiries of the episodes that are to be written.
    fn written(taken: &Receiver<Job>) -> Vec<(u64, usize)> {
        let number = |job| match job {
            Job::Keep(episode) => Some((episode.number, episode.passed_ns.len())),
            Job::Flush(..) => None,
        };
        taken.try_iter().filter_map(number).collect()
    }

    fn untraced(watch: &EpisodeWatch) -> Vec<u64> {
        let kept = watch.kept.as_ref().unwrap();
        let notes = kept.notes(watch.selector.notes());
        let lines = notes.lines.iter();
        lines.map(|line| line.untraced.unwrap().wakeups).collect()
    }

    #[test]
    fn expiries_of_the_next_batch_are_added_to_the_episode_they_passed_during() {
        let (mut watch, taken) = watch(2);

        assert_eq!(observe(&mut watch, 4, &[row(0, 1, 3, false)]), [1]);
        assert_eq!(observe(&mut watch, 4, &[row(1, 1, 2, false)]), [2]);
        assert_eq!(written(&taken), []);
        let next = [row(0, 2, 2, true), row(0, 3, 1, true), row(0, 4, 0, false)];
        observe(&mut watch, 5, &next);
        assert_eq!(written(&taken), [(1, 2)]);
        observe(&mut watch, 6, &[row(1, 4, 0, false)]);

        assert_eq!(written(&taken), [(2, 0)]);
        assert_eq!(untraced(&watch), [0, 0]);
    }

    #[test]
    fn episodes_do_not_wait_forever_for_a_thread_that_never_wakes_up_again() {
        let (mut watch, taken) = watch(2);
        observe(&mut watch, 4, &[row(0, 1, 3, false)]);
        observe(&mut watch, 29_000, &[]);
        assert_eq!(written(&taken), []);

        observe(&mut watch, 31_000, &[]);

        assert_eq!(written(&taken), [(1, 0)]);
        // It is written without the expiry, so that the causes of this expiry are unknown.
        observe(&mut watch, 31_001, &[row(0, 2, 2, true)]);
        assert_eq!(untraced(&watch), [1, 0]);
    }

    #[test]
    fn hanging_thread_does_not_hold_more_than_a_few_episodes() {
        let (mut watch, taken) = watch(2);
        observe(&mut watch, 4, &[row(0, 1, 3, false)]);

        for ms in 1..=MAX_OPEN as u64 {
            observe(&mut watch, 4 + 2 * ms, &[row(1, 2 * ms, 1, false)]);
        }

        assert_eq!(written(&taken).first(), Some(&(1, 0)));
    }

    #[test]
    fn episode_without_room_is_counted_and_has_no_number() {
        let (mut watch, taken) = watch(1);
        let rows: Vec<Activation> = (0..2 * MAX_WAITING as u64)
            .map(|number| row(0, 2 * number, 1, false))
            .collect();

        let numbers = observe(&mut watch, 9_000, &rows);

        assert_eq!(numbers[MAX_WAITING - 1], MAX_WAITING as u64);
        assert!(numbers[MAX_WAITING..].iter().all(|&number| number == 0));
        assert_eq!(untraced(&watch), [MAX_WAITING as u64]);
        assert_eq!(written(&taken).len(), MAX_WAITING);
    }
}
