//! Pieces of measuring, one after the other.

use std::io::{self, ErrorKind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use laggard_answer::live::LateFinder;
use laggard_console::on_late::{self, OnLateRun};
use laggard_console::pipe;
use laggard_measure::LiveNames;
use laggard_model::text::count;
use laggard_model::{Cpu, CpuList, Host, Keep, Names, Nanos};
use laggard_record::Destination;
use laggard_session::{Plan, ProbeChoice, ScriptPace, Session, SessionError};
use laggard_view::text::Look;

use super::cpus::{CpuWatch, OwnMachine};
use super::early_end::{EarlyEnd, EarlyEndRequest};
use super::exporter::{Exporter, PieceWatch};
use super::notify;
use super::shown::ServedState;
use super::store::Store;
use crate::args::ServeArgs;

/// Length of a piece without a store.
const DAY: Duration = Duration::from_secs(24 * 60 * 60);
/// If the rest until the next whole multiple is a smaller fraction of a piece than one in this
/// number, the piece includes the next one.
const SMALL_PART: u32 = 20;
/// Minimum time between the starts of two pieces, whatever ends them.
const MIN_PIECE_INTERVAL: Duration = Duration::from_secs(10);
/// Minimum and maximum time without the store, after a write to it failed.
const MIN_WITHOUT_STORE: Duration = Duration::from_secs(60);
const MAX_WITHOUT_STORE: Duration = Duration::from_secs(60 * 60);
/// Minimum and maximum time until the next attempt, after measuring failed once it had started.
const MIN_RETRY: Duration = Duration::from_secs(10);
const MAX_RETRY: Duration = Duration::from_secs(5 * 60);
/// Maximum number of late wakeups per minute that are kept, in addition to each new maximum of a
/// line. Each takes some 10 kB.
const MAX_EPISODES_PER_MINUTE: u64 = 20;

#[derive(Debug, Eq, PartialEq)]
enum PieceEnd {
    /// At its planned time.
    Whole,
    /// Earlier, without a request.
    Early,
    Cut(EarlyEnd),
}

/// Pieces of measuring, repeated until the program ends.
pub(crate) struct ServedPieces {
    plan: Plan,
    /// CPUs that the user named; `None` means all CPUs that this process may use.
    wanted_cpus: Option<CpuList>,
    /// Changes since the current or next piece was prepared.
    cpu_watch: Option<CpuWatch>,
    every: Duration,
    store: Option<Arc<Store>>,
    late: Option<OnLateRun>,
    cut: EarlyEndRequest,
    shown: Arc<ServedState>,
    /// Duration of the measurement without the store, after it could not be written.
    without: Option<Duration>,
    /// Last time without the store; zero after a successful write.
    last_without: Duration,
    /// Last time without measuring, after a failure; zero after a success.
    last_wait: Duration,
    /// Last printed reason. It is not printed again.
    printed: Option<String>,
    /// True once measuring has started for the first time.
    has_begun: bool,
    /// True until the overhead was printed.
    is_new: bool,
    /// CPUs of the previous piece; empty for the first one.
    cpus: CpuList,
}

/// First piece, ready to start.
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
            last_without: Duration::ZERO,
            last_wait: Duration::ZERO,
            printed: None,
            has_begun: false,
            is_new: true,
            cpus: CpuList::default(),
        }
    }

    /// Prepares the first piece, so that an unsupported measurement fails at once.
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

    /// Returns a piece that starts now, and the place of its recording.
    fn session<'a>(
        &mut self,
        interrupted: &'a AtomicBool,
    ) -> Result<(Session<'a>, Option<Destination>), SessionError> {
        let place = self.next_place();
        self.cpu_watch = match self.plan.probe {
            // A script defines its CPUs.
            ProbeChoice::Script(_) => None,
            ProbeChoice::Best | ProbeChoice::Bpf | ProbeChoice::Perf | ProbeChoice::User => {
                Some(CpuWatch::new(OwnMachine, self.wanted_cpus.clone()))
            }
        };
        // CPUs that the user named are skipped while they are offline. At the start of the program
        // they are not skipped, so that the error shows a mistyped number.
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

    /// Returns the place of the next recording. Creates a removed store again. If that is
    /// impossible, measuring continues without the store.
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
        self.print_cpus(manifest.lines.iter().map(|line| line.cpu).collect());
        // Read before measuring, because looking names up takes time.
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
        // A request after the end of the previous piece is obsolete.
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
        // A write to a removed recording can fail before the next check of the store.
        if let (Err(err), None, Some(store), Some(name)) = (&ended, &cut, &self.store, &name)
            && err.is_of_recording()
            && is_missing(err)
            && let Some(fault) = store.loss(name)
        {
            self.shown.seen().note_store_failure(&fault);
            cut = Some(EarlyEnd::StoreLost(fault));
        }
        match (ended, cut) {
            // The recording cannot be closed, because its directory was removed.
            (_, Some(lost @ EarlyEnd::StoreLost(_))) => Ok(PieceEnd::Cut(lost)),
            (Ok(_), Some(cut)) => Ok(PieceEnd::Cut(cut)),
            (Ok(_), None) if is_whole => Ok(PieceEnd::Whole),
            (Ok(_), None) => Ok(PieceEnd::Early),
            (Err(err), _) => Err(err),
        }
    }

    /// CPUs can go offline and come online. Prints the measured CPUs if they have changed since the
    /// previous piece.
    fn print_cpus(&mut self, now: CpuList) {
        let before = std::mem::replace(&mut self.cpus, now);
        if before.is_empty() {
            return;
        }
        let only = |cpus: &CpuList, not: &CpuList| -> CpuList {
            let ids = cpus.as_slice().iter().copied();
            ids.filter(|&cpu: &Cpu| !not.contains(cpu)).collect()
        };
        for (cpus, what) in [
            (only(&before, &self.cpus), "measured no longer"),
            (only(&self.cpus, &before), "measured from now"),
        ] {
            if !cpus.is_empty() {
                pipe::say(&format!("CPU {cpus} is {what}"));
            }
        }
    }

    /// Measuring is impossible at the moment. Waits, longer each time, and publishes the reason.
    fn wait_to_retry(&mut self, why: String, interrupted: &AtomicBool) {
        let shortest = MIN_RETRY.min(self.every);
        let wait = (self.last_wait * 2).clamp(shortest, MAX_RETRY);
        self.last_wait = wait;
        if self.printed.as_ref() != Some(&why) {
            pipe::say(&format!(
                "nothing is measured: {why}; it is tried again in {} s, and then every {} s at most",
                count(wait.as_secs()),
                count(MAX_RETRY.as_secs())
            ));
            self.printed = Some(why.clone());
        }
        {
            let mut figures = self.shown.seen();
            figures.metrics.note_failure();
            figures.unmeasured = Some(why);
        }
        let until = Instant::now() + wait;
        let mut cpus = CpuWatch::new(OwnMachine, self.wanted_cpus.clone());
        while Instant::now() < until && !interrupted.load(Ordering::Relaxed) {
            // The reason may have been an offline CPU.
            if cpus.has_changed() {
                break;
            }
            // Without this, the watchdog would end a program that is about to recover.
            notify::alive(Instant::now());
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    /// Notes that a piece was measured to its end.
    fn note_success(&mut self) {
        self.last_wait = Duration::ZERO;
        if self.printed.take().is_some() {
            pipe::say("it is measured again");
        }
    }

    /// Continues without the store for a while, if the store caused the error.
    fn continue_without_store(&mut self, err: SessionError) -> Result<(), SessionError> {
        let Some(store) = self.store.clone().filter(|_| err.is_of_recording()) else {
            return Err(err);
        };
        let why = err.in_full();
        match is_full(&err).then(|| store.make_room()) {
            // There is room again, so the next piece is recorded.
            Some(Ok(removed)) if removed > 0 => {
                pipe::say(&format!(
                    "{why}; removed {} of the oldest recordings; a new recording starts",
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
        let without = (self.last_without * 2).clamp(MIN_WITHOUT_STORE, MAX_WITHOUT_STORE);
        (self.without, self.last_without) = (Some(without), without);
        pipe::say(&format!(
            "cannot write to the store: {why}; measuring continues; recording is retried in {} s, or as soon as the store is writable",
            count(without.as_secs())
        ));
        store.note_failure();
        self.shown.seen().note_store_failure(why);
    }

    /// Notes that a piece ended early. The next one starts at once.
    fn note_cut(&mut self, cut: &EarlyEnd) {
        self.note_success();
        match cut {
            EarlyEnd::StoreLost(why) => {
                pipe::say(&format!("{why}; laggard tries to start a new recording"))
            }
            EarlyEnd::StoreBack => {
                self.without = None;
                pipe::say("the store can be written again; a new recording starts");
            }
            // The next piece prints the change.
            EarlyEnd::Cpus => {}
        }
    }
}

impl FirstPiece<'_> {
    /// Returns the known facts about the machine.
    pub(crate) fn host(&self) -> &Host {
        &self.first.manifest().host
    }

    /// Describes the measurement.
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
            "{} every {} on {} CPUs, {causes}, {} warnings",
            services.join(", "),
            manifest.plan.period_ns,
            cpus.len(),
            manifest.caveats.len()
        )
    }

    /// Measures until interrupted.
    ///
    /// # Errors
    /// If the first piece cannot start. Later failures are retried, and a store that
    /// cannot be written does not end the program.
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
                // Another program took the machine from the collector. An immediate retry would
                // fail again.
                Ok(PieceEnd::Early) if !interrupted.load(Ordering::Relaxed) => {
                    pieces.wait_to_retry("measuring ended itself".into(), interrupted);
                }
                Ok(PieceEnd::Cut(cut)) => pieces.note_cut(&cut),
                // The time without the store is over. If the store fails again, the next time is
                // longer.
                Ok(_) if pieces.without.take().is_some() => pieces.note_success(),
                Ok(_) => {
                    pieces.last_without = Duration::ZERO;
                    pieces.note_success();
                }
                Err(err) => match pieces.continue_without_store(err) {
                    Ok(()) => {}
                    Err(err) if pieces.has_begun => {
                        pieces.wait_to_retry(err.in_full(), interrupted);
                    }
                    Err(err) => return Err(err.into()),
                },
            }
            let apart = MIN_PIECE_INTERVAL.min(pieces.every);
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

/// Returns true if a piece of the length `planned` was measured to its end. Only a failure of
/// measuring or an interruption ends a piece earlier. The clock of the piece and this clock may
/// differ by its start-up time.
fn is_whole(planned: Duration, took: Duration) -> bool {
    took + Duration::from_millis(100) >= planned
}

/// Returns true if the disk is full, or if the quota of this user is exhausted.
fn is_full(err: &SessionError) -> bool {
    is_caused_by(err, &[ErrorKind::StorageFull, ErrorKind::QuotaExceeded])
}

/// Returns true if a file, or a directory in its path, was missing.
fn is_missing(err: &SessionError) -> bool {
    is_caused_by(err, &[ErrorKind::NotFound, ErrorKind::NotADirectory])
}

/// Returns true if an I/O error of one of these kinds is among the causes of `err`.
fn is_caused_by(err: &SessionError, kinds: &[ErrorKind]) -> bool {
    let first: &dyn std::error::Error = err;
    std::iter::successors(Some(first), |err| err.source())
        .filter_map(|err| err.downcast_ref::<io::Error>())
        .any(|err| kinds.contains(&err.kind()))
}

/// Returns the time until the wall clock reaches a whole multiple of `every`.
fn until_next(every: Duration) -> Duration {
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    rest_of(every, now)
}

fn rest_of(every: Duration, now: Duration) -> Duration {
    let gone = Nanos::from(now).ns() % Nanos::from(every).ns().max(1);
    let left = every.saturating_sub(Duration::from_nanos(gone));
    if left < every / SMALL_PART {
        left + every
    } else {
        left
    }
}

/// Plan of the measurement of `serve`.
fn plan(args: &ServeArgs) -> Plan {
    Plan {
        probe: args.backend.clone(),
        cpus: args.cpus.clone(),
        services: Some(args.services.clone()),
        period: args.period,
        stages: args.stages.as_ref().map(|stages| stages.0.clone()),
        threshold: args.threshold,
        episodes: args.episodes,
        stack_rate: args.stack_rate,
        keep: Keep::Tail,
        max_episodes_per_minute: MAX_EPISODES_PER_MINUTE,
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
    fn piece_that_ends_early_is_not_whole() {
        let hour = Duration::from_secs(3_600);

        assert!(is_whole(hour, hour) && is_whole(hour, hour + MIN_PIECE_INTERVAL));
        assert!(!is_whole(hour, hour / 2) && !is_whole(hour, Duration::ZERO));
    }

    #[test]
    fn piece_ends_with_the_hour_and_includes_the_next_after_a_last_minute() {
        let hour = Duration::from_secs(3_600);
        let left = |seconds| rest_of(hour, Duration::from_secs(seconds)).as_secs();

        assert_eq!(left(7_200), 3_600);
        assert_eq!(left(7_203), 3_597);
        assert_eq!(left(10_000), 800);
        assert_eq!(left(10_740), 60 + 3_600);
    }
}
