//! The probe of a real machine.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use laggard_model::{
    Backend, Batch, Caveat, CaveatKind, Cpu, Line, LineId, LossReason, Losses, Nanos, OwnCost,
    Route, Service, Tid,
};

use super::board::{Board, CpuBoard, LINES_PER_CPU, Slot};
use super::carrier;
use super::collector::{Expected, LineReader, Mirror, Skips};
use super::external::External;
use super::lines::{CpuLines, Deferral};
use super::programs::{Extent, MAX_FOLLOWERS, Programs};
use super::thread::{MeasuringThread, Shared, Waking, unserved_for};
use super::timerlat::Timerlat;
use super::{clock, online_cpus, policy, possible_cpus};
use crate::probe::{Probe, ProbeError, Request};
use crate::timeline::Timeline;

/// Shortest and longest period.
const PERIODS: (Nanos, Nanos) = (Nanos::from_us(10), Nanos::from_secs(10));
/// How much a ring holds: a collector that does not get to run for so long
/// loses nothing. Normal threads wait for seconds under some loads.
const RING_TIME: Nanos = Nanos::from_secs(8);
/// Memory for all rings, besides [`RING_BYTES_PER_CPU`].
const RING_BYTES: usize = 32 << 20;
/// More of it for each CPU.
const RING_BYTES_PER_CPU: usize = 1 << 20;
/// Bounds on a ring's slots, as powers of two.
const RING_BITS: (u32, u32) = (8, 16);
/// From the call of `start` to the first expiry.
const LEAD: Nanos = Nanos::from_ms(50);
/// From the first expiry to the first that is recorded, at least. Programs
/// are timed meanwhile.
pub(super) const WARM_UP: Nanos = Nanos::from_ms(500);
/// From the end of the warm-up, whatever it disturbed, to the recording.
const REST: Nanos = Nanos::from_ms(5);
/// How long `stop` waits for threads that do not get to run.
const STOP_PATIENCE: Duration = Duration::from_secs(3);

/// What to measure with.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Wanted {
    /// eBPF, or without it where it cannot be had.
    #[default]
    Best,
    /// eBPF, or not at all.
    Bpf,
    /// Without eBPF: expiry and user stage.
    User,
}

/// Measures a Linux machine.
#[derive(Debug)]
pub struct LinuxProbe {
    request: Request,
    plans: Vec<CpuLines>,
    lines: Vec<Line>,
    readers: Vec<(u32, LineReader)>,
    skips: BTreeMap<u32, Skips>,
    softirq_threads: BTreeMap<u32, String>,
    shared: Arc<Shared>,
    threads: Vec<MeasuringThread>,
    programs: Option<Programs>,
    timerlat: Option<Timerlat>,
    caveats: Vec<Caveat>,
    losses: Losses,
    began: Option<(Nanos, u64)>,
    ended: Option<Nanos>,
}

