//! The probe of a Windows machine: the sources that a request means, together.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use laggard_model::{
    Account, Backend, Batch, Caveat, CaveatKind, Line, LineId, LossReason, Losses, Nanos, OwnCost,
    Stage, Tid,
};

use super::awake::StayAwake;
use super::clock;
use super::etw::{KernelEvents, NoEvents};
use super::stamper::{EventSource, Stamper};
use super::threads::TimerThreads;
use super::usage::UsedSoFar;
use super::wdmlat::DriverSource;
use laggard_measure::flight::KernelRecord;
use laggard_measure::probe::{Drive, Pace, Probe, ProbeError, Request};
use laggard_measure::source::Source;
use laggard_measure::sources::Sources;

/// From the first expiry to the recording.
const WARM_UP: Nanos = Nanos::from_ms(500);
/// The stages that the kernel's events tell of.
const OF_EVENTS: [Stage; 2] = [Stage::Waking, Stage::Running];

/// The kernel's events, or why there are none.
type EventsOrNone = Result<Arc<KernelEvents>, NoEvents>;

/// Measures a Windows machine.
#[derive(Debug)]
pub struct WindowsProbe {
    /// In the order of their lines: threads, then the driver.
    sources: Sources,
    /// What the kernel tells meanwhile, or why it does not; `None`: nobody asked.
    events: Option<EventsOrNone>,
    /// Where there are events.
    stamper: Option<Stamper>,
    awake: Option<StayAwake>,
    /// That it slept nevertheless.
    slept: Option<Caveat>,
    began: Option<UsedSoFar>,
    ended: Option<UsedSoFar>,
}

impl WindowsProbe {
    /// Readies the threads; nothing is measured yet.
    ///
    /// # Errors
    /// When the request is out of range, or a service that is not optional
    /// cannot be measured.
    pub fn new(mut request: Request) -> Result<Self, ProbeError> {
        let mut met = BTreeSet::new();
        request.services.retain(|one| met.insert(*one));
        if let Drive::Uio(path) = &request.drive {
            return Err(ProbeError::Source {
                path: path.clone(),
                reason: "Windows has no UIO devices; use a timer".into(),
            });
        }
        let pace = Pace::of(&request);
        let asked = request.stages.clone();
        let mut of_driver = request.clone();
        let mut of_threads = request;
        of_driver.services.retain(|one| one.is_of_driver());
        of_threads.services.retain(|one| !one.is_of_driver());
        let mut sources: Vec<Box<dyn Source>> = Vec::new();
        let has_threads = !of_threads.services.is_empty() || of_driver.services.is_empty();
        if has_threads {
            sources.push(Box::new(TimerThreads::new(of_threads)?));
        }
        if !of_driver.services.is_empty() {
            sources.push(Box::new(DriverSource::new(of_driver)?));
        }
        let sources = Sources::new(sources, pace, clock::now)?;
        // After the threads have taken their class: who reads events is then behind them.
        let (events, stages) = match has_threads {
            true => events(asked.as_deref())?,
            // Where the driver's run Windows chooses.
            false => (None, Vec::new()),
        };
        let stamper = events
            .as_ref()
            .and_then(|one| one.as_ref().ok())
            .map(|events| {
                let threads = (0..).map(|place| sources.thread_of(LineId::at(place)?));
                let lines = sources.lines().iter().copied().zip(threads);
                Stamper::new(Arc::clone(events) as Arc<dyn EventSource>, lines, stages)
            });
        Ok(Self {
            sources,
            events,
            stamper,
            awake: None,
            slept: None,
            began: None,
            ended: None,
        })
    }

    fn usage(&self, at: Nanos) -> UsedSoFar {
        let sources = self.sources.iter();
        let measuring = sources.fold(Nanos::ZERO, |sum, one| sum + one.measuring_cpu());
        UsedSoFar::at(at, measuring)
    }
}

impl Probe for WindowsProbe {
    fn backend(&self) -> Backend {
        match (&self.stamper, self.sources.backend()) {
            (Some(_), Backend::User) => Backend::Etw,
            (_, backend) => backend,
        }
    }

    fn record_of_kernel(&self) -> Option<Arc<dyn KernelRecord>> {
        let events = self.events.as_ref()?.as_ref().ok()?;
        Some(Arc::clone(events) as Arc<dyn KernelRecord>)
    }

    fn pace(&self) -> Pace {
        self.sources.pace()
    }

    fn lines(&self) -> &[Line] {
        self.sources.lines()
    }

    fn thread_of(&self, line: LineId) -> Option<Tid> {
        self.sources.thread_of(line)
    }

