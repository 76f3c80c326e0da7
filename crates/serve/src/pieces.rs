//! Measuring, piece by piece.

use std::io::{self, ErrorKind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use laggard_answer::live::LateFinder;
use laggard_console::args::EpisodesArg;
use laggard_console::on_late::{self, OnLateRun};
use laggard_console::pipe;
use laggard_measure::LiveNames;
use laggard_model::text::count;
use laggard_model::{Cpu, CpuList, Host, Keep, Names, Nanos};
use laggard_record::Destination;
use laggard_session::{EpisodesChoice, Plan, ProbeChoice, ScriptPace, Session, SessionError};
use laggard_view::text::Look;

use super::cpus::{CpuWatch, OwnMachine};
use super::early_end::{EarlyEnd, EarlyEndRequest};
use super::exporter::{Exporter, PieceWatch};
use super::notify;
use super::shown::ServedState;
use super::store::Store;
use crate::args::ServeArgs;

/// How long a piece is where nothing is recorded.
const DAY: Duration = Duration::from_secs(24 * 60 * 60);
/// A piece that would be a smaller part of a whole one goes on through the next.
const SMALL_PART: u32 = 20;
/// Pieces begin no more often than this, whatever ends them.
const APART: Duration = Duration::from_secs(10);
/// After the store could not be written: from, and up to, so long without it.
const WITHOUT: Duration = Duration::from_secs(60);
const WITHOUT_AT_MOST: Duration = Duration::from_secs(60 * 60);
/// After measuring itself failed, once it had begun: from, and up to, so long until it
/// is tried again.
const AGAIN: Duration = Duration::from_secs(10);
const AGAIN_AT_MOST: Duration = Duration::from_secs(5 * 60);
/// Late activations a minute that are kept, besides each line's new largest: some ten
/// kB each.
const EPISODES: u64 = 20;

/// How a piece ended.
#[derive(Debug, Eq, PartialEq)]
enum PieceEnd {
    /// At its planned time.
    Whole,
    /// Before that, by itself.
    Early,
    Cut(EarlyEnd),
}

/// What is measured, again and again.
pub(crate) struct ServedPieces {
    plan: Plan,
    /// CPUs that the user named; `None`: those that this process may use.
    wanted_cpus: Option<CpuList>,
    /// Since the piece that is measured, or will be next, was made ready.
    cpu_watch: Option<CpuWatch>,
    every: Duration,
    store: Option<Arc<Store>>,
    late: Option<OnLateRun>,
    cut: EarlyEndRequest,
    shown: Arc<ServedState>,
    /// For how long to go on without the store, since it could not be written.
    without: Option<Duration>,
    /// How long that was last; zero since it was written again.
    was_without: Duration,
    /// How long nothing was measured last, because it could not be; zero since it was.
    was_still: Duration,
    /// What was said of it last: the same again is not news.
    said: Option<String>,
    /// Whether measuring has begun at all.
    has_begun: bool,
    /// Whether the cost is still to be told.
    is_new: bool,
    /// Those of the piece before; empty: there was none.
    cpus: CpuList,
}

/// The first piece, ready to begin.
pub(crate) struct FirstPiece<'a> {
    pieces: ServedPieces,
    first: Session<'a>,
    place: Option<Destination>,
}

impl ServedPieces {
    pub(crate) fn new(
        args: &ServeArgs,
        store: Option<Store>,
        late: Option<OnLateRun>,
        shown: Arc<ServedState>,
    ) -> Self {
        Self {
            plan: plan(args),
            wanted_cpus: args.cpus.clone(),
            cpu_watch: None,
            every: match store {
                Some(_) => args.every.into(),
                None => DAY,
            },
            store: store.map(Arc::new),
            late,
            cut: EarlyEndRequest::default(),
            shown,
            without: None,
            was_without: Duration::ZERO,
            was_still: Duration::ZERO,
            said: None,
            has_begun: false,
            is_new: true,
            cpus: CpuList::default(),
        }
    }