impl LinuxProbe {
    /// Loads what is needed and readies the threads; nothing is measured yet.
    ///
    /// # Errors
    /// When the request is out of range, or a service that is not optional
    /// cannot be measured.
    pub fn new(mut request: Request, wanted: Wanted) -> Result<Self, ProbeError> {
        let external = External::of_request(&mut request)?;
        check(&request)?;
        let timerlat = Timerlat::of_request(&mut request)?;
        let mut caveats = Vec::new();
        if let Err(err) = policy::lock_memory() {
            caveats.push(Caveat::new(
                CaveatKind::MemoryLock,
                format!(
                    "memory cannot be locked ({err}), so page faults may be measured as latency"
                ),
                "run as root, or raise the limit with `ulimit -l unlimited`",
            ));
        }
        if request.services == [Service::Irq] {
            request.services.push(Service::Softirq);
        }
        let ring_bits = ring_bits(&request);
        let extent = Extent {
            nr_cpus: possible_cpus(),
            // Where only a tracer measures there is no line on the board.
            nr_slots: (request.cpus.len() * request.services.len() * 2).max(1) << ring_bits,
        };
        let mut programs = load(wanted, extent, &request.services, &mut caveats)?;
        let board = board(extent, programs.as_ref())?;
        if let (Some(programs), Some(&cpu)) = (&mut programs, request.cpus.as_slice().first()) {
            if let Some(external) = &external {
                programs.load_external(extent, external, cpu);
            }
            programs
                .attach()
                .map_err(|refused| system("attach the BPF programs", refused.reason))?;
            programs.try_soft_timers(cpu, &board);
        }
        keep_possible(&mut request, programs.as_ref(), &mut caveats)?;
        let deferral = programs
            .as_ref()
            .map_or(Deferral::Callback, Programs::deferral);
        let plans: Vec<CpuLines> = request
            .cpus
            .as_slice()
            .iter()
            .map(|&cpu| CpuLines::new(cpu, &request.services, deferral))
            .collect();
        check_lines(&plans, timerlat.is_some())?;
        let shared = Arc::new(Shared {
            board,
            stop: AtomicBool::new(false),
            cpu_ns: AtomicU64::new(0),
            faults: AtomicU64::new(0),
        });
        let threads = match &external {
            Some(external) => ready_external(&shared, &plans, ring_bits, external)?,
            None => ready_threads(&shared, &plans, ring_bits, programs.as_ref())?,
        };
        if let (Some(external), Some(plan)) = (&external, plans.first()) {
            caveats.push(external.caveat(Cpu(plan.cpu)));
        }
        caveats.extend(timerlat.as_ref().map(Timerlat::caveat));
        let lines: Vec<Line> = plans
            .iter()
            .flat_map(|plan| plan.lines.clone())
            .chain(timerlat.iter().flat_map(Timerlat::lines))
            .collect();
        Ok(Self {
            readers: readers(&plans, programs.as_ref(), external.is_none()),
            skips: BTreeMap::new(),
            softirq_threads: BTreeMap::new(),
            request,
            plans,
            lines,
            shared,
            threads,
            programs,
            timerlat,
            caveats,
            losses: Losses::default(),
            began: None,
            ended: None,
        })
    }

    /// Waits until everything has run for a while, and forgets that. Returns
    /// when the recording begins.
    fn warm_up(&mut self, start: Nanos) -> Nanos {
        if let Some(programs) = &mut self.programs {
            programs.begin_timing(start);
            std::thread::sleep((start + WARM_UP).saturating_sub(clock::now()).into());
            programs.end_timing(clock::now());
        }
        let begin = clock::now().max(start) + REST;
        for (_, reader) in &mut self.readers {
            reader.begin = begin;
        }
        if let Some(timerlat) = &mut self.timerlat {
            timerlat.begin(begin);
        }
        self.began = Some((begin, process_cpu_ns()));
        begin
    }

    /// Remembers which threads run softirqs.
    fn note_softirq_threads(&mut self) {
        for plan in self.plans.iter().filter(|plan| plan.mirrored().is_some()) {
            let board = self.shared.board.cpu(plan.cpu);
            let tid = board.softirq_tid.load(Ordering::Relaxed);
            if tid == 0 || self.softirq_threads.contains_key(&tid) {
                continue;
            }
            if let Ok(name) = std::fs::read_to_string(format!("/proc/{tid}/comm")) {
                self.softirq_threads.insert(tid, name.trim_end().to_owned());
            }
        }
    }

    fn softirq_threads_caveat(&self) -> Option<Caveat> {
        let names: Vec<&str> = self.softirq_threads.values().map(String::as_str).collect();
        (!names.is_empty()).then(|| {
            Caveat::new(
                CaveatKind::SoftirqThread,
                format!(
                    "timer softirqs run in threads here ({}), which wait for every thread above them",
                    names.join(", ")
                ),
                "`chrt -f -p PRIORITY TID` moves such a thread",
            )
        })
    }

