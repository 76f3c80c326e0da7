//! What `attach` saw, as a recording.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::Context as _;
use jiff::Zoned;
use laggard_answer::attach::{AttachChosen, Attended, ThreadCycle};
use laggard_measure::host::{self, Files};
use laggard_measure::{SymbolBook, linux};
use laggard_model::{
    Account, Activation, Backend, Batch, Caveat, CaveatKind, Clock, Cpu, Episode, EpisodeNotes,
    Evidence, Line, LineId, LineWatch, LossReason, Losses, Nanos, ProbePlan, Route, RowsOf, STAGES,
    Service, Stage, State, ThreadActivation, ThreadHappening, ThreadName, ThreadTold,
    UnfinishedActivation, WatchedTask, WatchedThread, WokenWay,
};
use laggard_record::{Destination, EpisodeWriter, Recorder};

use crate::args::AttachArgs;
use crate::measuring;

/// So many lines there may be: threads, by how they are woken and the CPU that they run
/// on first.
const MOST_LINES: usize = 4_096;
/// So many may wait until it is known what is late.
const MOST_UNDECIDED: usize = 256;
/// So long after it was told of an activation it may be asked where it was recorded.
const REMEMBERED: Nanos = Nanos::from_secs(2);

/// A recording of threads that are watched. Where the disk refuses, nothing more is
/// kept, and [`AttachRecording::end`] says why: the figures are good without.
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
    /// By line.
    seen: Vec<LineKept>,
    threads: HashMap<u32, ThreadKept>,
    /// By name: the number of each thread, and its place among those of the name, from 1.
    names: HashMap<ThreadName, HashMap<u32, u32>>,
    /// Where the last activations are, by thread, origin and end.
    places: BTreeMap<(Nanos, u32, Nanos), (LineId, u64)>,
    /// The largest from before their deadline was known: whether they were late is not
    /// known yet.
    undecided: BTreeMap<(Nanos, u32, Nanos), Episode>,
    kept: u64,
    overwritten: u64,
    /// Activations that have no line, because there are too many.
    unlined: u64,
}

/// What is known of a line.
#[derive(Clone, Copy, Debug)]
struct LineKept {
    /// The thread that had it last, and how it was woken.
    of: (u32, WokenWay),
    /// From which response on it is late; `None`: not known, or not yet.
    deadline: Option<Nanos>,
    rows: u64,
    late: LineWatch,
    account: Account,
}

/// What is known of a thread.
#[derive(Clone, Debug, Default)]
struct ThreadKept {
    came: u64,
    highest: u64,
    /// How often it ran without a wake that was seen.
    unseen: u64,
    /// The line that had most of it lately, which is told of what was lost.
    line: Option<LineId>,
}