    /// Readies the first piece: what cannot be measured here is said at once.
    pub(crate) fn ready(mut self, interrupted: &AtomicBool) -> anyhow::Result<FirstPiece<'_>> {
        let (first, place) = self.session(interrupted)?;
        if let Some(store) = &self.store {
            store.watch(self.cut.clone())?;
        }
        Ok(FirstPiece {
            pieces: self,
            first,
            place,
        })
    }

    /// A piece that begins now, and where it is recorded.
    fn session<'a>(
        &mut self,
        interrupted: &'a AtomicBool,
    ) -> Result<(Session<'a>, Option<Destination>), SessionError> {
        let place = self.next_place();
        self.cpu_watch = match self.plan.probe {
            // Its CPUs are invented.
            ProbeChoice::Script(_) => None,
            ProbeChoice::Best | ProbeChoice::Bpf | ProbeChoice::User => {
                Some(CpuWatch::new(OwnMachine, self.wanted_cpus.clone()))
            }
        };
        // Of the CPUs that the user named, those that are offline are left out, but not at
        // the start, when the error shows a mistyped number.
        if let (true, Some(_), Some(watch)) = (self.has_begun, &self.wanted_cpus, &self.cpu_watch) {
            let left = Some(watch.measured().clone()).filter(|left| !left.is_empty());
            self.plan.cpus = left.or_else(|| self.wanted_cpus.clone());
        }
        let length = match self.without {
            Some(without) => without,
            None => until_next(self.every),
        };
        self.plan.duration = Some(length.into());
        self.plan.recording.clone_from(&place);
        let session = Session::ready(&self.plan, interrupted)?;
        Ok((session.at_pace(ScriptPace::RealTime), place))
    }

    /// Where the next piece is recorded. A store that was removed is made again; if that is
    /// impossible, measuring goes on without it.
    fn next_place(&mut self) -> Option<Destination> {
        let store = self.store.clone()?;
        if self.without.is_some() {
            return None;
        }
        match store.restore() {
            Ok(()) => Some(store.next()),
            Err(err) => {
                self.go_without(&store, &format!("{err:#}"));
                None
            }
        }
    }

    /// Measures a piece to its end.
    fn measure(
        &mut self,
        session: Session<'_>,
        place: Option<&Destination>,
    ) -> Result<PieceEnd, SessionError> {
        let planned = self.plan.duration.map_or(DAY, Duration::from);
        let manifest = session.manifest();
        self.say_of_cpus(manifest.lines.iter().map(|line| line.cpu).collect());
        // Read before measuring: looking them up takes its time.
        let names = session
            .explains()
            .then(|| -> Box<dyn Names> { Box::new(LiveNames::read()) });
        let finder = LateFinder::new(&manifest.lines, names, self.plan.threshold);
        let name = place.and_then(|place| place.path().file_name());
        let name = name.map(|name| name.to_string_lossy().into_owned());
        let mut exporter = Exporter::new(
            self.shown.clone(),
            manifest,
            finder,
            name.clone(),
            self.is_new,
            PieceWatch {
                store: self.store.clone(),
                request: self.cut.clone(),
                cpus: self.cpu_watch.take(),
                late_actions: self.late.as_ref().map(OnLateRun::counters),
            },
        );
        // A request that came after the piece before had ended is out of date.
        self.cut.take();
        let began = Instant::now();
        let ended = on_late::run(session, &self.plan, self.late.as_mut(), &mut exporter);
        let is_whole = is_whole(planned, began.elapsed());
        self.is_new = exporter.is_new;
        self.has_begun |= exporter.has_begun;
        if let (Some(store), true) = (&self.store, place.is_some()) {
            store.note_idle();
        }
        let mut cut = exporter.cut;
        // A write to a removed recording can fail before the store is next checked.
        if let (Err(err), None, Some(store), Some(name)) = (&ended, &cut, &self.store, &name)
            && err.is_of_recording()
            && is_missing(err)
            && let Some(fault) = store.loss(name)
        {
            self.shown.seen().note_store_failure(&fault);
            cut = Some(EarlyEnd::StoreLost(fault));
        }
        match (ended, cut) {
            // What was recorded cannot be closed: its directory is gone.
            (_, Some(lost @ EarlyEnd::StoreLost(_))) => Ok(PieceEnd::Cut(lost)),
            (Ok(_), Some(cut)) => Ok(PieceEnd::Cut(cut)),
            (Ok(_), None) if is_whole => Ok(PieceEnd::Whole),
            (Ok(_), None) => Ok(PieceEnd::Early),
            (Err(err), _) => Err(err),
        }
    }

    /// CPUs come and go (hotplug): which are measured from this piece on is said where
    /// it is not as before.
    fn say_of_cpus(&mut self, now: CpuList) {
        let before = std::mem::replace(&mut self.cpus, now);
        if before.is_empty() {
            return;
        }
        let only = |of: &CpuList, not: &CpuList| -> CpuList {
            let all = of.as_slice().iter().copied();
            all.filter(|&cpu: &Cpu| !not.contains(cpu)).collect()
        };
        for (cpus, what) in [
            (only(&before, &self.cpus), "measured no longer"),
            (only(&self.cpus, &before), "measured from now on"),
        ] {
            if !cpus.is_empty() {
                pipe::say(&format!("CPU {cpus} is {what}"));
            }
        }
    }

    /// Measuring cannot go on for now: waits, longer each time, and says so to whoever
    /// asks meanwhile.
    fn stand_still(&mut self, why: String, interrupted: &AtomicBool) {
        let least = AGAIN.min(self.every);
        let wait = (self.was_still * 2).clamp(least, AGAIN_AT_MOST);
        self.was_still = wait;
        if self.said.as_ref() != Some(&why) {
            pipe::say(&format!(
                "nothing is measured: {why}; it is tried again in {} s, and then every {} s at most",
                count(wait.as_secs()),
                count(AGAIN_AT_MOST.as_secs())
            ));
            self.said = Some(why.clone());
        }
        {
            let mut seen = self.shown.seen();
            seen.metrics.note_failure();
            seen.unmeasured = Some(why);
        }
        let until = Instant::now() + wait;
        let mut cpus = CpuWatch::new(OwnMachine, self.wanted_cpus.clone());
        while Instant::now() < until && !interrupted.load(Ordering::Relaxed) {
            // What failed may have been that a CPU was offline.
            if cpus.has_changed() {
                break;
            }
            // A watchdog would end what goes on by itself as soon as it can.
            notify::alive(Instant::now());
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    /// A piece was measured to its end.
    fn measures_again(&mut self) {
        self.was_still = Duration::ZERO;
        if self.said.take().is_some() {
            pipe::say("it is measured again");
        }
    }

    /// Goes on without the store for a while, where that is what went wrong.
    fn live_with(&mut self, err: SessionError) -> Result<(), SessionError> {
        let Some(store) = self.store.clone().filter(|_| err.is_of_recording()) else {
            return Err(err);
        };
        let why = err.in_full();
        match is_full(&err).then(|| store.make_room()) {
            // The next piece is recorded: there is room for it now.
            Some(Ok(removed)) if removed > 0 => {
                pipe::say(&format!(
                    "{why}; removed {} of the oldest recordings; a new recording begins",
                    count(removed)
                ));
                store.note_failure();
                self.shown.seen().note_store_failure(&why);
                return Ok(());
            }
            Some(Err(err)) => pipe::say(&format!("{err:#}")),
            None | Some(Ok(_)) => {}
        }
        self.go_without(&store, &why);
        Ok(())
    }

    /// Measures the next piece without the store, for the reason `why`.
    fn go_without(&mut self, store: &Store, why: &str) {
        let without = (self.was_without * 2).clamp(WITHOUT, WITHOUT_AT_MOST);
        (self.without, self.was_without) = (Some(without), without);
        pipe::say(&format!(
            "the store cannot be written: {why}; measuring goes on, and recording is tried again \
             in {} s, or as soon as the store can be written",
            count(without.as_secs())
        ));
        store.note_failure();
        self.shown.seen().note_store_failure(why);
    }

    /// A piece ended before its time, and the next begins at once.
    fn note_cut(&mut self, cut: &EarlyEnd) {
        self.measures_again();
        match cut {
            EarlyEnd::StoreLost(why) => {
                pipe::say(&format!("{why}; laggard tries to start a new recording"))
            }
            EarlyEnd::StoreBack => {
                self.without = None;
                pipe::say("the store can be written again; a new recording begins");
            }
            // The next piece says which.
            EarlyEnd::Cpus => {}
        }
    }
}

impl FirstPiece<'_> {
    /// What is known of the machine.
    pub(crate) fn host(&self) -> &Host {
        &self.first.manifest().host
    }

    /// What is measured, in words.
    pub(crate) fn in_words(&self) -> String {
        let manifest = self.first.manifest();
        let mut services: Vec<String> = Vec::new();
        let mut cpus = Vec::new();
        for line in &manifest.lines {
            let name = laggard_model::name::line_name(line.service, line.route);
            if !services.contains(&name) {
                services.push(name);
            }
            if !cpus.contains(&line.cpu) {
                cpus.push(line.cpu);
            }
        }
        let causes = if self.first.explains() {
            "with causes"
        } else {
            "without causes"
        };
        format!(
            "{} every {} on {} CPUs, {causes}, {} caveats",
            services.join(", "),
            manifest.plan.period_ns,
            cpus.len(),
            manifest.caveats.len()
        )
    }

    /// Measures until interrupted.
    ///
    /// # Errors
    /// When measuring cannot begin at all. Once it has, it is tried again and again; and
    /// a store that cannot be written ends nothing.
    pub(crate) fn run(self, interrupted: &AtomicBool) -> anyhow::Result<()> {
        let Self {
            mut pieces,
            first,
            place,
        } = self;
        let mut next = Ok((first, place));
        loop {
            let began = Instant::now();
            let ended = next.and_then(|(session, place)| pieces.measure(session, place.as_ref()));
            if pieces.late.as_ref().is_some_and(OnLateRun::is_stopped) {
                interrupted.store(true, Ordering::Relaxed);
            }
            match ended {
                // It took the machine from its own collector: at once it would again.
                Ok(PieceEnd::Early) if !interrupted.load(Ordering::Relaxed) => {
                    pieces.stand_still("measuring ended itself".into(), interrupted);
                }
                Ok(PieceEnd::Cut(cut)) => pieces.note_cut(&cut),
                // The time without the store is over. If it fails again, that is longer.
                Ok(_) if pieces.without.take().is_some() => pieces.measures_again(),
                Ok(_) => {
                    pieces.was_without = Duration::ZERO;
                    pieces.measures_again();
                }
                Err(err) => match pieces.live_with(err) {
                    Ok(()) => {}
                    Err(err) if pieces.has_begun => {
                        pieces.stand_still(err.in_full(), interrupted);
                    }
                    Err(err) => return Err(err.into()),
                },
            }
            let apart = APART.min(pieces.every);
            while began.elapsed() < apart && !interrupted.load(Ordering::Relaxed) {
                std::thread::sleep(Duration::from_millis(100));
            }
            if interrupted.load(Ordering::Relaxed) {
                if let Some(late) = pieces.late.take() {
                    late.end(false, Look::default())?;
                }
                return Ok(());
            }
            next = pieces.session(interrupted);
        }
    }
}

