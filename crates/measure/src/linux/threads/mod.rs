//! laggard's threads, and the softirqs and work items that request them: woken by timers, or one
//! by a device.

mod beginning;
mod ending;
mod loading;
mod memory;
mod readers;
mod ready;
mod request;
mod rescheduled;
pub(super) mod run_delay;
mod strays;

use std::collections::BTreeMap;
use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use laggard_model::{
    Account, Backend, Batch, Caveat, CaveatKind, Cpu, CpuList, Line, LineId, Losses, Nanos,
    ProgramCost, Service, Stage, Tid,
};

use super::external::External;
use super::flight::FlightRings;
use super::lines::{CARRIER, CpuLines, Deferral};
use super::passed::PassedExpiries;
use super::programs::{Extent, Programs};
use super::thread::{MeasuringThread, RunState};
use super::tracepoints::{StageReader, StampedThread, SwitchReader};
use super::usage::{self, Usage};
use super::witness::Witness;
use super::{clock, possible_cpus, reason_of};
use crate::board::{BoardMaps, BoardSlot, BoardView, LineReader, Skips, Stamps, Standing, Stops};
use crate::exhaustion::Exhaustion;
use crate::probe::{ProbeError, Request};
use crate::source::Source;
use beginning::{WARM_UP, timeline};
use ending::EndPhase;
pub use loading::BackendChoice;
use loading::{Stamping, load};
pub(super) use memory::board;
use memory::{max_lines, ring_bits};
use readers::readers;
use ready::{ready_external, ready_threads};
pub use request::refusal;
pub(super) use request::{check, may_be_scheduled_as};
use request::{check_descriptors, check_lines, keep_possible, stamps_of};
use rescheduled::Schedulings;
use run_delay::RunDelays;

/// Source that measures with laggard's threads, on timers or a device.
#[derive(Debug)]
pub(super) struct ThreadSource {
    request: Request,
    plans: Vec<CpuLines>,
    lines: Vec<Line>,
    readers: Vec<(u32, LineReader)>,
    skips: BTreeMap<u32, Skips>,
    softirq_threads: BTreeMap<u32, String>,
    shared: Arc<RunState>,
    threads: Vec<MeasuringThread>,
    schedulings: Schedulings,
    programs: Option<Programs>,
    /// Stamps the stages without BPF programs.
    stage_reader: Option<StageReader>,
    /// Read if nothing stamps the stages.
    run_delays: RunDelays,
    caveats: Vec<Caveat>,
    /// Program calls that the kernel had skipped before the start, and at the end.
    skipped: (u64, Option<u64>),
    /// Number of the first of its lines.
    first: LineId,
    /// Usage before the warm-up, and time of the first expiry.
    warm_up: Option<(Usage, Nanos)>,
    /// Cost during the warm-up, as a fraction of the CPUs' time.
    price: Option<f64>,
    /// Time of the last check for stops.
    checked: Nanos,
    witness: Option<Witness>,
    stops: Stops,
    /// State of each of `readers` at the end.
    standings: Vec<Standing>,
    /// Start of the recording.
    began: Option<Nanos>,
    ended: Option<Nanos>,
    ending: EndPhase,
}