    fn timeline(&self, plan: &CpuLines, place: usize, start: Nanos) -> Timeline {
        timeline(&self.request, plan, place, start)
    }

    /// Arms every CPU's softirq timer on its CPU, then returns to all CPUs.
    fn start_deferrals(&self, start: Nanos) -> Result<(), ProbeError> {
        let Some(programs) = &self.programs else {
            return Ok(());
        };
        for plan in &self.plans {
            programs
                .prepare_carried(plan)
                .map_err(|refused| system("prepare the work item", refused.reason))?;
        }
        for plan in self.plans.iter().filter(|plan| plan.has_callback()) {
            let place = u32::try_from(plan.direct_threads().count()).unwrap_or(0);
            let timeline = Timeline::unstarted(
                self.request.seed ^ u64::from(plan.cpu),
                self.request.period,
                self.request.dither,
                place,
                u32::try_from(plan.timelines()).unwrap_or(1),
                start,
            );
            // A thread of its own, so that nobody's affinity has to be restored.
            std::thread::scope(|scope| {
                scope
                    .spawn(|| {
                        policy::pin(laggard_model::Cpu(plan.cpu))
                            .map_err(|err| system("move to a CPU", err.to_string()))?;
                        programs
                            .start_deferral(plan, timeline)
                            .map_err(|refused| system("start the softirq timer", refused.reason))
                    })
                    .join()
                    .unwrap_or_else(|_| Err(system("start the softirq timer", "panicked".into())))
            })?;
        }
        Ok(())
    }

    /// Activations that still wait for their service: their latency is not
    /// known, which must not pass for a good result.
    fn count_unserved(&mut self, now: Nanos) {
        for (cpu, reader) in &self.readers {
            let board = self.shared.board.cpu(*cpu);
            let ring = self.shared.board.ring(board, reader.index);
            if let Some(time) = unserved_for(board, reader.index, ring, now) {
                let line = self.lines[usize::from(reader.id.0)];
                self.losses.add(LossReason::Unserved, 1);
                self.caveats.push(Caveat::new(
                    CaveatKind::Losses,
                    format!(
                        "{} ({}) on CPU {cpu} had been waiting for {:.1} ms when the recording ended",
                        line.service,
                        line.route,
                        time.as_secs_f64() * 1e3
                    ),
                    "its largest latency is at least that; record for longer",
                ));
            }
        }
    }
}

impl Probe for LinuxProbe {
    fn backend(&self) -> Backend {
        if self.programs.is_some() {
            Backend::Bpf
        } else if self.timerlat.is_some() && self.threads.is_empty() {
            Backend::Tracer
        } else {
            Backend::User
        }
    }

    fn lines(&self) -> &[Line] {
        &self.lines
    }

    fn caveats(&self) -> Vec<Caveat> {
        let mut caveats = self.caveats.clone();
        caveats.extend(self.softirq_threads_caveat());
        let faults = self.shared.faults.load(Ordering::Relaxed);
        if faults > 0
            && !caveats
                .iter()
                .any(|caveat| caveat.kind == CaveatKind::MemoryLock)
        {
            caveats.push(Caveat::new(
                CaveatKind::PageFaults,
                format!("measuring threads had {faults} page faults, which count as latency"),
                "check that memory can be locked and that the machine does not swap",
            ));
        }
        caveats
    }

    fn start(&mut self) -> Result<Nanos, ProbeError> {
        let start = clock::now() + LEAD;
        let mut threads = self.threads.iter();
        for plan in &self.plans {
            let own = |place| Some((self.timeline(plan, place, start), plan.turn_of(place)));
            let direct = plan.direct_threads().map(own);
            let deferred = plan.deferred_threads();
            let deferred = deferred.map(|place| own(place).filter(|_| !plan.has_callback()));
            let carried = plan.carried().map(own);
            for timeline in direct.chain(deferred).chain(carried) {
                if let Some(thread) = threads.next() {
                    thread.start(timeline);
                }
            }
        }
        // What waits for a device's interrupt has no timeline.
        threads.for_each(|thread| thread.start(None));
        for (cpu, reader) in &mut self.readers {
            let plan = self.plans.iter().find(|plan| plan.cpu == *cpu);
            reader.planned = plan.map(|plan| timeline(&self.request, plan, reader.index, start));
        }
        self.start_deferrals(start)?;
        let own = self.lines.len() - self.timerlat.iter().flat_map(Timerlat::lines).count();
        if let Some(timerlat) = &mut self.timerlat {
            timerlat
                .start(own)
                .map_err(|err| system("start the timerlat tracer", err.to_string()))?;
        }
        Ok(self.warm_up(start))
    }