/// Whether a piece that was to be so long was measured to its end: nothing but measuring
/// itself ends one earlier, unless somebody interrupts it. Its clock and this one may
/// differ by what it takes to begin.
fn is_whole(planned: Duration, took: Duration) -> bool {
    took + Duration::from_millis(100) >= planned
}

/// Whether the disk has no more room, or none for this user.
fn is_full(err: &SessionError) -> bool {
    is_caused_by(err, &[ErrorKind::StorageFull, ErrorKind::QuotaExceeded])
}

/// Whether a file or a directory on the way to it was missing.
fn is_missing(err: &SessionError) -> bool {
    is_caused_by(err, &[ErrorKind::NotFound, ErrorKind::NotADirectory])
}

/// Whether an input or output error of one of these kinds is among the causes of `err`.
fn is_caused_by(err: &SessionError, kinds: &[ErrorKind]) -> bool {
    let first: &dyn std::error::Error = err;
    std::iter::successors(Some(first), |err| err.source())
        .filter_map(|err| err.downcast_ref::<io::Error>())
        .any(|err| kinds.contains(&err.kind()))
}

/// How long until the wall clock comes to a whole multiple of `every`.
fn until_next(every: Duration) -> Duration {
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    left_of(every, now)
}

fn left_of(every: Duration, now: Duration) -> Duration {
    let gone = Nanos::from(now).ns() % Nanos::from(every).ns().max(1);
    let left = every.saturating_sub(Duration::from_nanos(gone));
    if left < every / SMALL_PART {
        left + every
    } else {
        left
    }
}