impl ThreadSource {
    /// Loads everything and prepares the threads, for timers or for `device`.
    pub(super) fn new(
        mut request: Request,
        device: Option<&Arc<External>>,
        wanted: BackendChoice,
    ) -> Result<Self, ProbeError> {
        check(&request.cpus, request.period)?;
        let stamps = stamps_of(&mut request)?;
        let mut caveats = Vec::from_iter(stamps.caveat());
        let is_only_irq = request.services == [Service::Irq];
        if is_only_irq {
            request.services.push(Service::Softirq);
        }
        let ring_bits = ring_bits(&request);
        let extent = Extent {
            nr_cpus: possible_cpus(),
            // Without a service, lines do not exist.
            nr_slots: max_lines(&request).max(1) << ring_bits,
        };
        let stamping = load(
            wanted,
            device.is_none(),
            extent,
            &request.services,
            stamps,
            &mut caveats,
        )?;
        let has_switches = matches!(stamping, Stamping::Switches);
        let (mut programs, tracepoints) = match stamping {
            Stamping::Bpf(programs) => (Some(*programs), None),
            Stamping::Perf(tracepoints) => (None, Some(tracepoints)),
            Stamping::Switches | Stamping::None => (None, None),
        };
        if is_only_irq && tracepoints.is_some() {
            // Tracepoints show the interrupt only before a thread.
            request.services = vec![Service::Irq, CARRIER];
        }
        let board = board(extent, programs.as_ref())?;
        if let (Some(programs), Some(&cpu)) = (&mut programs, request.cpus.as_slice().first()) {
            if let Some(device) = device {
                programs.load_external(extent, device.irq(), &device.handler_tids(), cpu);
            }
            programs
                .attach()
                .map_err(|refused| system("attach the BPF programs", refused.reason))?;
            programs.try_soft_timers(cpu, &board);
        }
        let has_tracepoints = tracepoints.is_some();
        keep_possible(
            &mut request,
            programs.as_ref(),
            has_tracepoints,
            &mut caveats,
        )?;
        let deferral = programs
            .as_ref()
            .map_or(Deferral::Callback, Programs::deferral);
        let plans: Vec<CpuLines> = request
            .cpus
            .as_slice()
            .iter()
            .map(|&cpu| {
                CpuLines::new(cpu, &request.services, &request.every, deferral)
                    .beside(request.contexts)
            })
            .collect();
        check_lines(&plans)?;
        check_descriptors(&plans)?;
        if strays::may_leave(&request.cpus) {
            strays::expect(&board, extent.nr_cpus);
        }
        let shared = Arc::new(RunState {
            board,
            enlist: programs
                .as_ref()
                .map(Programs::enlist)
                .transpose()
                .map_err(|refused| {
                    system("let threads be known to the programs", refused.reason)
                })?,
            stop: AtomicBool::new(false),
            exhaustion: Exhaustion::new(request.cpus.len(), crate::used::used),
            faults: AtomicU64::new(0),
            passed: plans
                .iter()
                .filter(|plan| plan.carried().is_some())
                .map(|plan| (plan.cpu, PassedExpiries::default()))
                .collect(),
        });
        let learning = programs
            .as_ref()
            .map(|programs| programs.learn_timers(extent))
            .transpose()
            .map_err(|refused| system("learn the timers", refused.reason))?;
        let threads = match device {
            Some(device) => ready_external(&shared, &plans, ring_bits, device)?,
            None => ready_threads(&shared, &plans, ring_bits, programs.as_ref())?,
        };
        // The learned addresses stay on the board.
        drop(learning);
        if let (Some(device), Some(plan)) = (device, plans.first()) {
            caveats.push(device.caveat(Cpu(plan.cpu)));
        }
        let lines = plans.iter().flat_map(|plan| plan.lines.clone()).collect();
        let stamped = || -> Vec<StampedThread> {
            let threads = threads.iter().filter(|thread| !thread.competes);
            let threads = threads.map(|thread| StampedThread {
                cpu: thread.line.0.0,
                place: thread.line.1,
                tid: thread.tid.0,
                is_service: thread.is_service,
            });
            threads.collect()
        };
        let mut stages = programs
            .as_ref()
            .map(|programs| (programs.stamps, programs.has_irq()));
        let mut stage_reader = None;
        if let Some(tracepoints) = tracepoints {
            stages = Some((tracepoints.stamps, tracepoints.has_irq()));
            let may_leave = strays::may_leave(&request.cpus);
            let reader = tracepoints.start(&stamped(), request.period, may_leave);
            let reader =
                reader.map_err(|err| system("record perf tracepoints", reason_of(&err)))?;
            stage_reader = Some(StageReader::Tracepoints(Box::new(reader)));
        } else if has_switches {
            match SwitchReader::start(&stamped()) {
                Ok(reader) => {
                    stages = Some((Stamps::from_stages(&[Stage::Running]), false));
                    stage_reader = Some(StageReader::Switches(reader));
                }
                Err(err) => caveats.push(Caveat::new(
                    CaveatKind::AbilityAbsent,
                    format!(
                        "the stage running is not measured: context switches cannot be recorded ({})",
                        reason_of(&err)
                    ),
                    "raise kernel.perf_event_mlock_kb, or choose fewer CPUs or services",
                )),
            }
        }
        Ok(Self {
            readers: readers(&plans, stages, device.is_none()),
            skips: BTreeMap::new(),
            softirq_threads: BTreeMap::new(),
            request,
            plans,
            lines,
            shared,
            schedulings: Schedulings::read(&threads),
            threads,
            programs,
            stage_reader,
            run_delays: RunDelays::default(),
            caveats,
            skipped: (0, None),
            first: LineId(0),
            warm_up: None,
            price: None,
            checked: Nanos::ZERO,
            // Without it a stop looks like a starved machine.
            witness: Witness::new().ok(),
            stops: Stops::default(),
            standings: Vec::new(),
            began: None,
            ended: None,
            ending: EndPhase::Timers,
        })
    }