    fn caveats(&self) -> Vec<Caveat> {
        let mut caveats: Vec<Caveat> = self.sources.iter().flat_map(|one| one.caveats()).collect();
        caveats.extend(self.slept.clone());
        caveats.extend(self.events.iter().flat_map(of_events));
        if self.has_given_up() && self.failure().is_none() {
            caveats.push(Caveat::new(
                CaveatKind::Overload,
                "measuring took most of its CPUs' time and left its own collector none for 3 s, so it ended itself",
                "record with a longer --period, fewer services or fewer CPUs",
            ));
        }
        caveats
    }

    fn start(&mut self) -> Result<Nanos, ProbeError> {
        self.awake = Some(StayAwake::ask());
        let begin = self.sources.start(WARM_UP)?;
        self.began = Some(self.usage(begin));
        Ok(begin)
    }

    fn now(&self) -> Nanos {
        clock::now()
    }

    fn pause(&mut self, time: Duration) {
        std::thread::sleep(time);
    }

    fn drain(&mut self, into: &mut Batch) {
        let Some(stamper) = &mut self.stamper else {
            self.sources.drain(into);
            return;
        };
        let mut came = Batch::default();
        self.sources.drain(&mut came);
        stamper.hold(came);
        stamper.release(self.ended.is_some(), into);
    }

    fn has_given_up(&self) -> bool {
        self.sources.given_up().is_some()
    }

    fn failure(&self) -> Option<String> {
        self.sources.failure()
    }

    fn begin_anew(&mut self) -> Nanos {
        if let Some(stamper) = &mut self.stamper {
            stamper.forget();
        }
        self.sources.begin_anew()
    }

    /// Records no expiry from now on, and waits for what was asked before.
    fn stop(&mut self) -> Nanos {
        if let Some(ended) = &self.ended {
            return ended.at;
        }
        // What was due after the threads gave up nobody asked for.
        let ended = self.sources.given_up().unwrap_or_else(clock::now);
        self.ended = Some(self.usage(ended));
        self.sources.end_at(ended);
        if let (Some(stamper), Some(_)) = (&self.stamper, self.began) {
            stamper.wait();
        }
        self.slept = self.awake.take().and_then(|awake| awake.caveat());
        ended
    }

    fn accounts(&self) -> Vec<Account> {
        let mut accounts = self.sources.accounts();
        if let Some(stamper) = &self.stamper {
            for (account, unseen) in accounts.iter_mut().zip(stamper.unseen()) {
                account.losses.add(LossReason::WakingUnseen, unseen);
            }
        }
        accounts
    }

    /// All losses since measuring began, also those not yet settled.
    fn losses(&self) -> Losses {
        let mut losses = self.sources.losses(self.ended.is_some());
        let unseen = self.stamper.iter().flat_map(Stamper::unseen).sum();
        losses.add(LossReason::WakingUnseen, unseen);
        losses
    }

    /// What measuring has cost: until its end, without what was done before
    /// and afterwards.
    fn cost(&self) -> OwnCost {
        let ended = self.ended.unwrap_or_else(|| self.usage(clock::now()));
        let began = self.began.unwrap_or(ended);
        let measuring = ended.measuring_cpu.saturating_sub(began.measuring_cpu);
        let all = ended.cpu.saturating_sub(began.cpu);
        OwnCost {
            wall_ns: ended.at.saturating_sub(began.at),
            measuring_cpu_ns: measuring,
            other_cpu_ns: all.saturating_sub(measuring),
            programs: Vec::new(),
            written_bytes: 0,
            resident_bytes: ended.resident_bytes,
            // Not told by thread: a caveat says so.
            measuring_faults: 0,
            ..OwnCost::default()
        }
    }
}

/// The kernel's events, and which stages of them are wanted. `asked`: those on the way;
/// `None`: all that can be.
///
/// # Errors
/// When some were asked for by name and cannot be had.
fn events(asked: Option<&[Stage]>) -> Result<(Option<EventsOrNone>, Vec<Stage>), ProbeError> {
    let is_wanted = |stage: &Stage| asked.is_none_or(|asked| asked.contains(stage));
    let stages: Vec<Stage> = OF_EVENTS.into_iter().filter(is_wanted).collect();
    if stages.is_empty() {
        return Ok((None, stages));
    }
    match KernelEvents::begin() {
        Err(why) if asked.is_some() => Err(ProbeError::System {
            action: format!("stamp the stages waking and running: {why}"),
            remedy: format!("{}, or ask for no stages", why.remedy()),
            said: None,
        }),
        events => Ok((Some(events), stages)),
    }
}