/// What `serve` measures with, and what it keeps.
fn plan(args: &ServeArgs) -> Plan {
    Plan {
        probe: args.backend.0.clone(),
        cpus: args.cpus.clone(),
        services: Some(args.services.clone()),
        period: args.period,
        stages: args.stages.as_ref().map(|stages| stages.0.clone()),
        threshold: args.threshold,
        episodes: match args.episodes {
            EpisodesArg::Auto => EpisodesChoice::Auto,
            EpisodesArg::On => EpisodesChoice::On,
            EpisodesArg::Off => EpisodesChoice::Off,
        },
        stack_rate: args.stack_rate,
        keep: Keep::Tail,
        max_episodes_per_minute: EPISODES,
        command: std::env::args_os()
            .map(|arg| arg.to_string_lossy().into_owned())
            .collect(),
        ..Plan::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_piece_that_ends_before_its_time_is_not_whole() {
        let hour = Duration::from_secs(3_600);

        assert!(is_whole(hour, hour) && is_whole(hour, hour + APART));
        assert!(!is_whole(hour, hour / 2) && !is_whole(hour, Duration::ZERO));
    }

    #[test]
    fn a_piece_ends_with_the_hour_and_a_last_minute_goes_on_through_the_next() {
        let hour = Duration::from_secs(3_600);
        let left = |seconds| left_of(hour, Duration::from_secs(seconds)).as_secs();

        assert_eq!(left(7_200), 3_600);
        assert_eq!(left(7_203), 3_597);
        assert_eq!(left(10_000), 800);
        assert_eq!(left(10_740), 60 + 3_600);
    }
}
