//! Recordings of `attach`.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::Context as _;
use jiff::Zoned;
use laggard_answer::attach::{AttachChosen, AttachCollector, AttachTaken, ThreadCycle};
use laggard_measure::host::{self, Files};
use laggard_measure::{SymbolBook, linux};
use laggard_model::{
    Account, Activation, Backend, Batch, Caveat, CaveatKind, Clock, Cpu, Episode, EpisodeNotes,
    Evidence, Line, LineId, LineWatch, LossReason, Losses, Nanos, ProbePlan, Route, RowsOf, STAGES,
    Service, Stage, State, ThreadActivation, ThreadHappening, ThreadName, ThreadTold,
    UnfinishedActivation, WatchedTask, WatchedThread, WokenWay,
};
use laggard_record::{Destination, EpisodeWriter, Recorder};
use laggard_view::attach::culprit;

use super::explain::MAX_WAIT;
use crate::args::AttachArgs;
use crate::measuring;

/// Maximum number of lines. A line is a thread, a kind of wakeup, and the CPU that the thread runs
/// on first.
const MAX_LINES: usize = 4_096;
/// Maximum number of episodes that wait for their deadline.
const MAX_UNDECIDED: usize = 256;

/// Recording of the measured threads. After a write error nothing more is kept, and
/// [`AttachRecording::end`] returns the error; the report is valid without the recording.
#[derive(Debug)]
pub(super) struct AttachRecording {
    place: Destination,
    writing: Option<Writing>,
    refused: Option<anyhow::Error>,
}

#[derive(Debug)]
struct Writing {
    recorder: Recorder,
    episodes: EpisodeWriter,
    book: SymbolBook,
    /// Set when the user ends it.
    stop: Arc<AtomicBool>,
    lines: BTreeMap<(Cpu, WatchedTask), LineId>,
    /// State per line.
    kept_lines: Vec<LineState>,
    threads: HashMap<u32, ThreadState>,
    /// Numbers of the threads per name, and the position of each among the threads of the name,
    /// from 1.
    names: HashMap<ThreadName, HashMap<u32, u32>>,
    /// Places of the last cycles, by thread, due time and end.
    places: BTreeMap<(Nanos, u32, Nanos), (LineId, u64)>,
    /// Episodes of the longest cycles whose deadline is not known yet.
    undecided: BTreeMap<(Nanos, u32, Nanos), Episode>,
    kept: u64,
    overwritten: u64,
    /// Cycles without a line, because there are too many lines.
    unlined: u64,
}

#[derive(Clone, Copy, Debug)]
struct LineState {
    /// Last thread, and the kind of its wakeup.
    thread: (u32, WokenWay),
    /// Deadline; `None`: not known.
    deadline: Option<Nanos>,
    rows: u64,
    /// Latency of its longest episode.
    longest: Nanos,
    late: LineWatch,
    account: Account,
}

#[derive(Clone, Debug, Default)]
struct ThreadState {
    came: u64,
    highest: u64,
    /// Number of times that it ran without a wakeup that was seen.
    unseen: u64,
    /// Latest line of the thread; its losses are counted there.
    line: Option<LineId>,
}

