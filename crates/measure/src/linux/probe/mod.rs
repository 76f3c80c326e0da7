//! The probe of a real machine.

mod beginning;
mod ending;
mod loading;
mod memory;
mod readers;
mod request;
mod rescheduled;
mod strays;
mod threads;
mod usage;

use std::collections::BTreeMap;
use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use laggard_model::{
    Account, Backend, Batch, Caveat, CaveatKind, Cpu, Line, LineId, Losses, Nanos, OwnCost,
    Service, Tid,
};

use super::carrier::Passed;
use super::exhaustion::Exhaustion;
use super::external::External;
use super::hurry::Hurry;
use super::lines::{CpuLines, Deferral};
use super::mapping::BoardMaps;
use super::programs::{Extent, Programs};
use super::thread::{MeasuringThread, Shared};
use super::timerlat::Timerlat;
use super::witness::Witness;
use super::{clock, descriptors, other_tracers, policy, possible_cpus, reason_of};
use crate::board::{LineReader, Look, Skips, Stamps, Standing, Stops};
use crate::probe::{Probe, ProbeError, Request};
use beginning::timeline;
use loading::load;
pub(super) use memory::board;
use memory::{most_lines, ring_bits};
use readers::readers;
use request::{check, check_descriptors, check_lines, keep_possible};
pub(super) use request::{may_be_scheduled_as, refusal};
use rescheduled::Schedulings;
use threads::{ready_external, ready_threads};
use usage::Usage;