    fn now(&self) -> Nanos {
        clock::now()
    }

    fn pause(&mut self, time: Duration) {
        std::thread::sleep(time);
    }

    fn drain(&mut self, into: &mut Batch) {
        for (cpu, reader) in &mut self.readers {
            let board = self.shared.board.cpu(*cpu);
            let ring = self.shared.board.ring(board, reader.index);
            let skips = self.skips.entry(*cpu).or_default();
            reader.drain(board, ring, skips, into, &mut self.losses);
        }
        if let Some(timerlat) = &mut self.timerlat {
            timerlat.drain(into, &mut self.losses);
        }
        self.note_softirq_threads();
    }

    fn stop(&mut self) {
        if self.ended.is_some() {
            return;
        }
        let ended = clock::now();
        self.ended = Some(ended);
        for (_, reader) in &mut self.readers {
            reader.until = ended;
        }
        let stopped = self.timerlat.as_mut().map(|timerlat| timerlat.stop(ended));
        if let Some(Err(err)) = stopped {
            self.caveats.push(Caveat::new(
                CaveatKind::Tracer,
                format!("the settings of the timerlat tracer were not put back: {err}"),
                "`echo nop > /sys/kernel/tracing/current_tracer` ends it; osnoise/ there holds its settings",
            ));
        }
        if let Some(programs) = &self.programs {
            for plan in &self.plans {
                if let Err(refused) = programs.stop_deferral(plan.cpu) {
                    self.caveats.push(Caveat::new(
                        CaveatKind::AbilityAbsent,
                        format!(
                            "the softirq timer of CPU {} did not stop: {}",
                            plan.cpu, refused.reason
                        ),
                        "it ends with this program",
                    ));
                }
            }
            // Followers that were just asked still get their turn.
            std::thread::sleep(Duration::from_millis(20));
        }
        self.shared.stop.store(true, Ordering::Relaxed);
        let patience = clock::now() + STOP_PATIENCE.into() + self.request.period * 2;
        while clock::now() < patience && !self.threads.iter().all(MeasuringThread::is_finished) {
            std::thread::sleep(Duration::from_millis(2));
        }
        self.count_unserved(clock::now());
        // What follows (symbols, the last segment) need not stay in memory.
        policy::unlock_memory();
    }

    fn losses(&self) -> Losses {
        let mut losses = self.losses;
        for (cpu, reader) in &self.readers {
            losses.add(
                LossReason::RingFull,
                reader.lost_since(self.shared.board.cpu(*cpu)),
            );
        }
        if let Some(programs) = &self.programs {
            programs.count_losses(&self.cpus(), &mut losses);
        }
        losses
    }

    fn cost(&self) -> OwnCost {
        let (start, cpu_before) = self.began.unwrap_or((clock::now(), process_cpu_ns()));
        let measuring = self.shared.cpu_ns.load(Ordering::Relaxed);
        let all = process_cpu_ns().saturating_sub(cpu_before);
        let now = self.ended.unwrap_or_else(clock::now);
        let wall = now.saturating_sub(start);
        OwnCost {
            wall_ns: wall,
            measuring_cpu_ns: Nanos::from_ns(measuring),
            other_cpu_ns: Nanos::from_ns(all.saturating_sub(measuring)),
            programs: self
                .programs
                .as_ref()
                .map_or_else(Vec::new, |all| all.cost(&self.cpus(), wall, wall + WARM_UP)),
            written_bytes: 0,
            resident_bytes: resident_bytes(),
            measuring_faults: self.shared.faults.load(Ordering::Relaxed),
        }
    }
}