impl AttachRecording {
    /// Creates a recording at `path`, which must not exist or be empty.
    pub(super) fn create(
        path: &Path,
        args: &AttachArgs,
        deadline: Option<Nanos>,
        stop: Arc<AtomicBool>,
    ) -> anyhow::Result<Self> {
        let place = Destination::from(path);
        let begin = linux::now();
        let wall = Zoned::now().strftime("%Y-%m-%dT%H:%M:%S%.3f%:z");
        let plan = ProbePlan {
            period_ns: Nanos::ZERO,
            dither: false,
            seed: begin.ns(),
            duration_ns: args.duration,
            threshold_ns: deadline.unwrap_or(ProbePlan::default().threshold_ns),
            rows: RowsOf::Activations,
            ..ProbePlan::default()
        };
        let clock = Clock::monotonic(begin, wall.to_string());
        let words = std::env::args_os();
        let manifest = laggard_model::Manifest {
            command: words
                .map(|arg| arg.to_string_lossy().into_owned())
                .collect(),
            host: host::identify(&Files::default()),
            ..laggard_model::Manifest::new(Backend::Bpf, plan, clock, Vec::new())
        };
        let recorder = Recorder::create(place.clone(), manifest).with_context(|| {
            format!(
                "cannot create `{}`; give another name with -o",
                path.display()
            )
        })?;
        let episodes = EpisodeWriter::new(recorder.folder());
        Ok(Self {
            place,
            writing: Some(Writing {
                recorder,
                episodes,
                book: SymbolBook::new(Arc::clone(&stop)),
                stop,
                lines: BTreeMap::new(),
                kept_lines: Vec::new(),
                threads: HashMap::new(),
                names: HashMap::new(),
                places: BTreeMap::new(),
                undecided: BTreeMap::new(),
                kept: 0,
                overwritten: 0,
                unlined: 0,
            }),
            refused: None,
        })
    }

    /// Counts records and missing records.
    pub(super) fn count(&mut self, records: &[ThreadTold]) {
        if let Some(writing) = &mut self.writing {
            records.iter().for_each(|record| writing.count(record));
        }
    }

    /// Adds cycles that ended.
    pub(super) fn add(&mut self, cycles: &[ThreadCycle], now: Nanos) {
        self.write(|writing| writing.add(cycles, now));
    }

    /// Adds cycles that had not ended at the end of the measurement, with that time.
    pub(super) fn add_unfinished(
        &mut self,
        unfinished: &[(WatchedThread, Nanos, UnfinishedActivation)],
    ) {
        self.write(|writing| writing.add_unfinished(unfinished));
    }

    /// Keeps a late cycle with its trace data, or with the causes `taken` if it waited or
    /// moved.
    pub(super) fn keep(
        &mut self,
        cycle: &AttachChosen,
        taken: &[AttachTaken],
        evidence: impl Fn(Cpu, Nanos, Nanos) -> Evidence,
    ) {
        self.write(|writing| writing.keep(cycle, taken, evidence));
    }

    /// Counts a cycle that is not analysed.
    pub(super) fn leave_out(&mut self, cycle: &AttachChosen) {
        self.write(|writing| match writing.undecided.remove(&key(cycle)) {
            // It was analysed before its deadline was known.
            Some(episode) if cycle.missed() => writing.write(episode),
            _ => {
                writing.leave_out(cycle);
                Ok(())
            }
        });
    }

    /// Removes the recording, because the measurement did not start.
    pub(super) fn discard(mut self) {
        if let Some(writing) = self.writing.take() {
            // The error that prevented the start says more than one of the removal.
            let _ = writing.recorder.discard();
        }
    }

    fn write(&mut self, write: impl FnOnce(&mut Writing) -> anyhow::Result<()>) {
        if self.refused.is_none()
            && let Some(writing) = &mut self.writing
        {
            self.refused = write(writing).err();
        }
    }

    /// Closes the recording. `is_whole`: the measurement was not interrupted.
    pub(super) fn end(
        mut self,
        is_whole: bool,
        to: Nanos,
        caveats: Vec<Caveat>,
        unseen_switches: Option<u64>,
        seen: &AttachCollector,
    ) -> anyhow::Result<()> {
        let path = self.place.path().display().to_string();
        let state = match (&self.refused, is_whole) {
            (Some(error), _) => State::Failed {
                error: format!("{error:#}"),
            },
            (None, true) => State::Complete,
            (None, false) => State::Interrupted,
        };
        if let Some(mut writing) = self.writing.take() {
            for line in &mut writing.kept_lines {
                line.deadline = seen.deadline(line.thread.0, line.thread.1);
            }
            let ended = writing.end(state, to, caveats, unseen_switches);
            ended.with_context(|| format!("cannot write `{path}`"))?;
        }
        measuring::hand_over(self.place.folder())?;
        self.refused.map_or(Ok(()), |err| {
            Err(err.context(format!("cannot write `{path}`")))
        })
    }