    /// Records a stop of laggard since the last check, if there was one. It lies between two
    /// times when laggard's threads ran.
    fn note_stop(&mut self, now: Nanos) {
        let checked = std::mem::replace(&mut self.checked, now);
        if !self.witness.as_mut().is_some_and(Witness::was_stopped) {
            return;
        }
        let mut readings = Vec::new();
        for (cpu, reader) in &self.readers {
            let board = self.shared.board.cpu(*cpu);
            let ring = self.shared.board.ring(board, reader.index);
            if self.lines[self.place_of(reader.id)].service.is_thread() {
                readings.extend(reader.unread(board, ring).map(BoardSlot::end));
            }
        }
        self.stops
            .add((checked, now), readings, self.request.period);
    }

    /// Reads the expiries that the carrying threads did not arm.
    fn note_passed(&mut self) {
        for (cpu, passed) in &self.shared.passed {
            let skips = self.skips.entry(*cpu).or_default();
            passed.drain(|number, came| skips.add(number, came));
        }
    }

    /// Records which threads run softirqs.
    fn note_softirq_threads(&mut self) {
        for plan in self.plans.iter().filter(|plan| plan.mirrored().is_some()) {
            let board = self.shared.board.cpu(plan.cpu);
            let tid = board.softirq_tid.load(Ordering::Relaxed);
            if tid == 0 || self.softirq_threads.contains_key(&tid) {
                continue;
            }
            self.softirq_threads.insert(tid, board.softirq_name());
        }
    }

    fn softirq_threads_caveat(&self) -> Option<Caveat> {
        let names: Vec<&str> = self.softirq_threads.values().map(String::as_str).collect();
        (!names.is_empty()).then(|| {
            Caveat::new(
                CaveatKind::SoftirqThread,
                format!(
                    "timer softirqs run in threads on this machine ({}), which wait for every thread of higher priority",
                    names.join(", ")
                ),
                "change the priority of such a thread with `chrt -f -p PRIORITY TID`",
            )
        })
    }
}

impl Source for ThreadSource {
    fn backend(&self) -> Backend {
        match (&self.programs, &self.stage_reader) {
            (Some(_), _) => Backend::Bpf,
            (None, Some(StageReader::Tracepoints(_))) => Backend::Perf,
            (None, Some(StageReader::Switches(_)) | None) => Backend::User,
        }
    }

    fn lines(&self) -> &[Line] {
        &self.lines
    }

    fn start(&mut self, start: Nanos, first: LineId) -> Result<(), ProbeError> {
        self.first = first;
        if self.programs.is_none() && self.stage_reader.is_none() {
            let places = 0..self.lines.len();
            let threads = places.filter_map(|place| Some((place, self.thread_of(place)?.0)));
            self.run_delays = RunDelays::open(threads);
        }
        let mut threads = self.threads.iter();
        for plan in &self.plans {
            let own = |place| Some((self.timeline(plan, place, start), plan.turn_of(place)));
            let direct = plan.direct_threads().map(own);
            let deferred = plan.deferred_threads();
            let deferred = deferred.map(|place| own(place).filter(|_| !plan.has_callback()));
            let carried = plan.carried().map(own);
            let lenders = plan.lent().map(|(place, _)| own(place));
            for timeline in direct.chain(deferred).chain(carried).chain(lenders) {
                if let Some(thread) = threads.next() {
                    thread.start(timeline);
                }
            }
        }
        // A thread that waits for a device's interrupt does not have a timeline.
        threads.for_each(|thread| thread.start(None));
        for (cpu, reader) in &mut self.readers {
            let plan = self.plans.iter().find(|plan| plan.cpu == *cpu);
            reader.planned = plan.map(|plan| timeline(&self.request, plan, reader.index, start));
        }
        self.start_deferrals(start)?;
        for (_, reader) in &mut self.readers {
            reader.number_from(first);
        }
        Ok(())
    }

    fn warm_up(&mut self, start: Nanos) {
        self.warm_up(start);
    }

    fn begin(&mut self, from: Nanos) {
        self.record_from(from);
    }

