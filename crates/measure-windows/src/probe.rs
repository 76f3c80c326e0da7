//! Probe of a Windows machine: the sources of a request, combined.

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
use super::usage::Usage;
use super::wdmlat::DriverSource;
use laggard_measure::flight::KernelRecord;
use laggard_measure::probe::{Drive, Pace, Probe, ProbeError, Request};
use laggard_measure::source::Source;
use laggard_measure::sources::Sources;

/// Time from the first expiry to the recording.
const WARM_UP: Nanos = Nanos::from_ms(500);
/// Stages that kernel events provide.
const EVENT_STAGES: [Stage; 2] = [Stage::Waking, Stage::Running];

/// Kernel events, or the reason why they are missing.
type EventsOrNone = Result<Arc<KernelEvents>, NoEvents>;

/// Probe of a Windows machine.
#[derive(Debug)]
pub struct WindowsProbe {
    /// Sources in the order of their lines: threads, then the driver.
    sources: Sources,
    /// Kernel events during the measurement, or the reason why they are missing; `None` if not
    /// requested.
    events: Option<EventsOrNone>,
    /// Present if there are events.
    stamper: Option<Stamper>,
    awake: Option<StayAwake>,
    /// Warning that the machine slept.
    slept: Option<Caveat>,
    began: Option<Usage>,
    ended: Option<Usage>,
}