    /// Path of the recording.
    pub(super) fn path(&self) -> &Path {
        self.place.path()
    }
}

impl Writing {
    fn count(&mut self, record: &ThreadTold) {
        let thread = record.thread;
        let state = self.threads.entry(thread.number).or_default();
        state.came += 1;
        state.highest = state.highest.max(u64::from(record.sequence) + 1);
        state.unseen = state.unseen.max(thread.unseen.into());
        if matches!(record.what, ThreadHappening::Began(_)) {
            self.place_in_name(&thread);
        }
    }

    fn add(&mut self, cycles: &[ThreadCycle], now: Nanos) -> anyhow::Result<()> {
        // A cycle that waits for its analysis needs its place.
        let old = now.saturating_sub(MAX_WAIT + Nanos::from_secs(2));
        self.places = self.places.split_off(&(old, 0, Nanos::ZERO));
        let mut batch = Batch::default();
        for cycle in cycles {
            let whole = &cycle.whole;
            let place = (whole.first_cpu, whole.woken.way(), whole.done);
            self.row(&cycle.thread, place, done(whole), &mut batch);
        }
        self.recorder.append(&batch)?;
        self.recorder.flush(now)?;
        let notes = self.notes(None);
        Ok(self.episodes.flush(now, &notes)?)
    }

    fn add_unfinished(
        &mut self,
        unfinished: &[(WatchedThread, Nanos, UnfinishedActivation)],
    ) -> anyhow::Result<()> {
        let mut batch = Batch::default();
        for (thread, time, cycle) in unfinished {
            let place = (cycle.cpu, cycle.woken.way(), *time);
            self.row(thread, place, not_done(cycle, *time), &mut batch);
        }
        Ok(self.recorder.append(&batch)?)
    }

    fn row(
        &mut self,
        thread: &WatchedThread,
        (cpu, woken_by, due): (Cpu, WokenWay, Nanos),
        row: Activation,
        batch: &mut Batch,
    ) {
        let Some(line) = self.line(cpu, thread, woken_by) else {
            self.unlined += 1;
            return;
        };
        let place = usize::from(line.0);
        let seq = self.kept_lines[place].rows;
        self.kept_lines[place].rows += 1;
        if let Some(state) = self.threads.get_mut(&thread.number) {
            state.line = Some(line);
        }
        self.places
            .insert((due, thread.number, row.expiry), (line, seq));
        batch.push(&Activation { line, seq, ..row });
    }

    fn line(&mut self, cpu: Cpu, thread: &WatchedThread, woken_by: WokenWay) -> Option<LineId> {
        let task = WatchedTask::new(thread.name, self.place_in_name(thread), woken_by);
        if let Some(&line) = self.lines.get(&(cpu, task)) {
            self.kept_lines[usize::from(line.0)].thread = (thread.number, woken_by);
            return Some(line);
        }
        let line = LineId::at(self.lines.len()).filter(|_| self.lines.len() < MAX_LINES)?;
        self.lines.insert((cpu, task), line);
        self.kept_lines.push(LineState {
            thread: (thread.number, woken_by),
            deadline: None,
            rows: 0,
            longest: Nanos::ZERO,
            late: LineWatch {
                from_ns: Some(Nanos::ZERO),
                ..LineWatch::default()
            },
            account: Account::default(),
        });
        self.recorder.update(|manifest| {
            manifest.lines.push(Line {
                cpu,
                service: Service::Task(task),
                route: Route::Direct,
            });
        });
        Some(line)
    }

    /// Returns the place of a thread among the threads of its name, from 1.
    fn place_in_name(&mut self, thread: &WatchedThread) -> u32 {
        let threads = self.names.entry(thread.name).or_default();
        let next = u32::try_from(threads.len() + 1).unwrap_or(u32::MAX);
        *threads.entry(thread.number).or_insert(next)
    }