    fn drain(&mut self, into: &mut Batch) {
        self.run_delays.update();
        // Before the check for a stop: later activations are read when it is known whether
        // laggard was stopped.
        let now = clock::now();
        self.note_stop(now);
        self.note_passed();
        if let Some(stages) = &mut self.stage_reader {
            stages.read(now);
            for (cpu, reader) in &self.readers {
                let board = self.shared.board.cpu(*cpu);
                let ring = self.shared.board.ring(board, reader.index);
                for slot in reader.unread(board, ring).filter(|slot| slot.end() <= now) {
                    stages.stamp(*cpu, reader.index, slot);
                }
            }
        }
        let mut standings = self.standings.iter();
        for (cpu, reader) in &mut self.readers {
            let board = self.shared.board.cpu(*cpu);
            let mut look = BoardView {
                cpu: board,
                ring: self.shared.board.ring(board, reader.index),
                skips: self.skips.entry(*cpu).or_default(),
                stops: &self.stops,
                until: now,
            };
            reader.drain(&mut look, into);
            if let Some(standing) = standings.next() {
                reader.close(*standing, &mut look, into);
            }
        }
        self.note_softirq_threads();
        if self.ended.is_none() {
            let board = &self.shared.board;
            self.schedulings.check_if_due(&self.threads, board, now);
        }
        self.shared.exhaustion.note(clock::now());
    }

    fn end_at(&mut self, until: Nanos) {
        self.end(until);
    }

    fn is_at_rest(&mut self) -> bool {
        self.come_to_rest()
    }

    fn settle(&mut self, given_up: Nanos) {
        self.give_up(given_up);
    }

    fn accounts(&self) -> Vec<Account> {
        self.accounts_of_lines()
    }

    fn caveats(&self) -> Vec<Caveat> {
        let mut caveats = self.caveats.clone();
        caveats.extend(self.stopped_caveat());
        caveats.extend(self.moved_caveat());
        caveats.extend(self.rescheduled_caveat());
        caveats.extend(self.unserved_caveats());
        caveats.extend(self.softirq_threads_caveat());
        caveats.extend(strays::caveats(&self.readers, &self.shared.board));
        caveats.extend(
            self.stage_reader
                .as_ref()
                .and_then(StageReader::lost_caveat),
        );
        caveats
    }

    fn unsettled(&self) -> Losses {
        self.unsettled_losses()
    }

    fn given_up(&self) -> Option<Nanos> {
        self.shared.exhaustion.given_up()
    }

    fn thread_of(&self, line: usize) -> Option<Tid> {
        let mut place = line;
        for plan in &self.plans {
            if place < plan.lines.len() {
                let wanted = (Cpu(plan.cpu), place);
                let own = |thread: &&MeasuringThread| thread.is_service && thread.line == wanted;
                return self.threads.iter().find(own).map(|thread| thread.tid);
            }
            place -= plan.lines.len();
        }
        None
    }

    fn board(&self) -> Option<BoardMaps> {
        let chain = &self.programs.as_ref()?.chain;
        let map = |name| chain.map(name).ok()?.as_fd().try_clone_to_owned().ok();
        Some(BoardMaps {
            cpus: map("cpus")?,
            slots: map("slots")?,
        })
    }

    fn join_flight(&mut self, cpus: &CpuList) -> Option<FlightRings> {
        self.programs.as_mut()?.join_flight(cpus)
    }

    fn price(&self) -> Option<f64> {
        self.price
    }

    fn measuring_cpu(&self) -> Nanos {
        let own = self.threads.iter().filter(|thread| !thread.competes);
        own.map(usage::cpu_of)
            .fold(Nanos::ZERO, |sum, cpu| sum + cpu)
    }

    fn competing_cpu(&self) -> Nanos {
        let busy = self.threads.iter().filter(|thread| thread.competes);
        busy.map(usage::cpu_of)
            .fold(Nanos::ZERO, |sum, cpu| sum + cpu)
    }

    fn faults(&self) -> u64 {
        self.shared.faults.load(Ordering::Relaxed)
    }

    fn programs(&self, wall: Nanos) -> Vec<ProgramCost> {
        let programs = self.programs.as_ref();
        programs.map_or_else(Vec::new, |programs| {
            programs.cost(&self.cpus(), wall, wall + WARM_UP)
        })
    }
}

impl ThreadSource {
    fn cpus(&self) -> Vec<u32> {
        self.plans.iter().map(|plan| plan.cpu).collect()
    }

    /// Returns the place of a line among the source's lines.
    fn place_of(&self, line: LineId) -> usize {
        usize::from(line.0 - self.first.0)
    }
}

fn system(action: &str, reason: String) -> ProbeError {
    ProbeError::System {
        action: action.into(),
        remedy: "`laggard doctor` shows what this machine supports".into(),
        said: Some(io::Error::other(reason)),
    }
}