impl AttachRecording {
    /// Begins it at `path`, which must not exist or be empty.
    pub(super) fn begin(
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
        let recorder = Recorder::create(place.clone(), manifest)
            .with_context(|| format!("begin `{}`; give another name with -o", path.display()))?;
        let episodes = EpisodeWriter::new(recorder.folder());
        Ok(Self {
            place,
            writing: Some(Writing {
                recorder,
                episodes,
                book: SymbolBook::new(Arc::clone(&stop)),
                stop,
                lines: BTreeMap::new(),
                seen: Vec::new(),
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

    /// Counts records, and those that are missing.
    pub(super) fn count(&mut self, told: &[ThreadTold]) {
        if let Some(writing) = &mut self.writing {
            told.iter().for_each(|one| writing.count(one));
        }
    }

    /// Adds cycles that ended.
    pub(super) fn add(&mut self, cycles: &[ThreadCycle], now: Nanos) {
        self.write(|writing| writing.add(cycles, now));
    }

    /// Adds cycles that had not ended when watching did, and when that was.
    pub(super) fn add_unfinished(
        &mut self,
        unfinished: &[(WatchedThread, Nanos, UnfinishedActivation)],
    ) {
        self.write(|writing| writing.add_unfinished(unfinished));
    }

    /// Keeps a late one, with what its CPU did.
    pub(super) fn keep(
        &mut self,
        one: &AttachChosen,
        evidence: impl Fn(Cpu, Nanos, Nanos) -> Evidence,
    ) {
        self.write(|writing| writing.keep(one, evidence));
    }

    /// Counts one that was chosen, and is not looked at.
    pub(super) fn leave_out(&mut self, one: &AttachChosen) {
        self.write(|writing| match writing.undecided.remove(&key(one)) {
            // It was looked at before its deadline was known.
            Some(known) if one.missed() => writing.write(known),
            _ => {
                writing.leave_out(one);
                Ok(())
            }
        });
    }

    /// Takes it away again: what was to be watched never began.
    pub(super) fn discard(mut self) {
        if let Some(writing) = self.writing.take() {
            // Best effort: the error that it did not begin says more.
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

    /// Ends it: whether it is whole, and what is to be said of it.
    pub(super) fn end(
        mut self,
        is_whole: bool,
        to: Nanos,
        caveats: Vec<Caveat>,
        unseen_switches: Option<u64>,
        seen: &Attended,
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
            for line in &mut writing.seen {
                line.deadline = seen.deadline(line.of.0, line.of.1);
            }
            let ended = writing.end(state, to, caveats, unseen_switches);
            ended.with_context(|| format!("write `{path}`"))?;
        }
        measuring::hand_over(self.place.folder())?;
        self.refused
            .map_or(Ok(()), |err| Err(err.context(format!("write `{path}`"))))
    }

    /// Where it is.
    pub(super) fn path(&self) -> &Path {
        self.place.path()
    }
}

impl Writing {
    fn count(&mut self, told: &ThreadTold) {
        let thread = told.thread;
        let known = self.threads.entry(thread.number).or_default();
        known.came += 1;
        known.highest = known.highest.max(u64::from(told.sequence) + 1);
        known.unseen = known.unseen.max(thread.unseen.into());
        if matches!(told.what, ThreadHappening::Began) {
            self.which(&thread);
        }
    }

    fn add(&mut self, cycles: &[ThreadCycle], now: Nanos) -> anyhow::Result<()> {
        let old = now.saturating_sub(REMEMBERED);
        self.places = self.places.split_off(&(old, 0, Nanos::ZERO));
        let mut batch = Batch::default();
        for cycle in cycles {
            let one = &cycle.whole;
            let place = (one.first_cpu, one.woken.way(), one.done);
            self.row(&cycle.thread, place, done(one), &mut batch);
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
        for (thread, at, one) in unfinished {
            let place = (one.cpu, one.woken.way(), *at);
            self.row(thread, place, not_done(one, *at), &mut batch);
        }
        Ok(self.recorder.append(&batch)?)
    }

    fn row(
        &mut self,
        thread: &WatchedThread,
        (cpu, way, at): (Cpu, WokenWay, Nanos),
        row: Activation,
        batch: &mut Batch,
    ) {
        let Some(line) = self.line(cpu, thread, way) else {
            self.unlined += 1;
            return;
        };
        let place = usize::from(line.0);
        let seq = self.seen[place].rows;
        self.seen[place].rows += 1;
        if let Some(known) = self.threads.get_mut(&thread.number) {
            known.line = Some(line);
        }
        self.places
            .insert((at, thread.number, row.expiry), (line, seq));
        batch.push(&Activation { line, seq, ..row });
    }

    fn line(&mut self, cpu: Cpu, thread: &WatchedThread, way: WokenWay) -> Option<LineId> {
        let task = WatchedTask::new(thread.name, self.which(thread), way);
        if let Some(&line) = self.lines.get(&(cpu, task)) {
            self.seen[usize::from(line.0)].of = (thread.number, way);
            return Some(line);
        }
        let line = LineId::at(self.lines.len()).filter(|_| self.lines.len() < MOST_LINES)?;
        self.lines.insert((cpu, task), line);
        self.seen.push(LineKept {
            of: (thread.number, way),
            deadline: None,
            rows: 0,
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

    /// Which thread of its name it is, from 1.
    fn which(&mut self, thread: &WatchedThread) -> u32 {
        let all = self.names.entry(thread.name).or_default();
        let next = u32::try_from(all.len() + 1).unwrap_or(u32::MAX);
        *all.entry(thread.number).or_insert(next)
    }

    fn keep(
        &mut self,
        one: &AttachChosen,
        evidence: impl Fn(Cpu, Nanos, Nanos) -> Evidence,
    ) -> anyhow::Result<()> {
        let Some(deadline) = one.deadline() else {
            self.wait_for_deadline(one, evidence);
            return Ok(());
        };
        // One of the largest, which is in time.
        if !one.missed() {
            return Ok(());
        }
        let known = self.undecided.remove(&key(one));
        let late = match known {
            Some(known) => Some(Episode {
                threshold_ns: deadline,
                ..known
            }),
            None => self.episode(one, evidence),
        };
        match late {
            Some(episode) => self.write(episode),
            None => {
                self.leave_out(one);
                Ok(())
            }
        }
    }

    /// One of the largest, of which it is not known yet whether it was late.
    fn wait_for_deadline(
        &mut self,
        one: &AttachChosen,
        evidence: impl Fn(Cpu, Nanos, Nanos) -> Evidence,
    ) {
        if self.undecided.len() < MOST_UNDECIDED
            && let Some(episode) = self.episode(one, evidence)
        {
            self.undecided.insert(key(one), episode);
        }
    }

    /// `None`: it is in no line, or what its CPU did does not explain it.
    fn episode(
        &self,
        one: &AttachChosen,
        evidence: impl Fn(Cpu, Nanos, Nanos) -> Evidence,
    ) -> Option<Episode> {
        let &(line, seq) = self.places.get(&key(one))?;
        let episode = one.episode(evidence)?;
        Some(Episode {
            line,
            seq,
            ..episode
        })
    }

    fn write(&mut self, episode: Episode) -> anyhow::Result<()> {
        self.kept += 1;
        self.seen[usize::from(episode.line.0)].late.kept += 1;
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

    fn leave_out(&mut self, one: &AttachChosen) {
        let activation = *one.activation();
        let way = activation.woken.way();
        let line = self.line(activation.first_cpu, one.thread(), way);
        if let Some(line) = line.filter(|_| one.missed()) {
            let late = &mut self.seen[usize::from(line.0)].late;
            late.surplus += 1;
            let untraced = late.untraced.get_or_insert_default();
            untraced.add(1, activation.response());
        }
    }

    fn notes(&self, unseen_switches: Option<u64>) -> EpisodeNotes {
        EpisodeNotes {
            thresholds_ns: self.seen.iter().map(|line| line.deadline).collect(),
            kept: self.kept,
            surplus: self.seen.iter().map(|line| line.late.surplus).sum(),
            overwritten: self.overwritten,
            unseen_switches,
            lines: self.seen.iter().map(|line| line.late).collect(),
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
        // Nobody knows what is late there: the largest are what there is to look at.
        for (_, episode) in std::mem::take(&mut self.undecided) {
            if self.seen[usize::from(episode.line.0)].deadline.is_none() {
                self.write(episode)?;
            }
        }
        for thread in self.threads.values() {
            let lost = thread.highest.saturating_sub(thread.came);
            if let Some(line) = thread.line {
                let account = &mut self.seen[usize::from(line.0)].account;
                account.lost += lost + thread.unseen;
                account.losses.add(LossReason::RingFull, lost);
                account.losses.add(LossReason::WakingUnseen, thread.unseen);
                account.losses.whole += thread.unseen;
            }
        }
        let accounts: Vec<Account> = self.seen.iter().map(|line| line.account).collect();
        let mut losses = Losses::default();
        for account in &accounts {
            losses.merge(&account.losses);
        }
        if self.unlined > 0 {
            caveats.push(Caveat::new(
                CaveatKind::Losses,
                format!(
                    "{} activations are not in the recording: it has {MOST_LINES} ways of threads to be woken, on the CPUs that they ran on",
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

/// When it ended, whose it was, and when it was due: no two have the same.
fn key(one: &AttachChosen) -> (Nanos, u32, Nanos) {
    let activation = one.activation();
    (activation.done, one.thread().number, activation.origin)
}

/// One that ended, as a row.
fn done(one: &ThreadActivation) -> Activation {
    let mut steps = [None; STAGES.len()];
    let mut before = one.origin;
    let seen = [
        (Stage::Waking, one.waking, one.wake_seen),
        // Else it ran before, nobody knows when.
        (Stage::Running, one.running, one.run_seen),
        (Stage::Done, one.done, true),
    ];
    for (stage, at, is_seen) in seen {
        if is_seen {
            steps[stage.index()] = Some(at.saturating_sub(before));
            before = at;
        }
    }
    row(one.origin, steps, false)
}

/// One that was not done when watching ended.
fn not_done(one: &UnfinishedActivation, at: Nanos) -> Activation {
    let mut steps = [None; STAGES.len()];
    let mut before = one.origin;
    if let Some(running) = one.running {
        steps[Stage::Running.index()] = Some(running.saturating_sub(before));
        before = running;
    }
    steps[Stage::Done.index()] = Some(at.saturating_sub(before));
    row(one.origin, steps, true)
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