    fn keep(
        &mut self,
        cycle: &AttachChosen,
        taken: &[AttachTaken],
        evidence: impl Fn(Cpu, Nanos, Nanos) -> Evidence,
    ) -> anyhow::Result<()> {
        let Some(deadline) = cycle.deadline() else {
            self.wait_for_deadline(cycle, taken, evidence);
            return Ok(());
        };
        // It is one of the longest cycles, but it met its deadline.
        if !cycle.missed() {
            return Ok(());
        }
        let late = match self.undecided.remove(&key(cycle)) {
            Some(episode) => Some(Episode {
                threshold_ns: deadline,
                ..episode
            }),
            None => self.episode(cycle, taken, evidence),
        };
        match late {
            Some(episode) => self.write(episode)?,
            None => self.leave_out(cycle),
        }
        Ok(())
    }

    /// Keeps one of the longest cycles until its deadline is known.
    fn wait_for_deadline(
        &mut self,
        cycle: &AttachChosen,
        taken: &[AttachTaken],
        evidence: impl Fn(Cpu, Nanos, Nanos) -> Evidence,
    ) {
        if self.undecided.len() < MAX_UNDECIDED
            && let Some(episode) = self.episode(cycle, taken, evidence)
        {
            self.undecided.insert(key(cycle), episode);
        }
    }

    /// Returns the episode of a cycle. `None` if the cycle does not have a line, or its causes are
    /// unknown.
    fn episode(
        &self,
        cycle: &AttachChosen,
        taken: &[AttachTaken],
        evidence: impl Fn(Cpu, Nanos, Nanos) -> Evidence,
    ) -> Option<Episode> {
        let &(line, seq) = self.places.get(&key(cycle))?;
        let of_causes = || cycle.episode_of_causes(taken, culprit);
        let episode = if has_untraced(taken) {
            of_causes()
        } else {
            cycle.episode(evidence).or_else(of_causes)
        }?;
        Some(Episode {
            line,
            seq,
            ..episode
        })
    }

    fn write(&mut self, episode: Episode) -> anyhow::Result<()> {
        self.kept += 1;
        let line = &mut self.kept_lines[usize::from(episode.line.0)];
        line.late.kept += 1;
        line.longest = line.longest.max(episode.latency());
        self.overwritten += u64::from(episode.evidence.overwritten);
        self.book.note(&episode.evidence);
        if let Some(waiter) = episode.thread {
            self.book.note_competitors(waiter, &episode.evidence);
        }
        Ok(self.episodes.append(&Episode {
            number: self.kept,
            ..episode
        })?)
    }

    /// Counts a cycle that does not have an episode, with the others that it represents.
    fn leave_out(&mut self, cycle: &AttachChosen) {
        let activation = *cycle.activation();
        let woken = activation.woken.way();
        let line = self.line(activation.first_cpu, cycle.thread(), woken);
        if let Some(line) = line.filter(|_| cycle.missed()) {
            let late = &mut self.kept_lines[usize::from(line.0)].late;
            let untraced = late.untraced.get_or_insert_default();
            for response in cycle.responses() {
                late.surplus += 1;
                untraced.add(1, response);
            }
        }
    }

    fn notes(&self, unseen_switches: Option<u64>) -> EpisodeNotes {
        EpisodeNotes {
            thresholds_ns: self.kept_lines.iter().map(|line| line.deadline).collect(),
            kept: self.kept,
            surplus: self.kept_lines.iter().map(|line| line.late.surplus).sum(),
            overwritten: self.overwritten,
            unseen_switches,
            lines: self.kept_lines.iter().map(|line| line.late).collect(),
            ..EpisodeNotes::default()
        }
    }