/// What is to be said of the kernel's events.
fn of_events(events: &EventsOrNone) -> Vec<Caveat> {
    let caveat = |what: String, advice: &str| Caveat::new(CaveatKind::AbilityAbsent, what, advice);
    let events = match events {
        Ok(events) => events,
        Err(why) => {
            return vec![caveat(
                format!(
                    "the kernel's events cannot be had, so that no late activation is explained, and no stage before the user's is seen: {why}"
                ),
                why.remedy(),
            )];
        }
    };
    let ended = events.has_ended().then(|| caveat(
        "the session of the kernel's events ended meanwhile: what was late from then on is not explained, and its stages are not seen".into(),
        "leave the session laggard-NUMBER-TIME alone (`logman query -ets` lists it), and record anew",
    ));
    let lost = (events.lost() > 0).then(|| caveat(
        format!("{} of the kernel's events were lost, at least: stages and causes of those moments are not known, and names may be missing", events.lost()),
        "record with fewer programs that switch all the time",
    ));
    let unsampled = (!events.samples()).then(|| caveat(
        "what ran is not sampled, so that the code of a thread that cannot be preempted stays unnamed: the right SeSystemProfilePrivilege is not held".into(),
        "start the terminal with `Run as administrator`",
    ));
    [ended, lost, unsampled].into_iter().flatten().collect()
}

impl Drop for WindowsProbe {
    fn drop(&mut self) {
        self.stop();
    }
}

#[cfg(test)]
mod tests {
    use laggard_model::{Every, Service, Stage};

    use super::super::allowed_cpus;
    use super::*;

    fn request(services: &[Service], optional: &[Service]) -> Request {
        Request {
            cpus: allowed_cpus(),
            services: services.to_vec(),
            optional: optional.to_vec(),
            period: Nanos::from_ms(2),
            every: Every::default(),
            dither: true,
            seed: 7,
            drive: Drive::Timer,
            stages: None,
            contexts: None,
        }
    }

    /// Measures for half a second, as a session does. Returns all that came, and until
    /// when.
    fn measured(probe: &mut WindowsProbe) -> (Batch, Nanos) {
        let mut batch = Batch::default();
        let begun = probe.start().unwrap();
        while probe.now() < begun + Nanos::from_ms(500) {
            probe.pause(Duration::from_millis(50));
            probe.drain(&mut batch);
        }
        let ended = probe.stop();
        probe.drain(&mut batch);
        (batch, ended)
    }

    #[test]
    fn served_missed_and_lost_are_what_was_planned_of_every_line() {
        let mut probe = WindowsProbe::new(request(&[Service::Other], &[])).unwrap();

        let (batch, ended) = measured(&mut probe);

        for (place, account) in probe.accounts().iter().enumerate() {
            let line = LineId::at(place).unwrap();
            let own = || batch.iter().filter(|one| one.line == line);
            let came = own().count() as u64;
            assert!(came > 0, "{place}");
            assert_eq!(Some(came + account.lost), account.planned, "{place}");
            for one in own().filter(|one| !one.missed) {
                assert!(one.expiry < ended, "{one:?}");
                let stages: Vec<usize> = (0..one.steps.len())
                    .filter(|&stage| one.steps[stage].is_some())
                    .collect();
                assert_eq!(stages, [Stage::User.index()], "{one:?}");
            }
        }
    }

    #[test]
    fn the_end_waits_for_no_expiry_that_nobody_wants_any_more() {
        let mut wanted = request(&[Service::Other], &[]);
        (wanted.period, wanted.dither) = (Nanos::from_secs(10), false);
        let mut probe = WindowsProbe::new(wanted).unwrap();
        let begun = probe.start().unwrap();
        while probe.now() < begun {
            probe.pause(Duration::from_millis(50));
        }

        let ended = probe.stop();
        let waited = probe.now().saturating_sub(ended);
        probe.drain(&mut Batch::default());

        // A third of what is left of the period.
        assert!(waited < Nanos::from_secs(3), "{waited}");
        for account in probe.accounts() {
            assert_eq!((account.planned, account.lost), (Some(0), 0));
        }
    }

    #[test]
    fn a_process_is_of_the_real_time_class_while_it_measures_alone() {
        let _alone = super::super::priority::CLASS.lock().unwrap();
        let services = [Service::Realtime(31), Service::Realtime(24), Service::Other];
        let class = super::super::priority::class;
        let before = class();
        let mut probe = match WindowsProbe::new(request(&services, &[Service::Other])) {
            Ok(probe) => probe,
            Err(err) => {
                println!("skipped: the real-time class: {err}");
                return;
            }
        };
        let meanwhile = class();

        measured(&mut probe);

        assert_ne!(meanwhile, before);
        assert_eq!(class(), before);
        assert!(
            probe
                .caveats()
                .iter()
                .any(|one| one.what.starts_with("`other` is not measured: ")),
            "{:?}",
            probe.caveats()
        );
    }

    #[test]
    fn a_service_of_another_system_is_refused_and_says_what_there_is() {
        let said = WindowsProbe::new(request(&[Service::Fifo(90)], &[]))
            .unwrap_err()
            .to_string();

        assert!(said.contains("`fifo:90`"), "{said}");
        assert!(
            said.ends_with("use realtime:17 to realtime:31, mmcss, other, or with the driver dpc and kthread:16 to kthread:31"),
            "{said}"
        );
    }
}