/// From the call of `start` to the first expiry.
const LEAD: Nanos = Nanos::from_ms(50);
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
    schedulings: Schedulings,
    programs: Option<Programs>,
    timerlat: Option<Timerlat>,
    caveats: Vec<Caveat>,
    /// Calls of programs that the kernel had skipped before the beginning, and
    /// at the end.
    skipped: (u64, Option<u64>),
    hurry: Hurry,
    /// What measuring took while it warmed up, of its CPUs' time.
    price: Option<f64>,
    /// Until when was looked at the board.
    looked: Nanos,
    witness: Option<Witness>,
    stops: Stops,
    /// What was lost before the lines were last begun anew.
    earlier: Losses,
    /// How each of `readers` stood at the end.
    standings: Vec<Standing>,
    began: Option<Usage>,
    /// What is done afterwards (looking up names, say) takes more.
    ended: Option<Usage>,
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
        // Before there is anything of ours.
        let tracers = other_tracers();
        descriptors::allow_all();
        let stamps = Stamps::of_request(&mut request)?;
        let timerlat = Timerlat::of_request(&mut request)?;
        let mut caveats = Vec::from_iter(stamps.caveat());
        caveats.extend(tracers);
        if let Err(err) = policy::lock_memory() {
            caveats.push(Caveat::new(
                CaveatKind::MemoryLock,
                format!(
                    "memory cannot be locked ({}), so page faults may be measured as latency",
                    reason_of(&err)
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
            nr_slots: most_lines(&request).max(1) << ring_bits,
        };
        let mut programs = load(wanted, extent, &request.services, stamps, &mut caveats)?;
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
        check_descriptors(&plans)?;
        if strays::may_leave(&request.cpus) {
            strays::expect(&board, extent.nr_cpus);
        }
        let shared = Arc::new(Shared {
            board,
            enlist: programs
                .as_ref()
                .map(Programs::enlist)
                .transpose()
                .map_err(|refused| {
                    system("let threads be known to the programs", refused.reason)
                })?,
            stop: AtomicBool::new(false),
            exhaustion: Exhaustion::new(request.cpus.len()),
            faults: AtomicU64::new(0),
            passed: plans
                .iter()
                .filter(|plan| plan.carried().is_some())
                .map(|plan| (plan.cpu, Passed::default()))
                .collect(),
        });
        let learning = programs
            .as_ref()
            .map(|all| all.learn_timers(extent))
            .transpose()
            .map_err(|refused| system("learn the timers", refused.reason))?;
        let threads = match &external {
            Some(external) => ready_external(&shared, &plans, ring_bits, external)?,
            None => ready_threads(&shared, &plans, ring_bits, programs.as_ref())?,
        };
        // What it saw stays on the board.
        drop(learning);
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
            schedulings: Schedulings::of(&threads),
            threads,
            programs,
            timerlat,
            caveats,
            skipped: (0, None),
            hurry: Hurry::new(),
            price: None,
            looked: Nanos::ZERO,
            // Without it a stop cannot be told from a starved machine.
            witness: Witness::new().ok(),
            stops: Stops::default(),
            earlier: Losses::default(),
            standings: Vec::new(),
            began: None,
            ended: None,
        })
    }

    /// Remembers when laggard was stopped since the last look, if it was: between
    /// two instants at which threads of ours ran.
    fn note_stop(&mut self, now: Nanos) {
        let looked = std::mem::replace(&mut self.looked, now);
        if !self.witness.as_mut().is_some_and(Witness::was_stopped) {
            return;
        }
        let mut readings = Vec::new();
        for (cpu, reader) in &self.readers {
            let board = self.shared.board.cpu(*cpu);
            let ring = self.shared.board.ring(board, reader.index);
            if self.lines[usize::from(reader.id.0)].service.is_thread() {
                readings.extend(reader.readings(board, ring));
            }
        }
        self.stops.add((looked, now), readings, self.request.period);
    }

    /// Takes in what the carrying threads did not come to.
    fn note_passed(&mut self) {
        for (cpu, passed) in &self.shared.passed {
            let skips = self.skips.entry(*cpu).or_default();
            passed.drain(|number, came| skips.add(number, came));
        }
    }

    /// Remembers which threads run softirqs.
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
                    "timer softirqs run in threads here ({}), which wait for every thread above them",
                    names.join(", ")
                ),
                "`chrt -f -p PRIORITY TID` moves such a thread",
            )
        })
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

    fn thread_of(&self, line: LineId) -> Option<Tid> {
        let mut place = usize::from(line.0);
        for plan in &self.plans {
            if place < plan.lines.len() {
                let wanted = (Cpu(plan.cpu), place);
                let own = |one: &&MeasuringThread| one.is_service && one.line == wanted;
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

    fn caveats(&self) -> Vec<Caveat> {
        let mut caveats = self.caveats.clone();
        caveats.extend(self.stopped_caveat());
        caveats.extend(self.moved_caveat());
        caveats.extend(self.rescheduled_caveat());
        caveats.extend(self.unserved_caveats());
        caveats.extend(self.softirq_threads_caveat());
        if self.has_given_up() {
            caveats.push(Caveat::new(
                CaveatKind::Overload,
                "measuring took most of its CPUs' time and left its own collector none for 3 s, so it ended itself",
                "record with a longer --period, fewer services or fewer CPUs",
            ));
        }
        caveats.extend(strays::caveats(&self.readers, &self.shared.board));
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
                .map_err(|err| system("start the timerlat tracer", reason_of(&err)))?;
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
        self.hurry.note();
        // Before it is asked whether laggard was stopped: what comes later is
        // read when that is known of it.
        let now = clock::now();
        self.note_stop(now);
        self.note_passed();
        let mut standings = self.standings.iter();
        for (cpu, reader) in &mut self.readers {
            let board = self.shared.board.cpu(*cpu);
            let mut look = Look {
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
        if let Some(timerlat) = &mut self.timerlat {
            timerlat.drain(into);
        }
        self.note_softirq_threads();
        if self.ended.is_none() {
            self.schedulings.look_at_times(&self.threads, now);
        }
        self.shared.exhaustion.note(clock::now());
    }

    fn price(&self) -> Option<f64> {
        self.price
    }

    fn has_given_up(&self) -> bool {
        self.shared.exhaustion.given_up().is_some()
    }

    fn begin_anew(&mut self) -> Nanos {
        let start = clock::now();
        self.earlier = self.counted_losses();
        self.skipped.0 = self.skipped_so_far();
        for (_, reader) in &mut self.readers {
            reader.begin_at(start);
        }
        if let Some(timerlat) = &mut self.timerlat {
            timerlat.begin(start);
        }
        start
    }

    fn stop(&mut self) -> Nanos {
        self.end()
    }

    fn accounts(&self) -> Vec<Account> {
        self.accounts_of_lines()
    }

    fn losses(&self) -> Losses {
        self.counted_losses()
    }

    fn cost(&self) -> OwnCost {
        self.own_cost()
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

fn system(action: &str, reason: String) -> ProbeError {
    ProbeError::System {
        action: action.into(),
        remedy: "`laggard doctor` says what this machine allows".into(),
        source: Some(io::Error::other(reason)),
    }
}