    fn end(
        mut self,
        state: State,
        to: Nanos,
        mut caveats: Vec<Caveat>,
        unseen_switches: Option<u64>,
    ) -> anyhow::Result<()> {
        // Without a deadline, the longest cycles are the episodes. Otherwise the longest cycle is one
        // of them if it was later than the deadline that became known.
        let mut undecided: Vec<Episode> =
            std::mem::take(&mut self.undecided).into_values().collect();
        undecided.sort_by_key(|episode| std::cmp::Reverse(episode.latency()));
        for episode in undecided {
            let line = &self.kept_lines[usize::from(episode.line.0)];
            let is_longest = |deadline| episode.latency() > line.longest.max(deadline);
            if line.deadline.is_none_or(is_longest) {
                self.write(episode)?;
            }
        }
        for thread in self.threads.values() {
            let lost = thread.highest.saturating_sub(thread.came);
            if let Some(line) = thread.line {
                let account = &mut self.kept_lines[usize::from(line.0)].account;
                account.lost += lost + thread.unseen;
                account.losses.add(LossReason::RingFull, lost);
                account.losses.add(LossReason::WakingUnseen, thread.unseen);
                account.losses.whole += thread.unseen;
            }
        }
        let accounts: Vec<Account> = self.kept_lines.iter().map(|line| line.account).collect();
        let mut losses = Losses::default();
        for account in &accounts {
            losses.merge(&account.losses);
        }
        if self.unlined > 0 {
            caveats.push(Caveat::new(
                CaveatKind::Losses,
                format!(
                    "{} cycles are not in the recording: it has the maximum of {MAX_LINES} series (thread, way of waking, CPU)",
                    self.unlined
                ),
                "attach to fewer threads (`--tid`, `--comm`)",
            ));
        }
        self.recorder.account(accounts);
        self.recorder.update(|manifest| {
            manifest.clock.end_ns = Some(to);
            manifest.caveats = caveats;
            manifest.losses = losses;
        });
        let notes = EpisodeNotes {
            symbols: self.book.resolve(&self.stop),
            ..self.notes(unseen_switches)
        };
        self.episodes.finish(&notes)?;
        self.recorder.finish(state)?;
        Ok(())
    }
}

/// Returns whether a tenth of the time has causes that trace data do not show.
fn has_untraced(taken: &[AttachTaken]) -> bool {
    let sum = |parts: &mut dyn Iterator<Item = &AttachTaken>| -> u64 {
        parts.map(|part| part.time_ns.ns()).sum()
    };
    let untraced = sum(&mut taken.iter().filter(|part| part.is_untraced()));
    10 * untraced > sum(&mut taken.iter())
}

/// Returns the end, the thread and the due time of a cycle, which identify it.
fn key(cycle: &AttachChosen) -> (Nanos, u32, Nanos) {
    let activation = cycle.activation();
    (activation.done, cycle.thread().number, activation.origin)
}

/// Returns the row of a cycle that ended.
fn done(cycle: &ThreadActivation) -> Activation {
    let mut steps = [None; STAGES.len()];
    let mut before = cycle.origin;
    let stages = [
        (Stage::Waking, cycle.waking, cycle.wake_seen),
        // Otherwise it ran before, at an unknown time.
        (Stage::Running, cycle.running, cycle.run_seen),
        (Stage::Done, cycle.done, true),
    ];
    for (stage, time, is_seen) in stages {
        if is_seen {
            steps[stage.index()] = Some(time.saturating_sub(before));
            before = time;
        }
    }
    row(cycle.origin, steps, false)
}

/// Returns the row of a cycle that had not ended at the end of the measurement.
fn not_done(cycle: &UnfinishedActivation, end: Nanos) -> Activation {
    let mut steps = [None; STAGES.len()];
    let mut before = cycle.origin;
    if let Some(running) = cycle.running {
        steps[Stage::Running.index()] = Some(running.saturating_sub(before));
        before = running;
    }
    steps[Stage::Done.index()] = Some(end.saturating_sub(before));
    row(cycle.origin, steps, true)
}

fn row(expiry: Nanos, steps: [Option<Nanos>; STAGES.len()], is_cut: bool) -> Activation {
    Activation {
        line: LineId(0),
        seq: 0,
        expiry,
        missed: is_cut,
        censored: is_cut,
        steps,
    }
}