impl LinuxProbe {
    fn cpus(&self) -> Vec<u32> {
        self.plans.iter().map(|plan| plan.cpu).collect()
    }
}

impl Drop for LinuxProbe {
    fn drop(&mut self) {
        self.stop();
    }
}

/// The timeline that leads to the line at `place`: a direct thread's own, or
/// the softirq timer's.
fn timeline(request: &Request, plan: &CpuLines, place: usize, start: Nanos) -> Timeline {
    let own = plan.direct_threads().position(|direct| direct == place);
    let place = own.unwrap_or_else(|| plan.direct_threads().count());
    Timeline::new(
        request.seed ^ u64::from(plan.cpu),
        request.period,
        request.dither,
        u32::try_from(place).unwrap_or(0),
        u32::try_from(plan.timelines()).unwrap_or(1),
        start,
    )
}

fn system(action: &str, reason: String) -> ProbeError {
    ProbeError::System {
        action: action.into(),
        remedy: "`laggard doctor` says what this machine allows".into(),
        source: Some(io::Error::other(reason)),
    }
}

fn check(request: &Request) -> Result<(), ProbeError> {
    let online = online_cpus();
    if let Some(cpu) = request
        .cpus
        .as_slice()
        .iter()
        .find(|cpu| !online.contains(**cpu))
    {
        return Err(ProbeError::NoCpu(cpu.0, online));
    }
    if request.period < PERIODS.0 || request.period > PERIODS.1 {
        return Err(ProbeError::Period(request.period, PERIODS.0, PERIODS.1));
    }
    Ok(())
}

fn check_lines(plans: &[CpuLines], has_others: bool) -> Result<(), ProbeError> {
    for plan in plans {
        let most = LINES_PER_CPU.min(MAX_FOLLOWERS + plan.lines.len() - plan.followers.len());
        if plan.lines.len() > most {
            return Err(ProbeError::TooManyLines(plan.lines.len(), most));
        }
    }
    if !has_others && plans.iter().all(|plan| plan.lines.is_empty()) {
        return Err(ProbeError::NoService);
    }
    Ok(())
}

/// Slots of a ring, as a power of two: for [`RING_TIME`], as far as the memory
/// for all rings allows.
fn ring_bits(request: &Request) -> u32 {
    let slots = RING_TIME.ns() / request.period.ns();
    let wanted = (64 - slots.leading_zeros()).clamp(RING_BITS.0, RING_BITS.1);
    let lines = request.cpus.len() * request.services.len() * 2;
    let bytes = RING_BYTES + RING_BYTES_PER_CPU * request.cpus.len();
    let most = (bytes / (lines.max(1) * size_of::<Slot>())).max(1).ilog2();
    wanted.min(most.max(RING_BITS.0))
}

fn load(
    wanted: Wanted,
    extent: Extent,
    services: &[Service],
    caveats: &mut Vec<Caveat>,
) -> Result<Option<Programs>, ProbeError> {
    // Nothing to stamp where only a tracer measures.
    if wanted == Wanted::User || services.is_empty() {
        return Ok(None);
    }
    match Programs::load(extent, services) {
        Ok(programs) => Ok(Some(programs)),
        Err(refused) if wanted == Wanted::Bpf => {
            Err(system("load the BPF programs", refused.reason))
        }
        Err(refused) => {
            caveats.push(Caveat::new(
                CaveatKind::NoBpf,
                format!(
                    "BPF cannot be used ({}), so only expiry and user stage are measured",
                    refused.reason
                ),
                "run as root on a kernel with BTF; `laggard doctor` says what is missing",
            ));
            Ok(None)
        }
    }
}