impl WindowsProbe {
    /// Prepares the threads; the measurement does not start yet.
    ///
    /// # Errors
    ///
    /// Returns an error if the request is out of range, or if a required service cannot be
    /// measured.
    pub fn new(mut request: Request) -> Result<Self, ProbeError> {
        let mut met = BTreeSet::new();
        request.services.retain(|service| met.insert(*service));
        if let Drive::Uio(path) = &request.drive {
            return Err(ProbeError::Source {
                path: path.clone(),
                reason: "Windows has no UIO devices; use a timer".into(),
            });
        }
        let pace = Pace::new(&request);
        let requested = request.stages.clone();
        let mut of_driver = request.clone();
        let mut of_threads = request;
        of_driver.services.retain(|service| service.is_of_driver());
        of_threads
            .services
            .retain(|service| !service.is_of_driver());
        let mut sources: Vec<Box<dyn Source>> = Vec::new();
        let has_threads = !of_threads.services.is_empty() || of_driver.services.is_empty();
        if has_threads {
            sources.push(Box::new(TimerThreads::new(of_threads)?));
        }
        if !of_driver.services.is_empty() {
            sources.push(Box::new(DriverSource::new(of_driver)?));
        }
        let sources = Sources::new(sources, pace, clock::now)?;
        // After the threads have set their class, so that the reader of events is behind them.
        let (events, stages) = if has_threads {
            events(requested.as_deref())?
        } else {
            // Windows chooses where the driver's services run.
            (None, Vec::new())
        };
        let stamper = events
            .as_ref()
            .and_then(|events| events.as_ref().ok())
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

    fn usage(&self, now: Nanos) -> Usage {
        let sources = self.sources.iter();
        let measuring = sources.fold(Nanos::ZERO, |sum, source| sum + source.measuring_cpu());
        Usage::at(now, measuring)
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
        let mut caveats: Vec<Caveat> = self
            .sources
            .iter()
            .flat_map(|source| source.caveats())
            .collect();
        caveats.extend(self.slept.clone());
        caveats.extend(self.events.iter().flat_map(of_events));
        if self.has_given_up() && self.failure().is_none() {
            caveats.push(Caveat::new(
                CaveatKind::Overload,
                "the measurement stopped early: measuring threads used most of their CPUs' time, and the collector did not run for 3 s",
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

    /// Stops recording expiries and waits for the expiries that were requested before.
    fn stop(&mut self) -> Nanos {
        if let Some(ended) = &self.ended {
            return ended.at;
        }
        // Expiries that were due after the threads gave up were not requested.
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

    /// Returns all losses since the start of the measurement, including unsettled ones.
    fn losses(&self) -> Losses {
        let mut losses = self.sources.losses(self.ended.is_some());
        let unseen = self.stamper.iter().flat_map(Stamper::unseen).sum();
        losses.add(LossReason::WakingUnseen, unseen);
        losses
    }

    /// Returns the overhead of the measurement until its end, without the preparation and later
    /// work.
    fn cost(&self) -> OwnCost {
        let ended = self.ended.unwrap_or_else(|| self.usage(clock::now()));
        let began = self.began.unwrap_or(ended);
        let measuring = ended.measuring_cpu.saturating_sub(began.measuring_cpu);
        let total = ended.cpu.saturating_sub(began.cpu);
        OwnCost {
            wall_ns: ended.at.saturating_sub(began.at),
            measuring_cpu_ns: measuring,
            other_cpu_ns: total.saturating_sub(measuring),
            programs: Vec::new(),
            written_bytes: 0,
            resident_bytes: ended.resident_bytes,
            // Not available per thread. A warning reports this.
            measuring_faults: 0,
            ..OwnCost::default()
        }
    }
}

/// Returns the kernel events and the stages to take from them. `requested` are the requested
/// intermediate stages; `None` means all available ones.
///
/// # Errors
///
/// Returns an error if the user named stages that are not available.
fn events(requested: Option<&[Stage]>) -> Result<(Option<EventsOrNone>, Vec<Stage>), ProbeError> {
    let is_wanted = |stage: &Stage| requested.is_none_or(|requested| requested.contains(stage));
    let stages: Vec<Stage> = EVENT_STAGES.into_iter().filter(is_wanted).collect();
    if stages.is_empty() {
        return Ok((None, stages));
    }
    match KernelEvents::begin() {
        Err(why) if requested.is_some() => Err(ProbeError::System {
            action: format!("stamp the stages waking and running: {why}"),
            remedy: format!("{}, or omit these stages", why.remedy()),
            said: None,
        }),
        events => Ok((Some(events), stages)),
    }
}

/// Returns warnings about the kernel events.
fn of_events(events: &EventsOrNone) -> Vec<Caveat> {
    let caveat = |what: String, advice: &str| Caveat::new(CaveatKind::AbilityAbsent, what, advice);
    let events = match events {
        Ok(events) => events,
        Err(why) => {
            return vec![caveat(
                format!(
                    "no kernel events, so late wakeups have no cause and stages before `user` are missing: {why}"
                ),
                why.remedy(),
            )];
        }
    };
    let ended = events.has_ended().then(|| caveat(
        "the session of kernel events ended during the measurement; late wakeups after that have no cause and no stages".into(),
        "do not stop the session laggard-NUMBER-TIME (`logman query -ets` lists it), and record again",
    ));
    let lost = (events.lost() > 0).then(|| caveat(
        format!("at least {} kernel events were lost: stages, causes and names at those times may be missing", events.lost()),
        "record with fewer programs that switch often",
    ));
    let unsampled = (!events.samples()).then(|| caveat(
        "running code is not sampled, so code that cannot be preempted has no name: this process lacks SeSystemProfilePrivilege".into(),
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

    /// Measures for half a second like a session. Returns all activations and the end of the
    /// recording.
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
    fn served_missed_and_lost_add_up_to_the_plan_of_every_line() {
        let mut probe = WindowsProbe::new(request(&[Service::Other], &[])).unwrap();

        let (batch, ended) = measured(&mut probe);

        for (place, account) in probe.accounts().iter().enumerate() {
            let line = LineId::at(place).unwrap();
            let own = || batch.iter().filter(|activation| activation.line == line);
            let came = own().count() as u64;
            assert!(came > 0, "{place}");
            assert_eq!(Some(came + account.lost), account.planned, "{place}");
            for activation in own().filter(|activation| !activation.missed) {
                assert!(activation.expiry < ended, "{activation:?}");
                let stages: Vec<usize> = (0..activation.steps.len())
                    .filter(|&stage| activation.steps[stage].is_some())
                    .collect();
                assert_eq!(stages, [Stage::User.index()], "{activation:?}");
            }
        }
    }

    #[test]
    fn end_does_not_wait_for_expiries_after_the_recording() {
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

        // A third of the remaining period.
        assert!(waited < Nanos::from_secs(3), "{waited}");
        for account in probe.accounts() {
            assert_eq!((account.planned, account.lost), (Some(0), 0));
        }
    }

    #[test]
    fn process_has_the_real_time_class_only_during_the_measurement() {
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
                .any(|caveat| caveat.what.starts_with("`other` is not measured: ")),
            "{:?}",
            probe.caveats()
        );
    }

    #[test]
    fn service_of_another_system_is_refused_with_a_list_of_services() {
        let message = WindowsProbe::new(request(&[Service::Fifo(90)], &[]))
            .unwrap_err()
            .to_string();

        assert!(message.contains("`fifo:90`"), "{message}");
        assert!(
            message.ends_with("use realtime:17 to realtime:31, mmcss, other, or with the driver dpc and kthread:16 to kthread:31"),
            "{message}"
        );
    }
}