/// Drops the services that cannot be had, or refuses where they were asked
/// for by name.
fn keep_possible(
    request: &mut Request,
    programs: Option<&Programs>,
    caveats: &mut Vec<Caveat>,
) -> Result<(), ProbeError> {
    let mut kept = Vec::new();
    for &service in &request.services {
        let (reason, remedy) = match (service.is_thread(), programs) {
            (true, _) => match may_be_scheduled_as(service) {
                Ok(()) => {
                    kept.push(service);
                    continue;
                }
                Err(err) => (
                    err.to_string(),
                    "run as root, or raise the limit with `ulimit -r 99`",
                ),
            },
            (false, Some(programs)) if programs.gives(service) => {
                kept.push(service);
                continue;
            }
            (false, Some(programs)) => (
                programs.reason_against(service),
                "`laggard doctor` lists what this kernel allows",
            ),
            (false, None) => ("it needs BPF".into(), "run as root on a kernel with BTF"),
        };
        if !request.optional {
            return Err(ProbeError::Service {
                service,
                reason,
                remedy: remedy.into(),
            });
        }
        caveats.push(Caveat::new(
            CaveatKind::ServiceAbsent,
            format!("`{service}` is not measured: {reason}"),
            remedy,
        ));
    }
    request.services = kept;
    Ok(())
}

/// Whether a thread of ours may have the service's policy.
pub(super) fn may_be_scheduled_as(service: Service) -> io::Result<()> {
    std::thread::scope(|scope| {
        scope
            .spawn(|| policy::schedule_as(service))
            .join()
            .unwrap_or_else(|_| Err(io::Error::other("the trial thread panicked")))
    })
}

pub(super) fn board(extent: Extent, programs: Option<&Programs>) -> Result<Board, ProbeError> {
    let failed = |err: io::Error| system("map the board", err.to_string());
    let Some(programs) = programs else {
        return Board::new(extent.nr_cpus, extent.nr_slots, None).map_err(failed);
    };
    let map = |name| {
        programs
            .chain
            .map(name)
            .map_err(|refused| system("find a BPF map", refused.reason))
    };
    let (cpus, slots) = (map("cpus")?, map("slots")?);
    Board::new(
        extent.nr_cpus,
        extent.nr_slots,
        Some((cpus.as_fd(), slots.as_fd())),
    )
    .map_err(failed)
}

fn ready_threads(
    shared: &Arc<Shared>,
    plans: &[CpuLines],
    ring_bits: u32,
    programs: Option<&Programs>,
) -> Result<Vec<MeasuringThread>, ProbeError> {
    let mut threads = Vec::new();
    let mut first_slot = 0;
    for plan in plans {
        let board = shared.board.cpu(plan.cpu);
        board.ring_bits.store(ring_bits, Ordering::Relaxed);
        board.lines_first_slot.store(first_slot, Ordering::Relaxed);
        first_slot += (plan.lines.len() as u64) << ring_bits;
        let waking = |place: usize| match plan.lines[place].route {
            Route::Direct => Ok(Waking::Timer),
            Route::Deferred if !plan.has_callback() => Ok(Waking::SoftTimer),
            Route::Deferred => programs
                .ok_or_else(|| "no BPF".to_owned())
                .and_then(|all| {
                    all.doorbell(plan.cpu, place)
                        .map_err(|refused| refused.reason)
                })
                .map(Waking::Doorbell)
                .map_err(|reason| system("make a ring buffer", reason)),
        };
        for place in plan.direct_threads().chain(plan.deferred_threads()) {
            let line = plan.lines[place];
            let thread = MeasuringThread::prepare(
                shared.clone(),
                line.cpu,
                place,
                line.service,
                waking(place)?,
            )
            .map_err(|err| system("start a measuring thread", err.to_string()))?;
            set_thread(board, place, thread.tid);
            threads.push(thread);
        }
        if let Some(place) = plan.carried() {
            let cpu = plan.lines[place].cpu;
            let prepared = MeasuringThread::prepare(
                shared.clone(),
                cpu,
                place,
                carrier::SERVICE,
                Waking::Carrier,
            )
            .map_err(|err| system("start a carrying thread", err.to_string()))?;
            threads.push(prepared);
        }
        let count = u32::try_from(plan.lines.len()).unwrap_or(0);
        board.nr_lines.store(count, Ordering::Release);
    }
    Ok(threads)
}

/// The thread that waits for a device's interrupt, after the one that raises
/// it.
fn ready_external(
    shared: &Arc<Shared>,
    plans: &[CpuLines],
    ring_bits: u32,
    external: &Arc<External>,
) -> Result<Vec<MeasuringThread>, ProbeError> {
    let (Some(plan), place) = (plans.first(), 0) else {
        return Ok(Vec::new());
    };
    let line = plan.lines[place];
    let board = shared.board.cpu(plan.cpu);
    board.ring_bits.store(ring_bits, Ordering::Relaxed);
    let prepare = |service, waking| {
        MeasuringThread::prepare(shared.clone(), line.cpu, place, service, waking)
            .map_err(|err| system("start a measuring thread", err.to_string()))
    };
    let raiser = prepare(
        External::raiser_service(line.service),
        Waking::Raising(external.clone()),
    )?;
    let waiter = prepare(line.service, Waking::Interrupt(external.clone()))?;
    set_thread(board, place, waiter.tid);
    board.nr_lines.store(1, Ordering::Release);
    Ok(vec![raiser, waiter])
}

/// Lets the programs know the thread of a line.
fn set_thread(board: &CpuBoard, place: usize, tid: Tid) {
    board.tids[place].store(tid.0, Ordering::Relaxed);
    board
        .tid_bits
        .fetch_or(1 << (tid.0 % 64), Ordering::Relaxed);
}

fn readers(
    plans: &[CpuLines],
    programs: Option<&Programs>,
    are_timed: bool,
) -> Vec<(u32, LineReader)> {
    let has_irq = programs.is_some_and(Programs::has_irq);
    let mut readers = Vec::new();
    for plan in plans {
        let first = readers.len();
        for (index, line) in plan.lines.iter().enumerate() {
            let turn = plan.turn_of(index);
            let is_deferred = plan.followers.contains(&index);
            let id = |index: usize| LineId(u16::try_from(index).unwrap_or(u16::MAX));
            let mirror = plan.mirrored().filter(|&(_, thread)| thread == index);
            let reader = LineReader {
                id: id(first + index),
                index,
                expected: Expected {
                    expire: programs.is_some()
                        && are_timed
                        && line.service.is_thread()
                        && !is_deferred,
                    irq: has_irq,
                    waking: programs.is_some() && line.service.is_thread(),
                },
                last: line.service.last_stage(),
                planned: None,
                stride: turn.stride,
                first: turn.first,
                is_follower: is_deferred && plan.has_callback(),
                next_seq: 0,
                last_end: None,
                begin: Nanos::ZERO,
                until: Nanos::MAX,
                unrecorded: 0,
                mirror: mirror.map(|(softirq, _)| Mirror::new(id(first + softirq))),
            };
            readers.push((plan.cpu, reader));
        }
    }
    readers
}

/// CPU time of all threads of this process so far.
fn process_cpu_ns() -> u64 {
    let Ok(usage) = nix::sys::resource::getrusage(nix::sys::resource::UsageWho::RUSAGE_SELF) else {
        return 0;
    };
    let ns = |time: nix::sys::time::TimeVal| {
        time.tv_sec().cast_unsigned() * 1_000_000_000 + time.tv_usec().cast_unsigned() * 1_000
    };
    ns(usage.user_time()) + ns(usage.system_time())
}

/// Largest resident size of this process so far.
fn resident_bytes() -> u64 {
    nix::sys::resource::getrusage(nix::sys::resource::UsageWho::RUSAGE_SELF)
        .map_or(0, |usage| usage.max_rss().cast_unsigned() * 1024)
}
