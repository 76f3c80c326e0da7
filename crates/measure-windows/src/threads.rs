//! laggard's threads that wait for high-resolution waitable timers.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use laggard_model::{
    Account, Backend, Batch, Caveat, CaveatKind, Cpu, Line, LineId, LossReason, Losses, Nanos,
    Route, Service, Tid, TimerApi,
};

use super::priority::RealtimeClass;
use super::request::{check, check_timers, keep_possible};
use super::stop::StopSignal;
use super::thread::{EarlyWaits, ThreadsState, TimedLine, TimerThread};
use super::usage::cpu_of;
use super::{clock, memory, priority};
use laggard_measure::board::{
    Asker, Board, BoardCpu, BoardSlot, BoardView, LINES_PER_CPU, LineReader, Skips, Standing,
    Stops, Timeline, unserved,
};
use laggard_measure::exhaustion::Exhaustion;
use laggard_measure::probe::{Drive, ProbeError, Request};
use laggard_measure::source::Source;

/// Time that a ring holds: a collector that does not run for this time loses nothing.
const RING_TIME: Nanos = Nanos::from_secs(8);
/// Minimum and maximum number of a ring's slots, as powers of two.
const MIN_MAX_RING_BITS: (u32, u32) = (8, 14);

/// Source that measures with laggard's threads, on timers.
#[derive(Debug)]
pub(super) struct TimerThreads {
    request: Request,
    lines: Vec<Line>,
    readers: Vec<(u32, LineReader)>,
    shared: Arc<ThreadsState>,
    threads: Vec<TimerThread>,
    caveats: Vec<Caveat>,
    /// Unused here: no softirq requests a service, and stops of laggard are not detected.
    skips: Skips,
    stops: Stops,
    standings: Vec<Standing>,
    /// Kept until the threads have ended.
    class: Option<RealtimeClass>,
    /// Timer that the threads wait for.
    api: TimerApi,
    has_begun: bool,
}

impl TimerThreads {
    /// Prepares the threads.
    pub(super) fn new(mut request: Request) -> Result<Self, ProbeError> {
        check(&request)?;
        let api = match request.drive {
            Drive::Wait(api) => api,
            Drive::Timer | Drive::Uio(_) => TimerApi::HighResTimer,
        };
        let mut caveats = vec![unseen()];
        caveats.extend(coarse_caveat(api));
        let class = keep_possible(&mut request, &mut caveats)?;
        let lines_of = |cpu: &Cpu| {
            let cpu = *cpu;
            let line = move |&service: &Service| Line::new(cpu, service, Route::Direct);
            request.services.iter().map(line).collect::<Vec<_>>()
        };
        let lines: Vec<Line> = request.cpus.as_slice().iter().flat_map(lines_of).collect();
        check_timers(api, lines.len())?;
        if request.services.len() > LINES_PER_CPU {
            return Err(ProbeError::TooManyLines(
                request.services.len(),
                LINES_PER_CPU,
            ));
        }
        let stop = StopSignal::new().map_err(|err| ProbeError::System {
            action: "create an event that ends the measuring threads".into(),
            remedy: "end other programs, which may use many events".into(),
            said: Some(err),
        })?;
        let shared = Arc::new(ThreadsState {
            board: board(&request, &mut caveats),
            stop,
            exhaustion: Exhaustion::new(request.cpus.len(), crate::used::used),
            early: EarlyWaits::default(),
            failed: AtomicU64::new(0),
        });
        let mut source = Self {
            readers: readers(&request, &lines),
            lines,
            shared,
            threads: Vec::new(),
            caveats,
            skips: Skips::default(),
            stops: Stops::default(),
            standings: Vec::new(),
            class,
            api,
            has_begun: false,
            request,
        };
        source.ready_threads()?;
        Ok(source)
    }

    fn ready_threads(&mut self) -> Result<(), ProbeError> {
        for (cpu, reader) in &self.readers {
            let service = self.request.services[reader.index];
            let shared = Arc::clone(&self.shared);
            let thread = TimerThread::prepare(shared, Cpu(*cpu), reader.index, service, self.api);
            self.threads.push(thread.map_err(|err| ProbeError::System {
                action: format!("start a thread as `{service}` on CPU {cpu}"),
                remedy: "omit that service or CPU".into(),
                said: Some(err),
            })?);
        }
        if self.threads.iter().any(|thread| !thread.is_fine) {
            self.caveats.push(Caveat::new(
                CaveatKind::AbilityAbsent,
                "no high-resolution waitable timer, so threads wait for the system's tick",
                "use Windows 10 version 1803 or later",
            ));
        }
        let is_said = |caveat: &Caveat| caveat.kind == CaveatKind::MemoryLock;
        let is_locked = self.threads.iter().all(|thread| thread.is_locked);
        if !is_locked && !self.caveats.iter().any(is_said) {
            self.caveats.push(memory_caveat());
        }
        Ok(())
    }

    /// Returns the expiries of the line at `place` of a CPU.
    fn plan(&self, cpu: u32, place: usize, start: Nanos) -> TimedLine {
        let services = &self.request.services;
        let stride = u64::from(self.request.every.of(services[place]));
        let number = |place| u32::try_from(place).expect("a CPU has 16 places");
        TimedLine {
            timeline: Timeline::new(
                self.request.seed ^ u64::from(cpu),
                self.request.period,
                self.request.dither,
                number(place),
                number(services.len()),
                start,
            ),
            // Different first numbers keep the lines from using the same periods.
            first: place as u64 % stride,
            stride,
        }
    }

    /// Returns whether a service has not served a request from before the end.
    fn is_anyone_waiting(&self) -> bool {
        self.readers.iter().any(|(cpu, reader)| {
            let board = self.shared.board.cpu(*cpu);
            let ring = self.shared.board.ring(board, reader.index);
            unserved(board, reader.index, ring).is_some_and(|slot| slot.expiry() < reader.until)
        })
    }

    /// Returns the state of a line whose thread has stopped waiting.
    fn standing(&self, cpu: u32, reader: &LineReader, given_up: Nanos) -> Standing {
        let line = (Cpu(cpu), reader.index);
        let mut own = self.threads.iter().filter(|thread| thread.line == line);
        let has_left = own.all(TimerThread::is_finished);
        Standing {
            unserved_from: Some(0),
            // The service ran after the end, and the thread left before it waited again.
            given_up: if has_left { reader.until } else { given_up },
            is_elsewhere: false,
        }
    }

    fn early_caveat(&self) -> Option<Caveat> {
        let (count, most) = self.shared.early.seen();
        (count > 0).then(|| {
            Caveat::new(
                CaveatKind::TickRate,
                format!(
                    "{count} timer waits ended early, by at most {most}; the threads waited again, so no latency is negative"
                ),
                "no action needed: a relative timer may be early by the system's tick",
            )
        })
    }
}

/// Returns the warning about events that are not observable on Windows.
fn unseen() -> Caveat {
    Caveat::new(
        CaveatKind::AbilityAbsent,
        "on Windows laggard does not detect page faults of measuring threads or stops of laggard",
        "with locked memory there are no page faults after the start; do not touch laggard's window during the measurement",
    )
}

/// Returns the warning about a timer without high resolution.
fn coarse_caveat(api: TimerApi) -> Option<Caveat> {
    let what = match api {
        TimerApi::WaitableTimer => "which expires at the system's tick",
        TimerApi::TimeSetEvent => {
            "which takes whole milliseconds (the rest counts as latency) and wakes the measured thread from a thread of winmm"
        }
        TimerApi::ThreadpoolTimer => {
            "which expires at the system's tick and wakes the measured thread from a pool thread"
        }
        _ => return None,
    };
    Some(Caveat::new(
        CaveatKind::TickRate,
        format!("threads wait with {}, {what}", api.name()),
        "for high-resolution timers, omit `--source`",
    ))
}

fn memory_caveat() -> Caveat {
    Caveat::new(
        CaveatKind::MemoryLock,
        "cannot lock memory, so page faults may be measured as latency",
        "run as an administrator, with the right to increase a working set",
    )
}

/// Creates the board in locked memory.
fn board(request: &Request, caveats: &mut Vec<Caveat>) -> Board {
    let slots = RING_TIME.ns() / request.period.ns();
    let bits = (64 - slots.leading_zeros()).clamp(MIN_MAX_RING_BITS.0, MIN_MAX_RING_BITS.1);
    let cpus = request.cpus.as_slice();
    let nr_cpus = cpus.iter().map(|cpu| cpu.0 as usize + 1).max().unwrap_or(0);
    let slots_of_cpu = request.services.len() << bits;
    let nr_slots = cpus.len() * slots_of_cpu;
    let bytes = nr_cpus * size_of::<BoardCpu>() + nr_slots * size_of::<BoardSlot>();
    let board = Board::owned(nr_cpus, nr_slots);
    let mut locked = memory::allow(bytes);
    for (number, cpu) in cpus.iter().enumerate() {
        let own = board.cpu(cpu.0);
        own.ring_bits.store(bits, Ordering::Relaxed);
        let first = (number * slots_of_cpu) as u64;
        own.lines_first_slot.store(first, Ordering::Relaxed);
        locked = locked.and_then(|()| memory::lock(std::slice::from_ref(own)));
        for place in 0..request.services.len() {
            locked = locked.and_then(|()| memory::lock(board.ring(own, place)));
        }
    }
    if locked.is_err() {
        caveats.push(memory_caveat());
    }
    board
}

/// Returns a reader for each line, with the number of its CPU.
fn readers(request: &Request, lines: &[Line]) -> Vec<(u32, LineReader)> {
    let places = request.services.len();
    let reader = |(number, line): (usize, &Line)| {
        let id = LineId::at(number).unwrap_or(LineId(u16::MAX));
        let last = line.service.last_stage();
        let reader = LineReader::new(id, number % places, last, Asker::Thread);
        (line.cpu.0, reader)
    };
    lines.iter().enumerate().map(reader).collect()
}

impl Source for TimerThreads {
    fn backend(&self) -> Backend {
        Backend::User
    }

    fn lines(&self) -> &[Line] {
        &self.lines
    }

    fn start(&mut self, start: Nanos, first: LineId) -> Result<(), ProbeError> {
        priority::give_way();
        for thread in &self.threads {
            let (cpu, place) = thread.line;
            thread.start(self.plan(cpu.0, place, start));
        }
        let plans: Vec<TimedLine> = self
            .readers
            .iter()
            .map(|(cpu, reader)| self.plan(*cpu, reader.index, start))
            .collect();
        for ((_, reader), plan) in self.readers.iter_mut().zip(plans) {
            (reader.stride, reader.first) = (plan.stride, plan.first);
            reader.planned = Some(plan.timeline);
            reader.number_from(first);
        }
        Ok(())
    }

    fn begin(&mut self, from: Nanos) {
        for (_, reader) in &mut self.readers {
            reader.begin_at(from);
        }
        self.shared.early.begin();
        self.shared.exhaustion.note(clock::now());
        self.has_begun = true;
    }

    fn drain(&mut self, into: &mut Batch) {
        let now = clock::now();
        let mut standings = self.standings.iter();
        for (cpu, reader) in &mut self.readers {
            let board = self.shared.board.cpu(*cpu);
            let mut look = BoardView {
                cpu: board,
                ring: self.shared.board.ring(board, reader.index),
                skips: &mut self.skips,
                stops: &self.stops,
                until: now,
            };
            reader.drain(&mut look, into);
            if let Some(standing) = standings.next() {
                reader.close(*standing, &mut look, into);
            }
        }
        self.shared.exhaustion.note(clock::now());
    }

    fn end_at(&mut self, until: Nanos) {
        for (_, reader) in &mut self.readers {
            reader.until = until;
        }
        if !self.has_begun {
            // No requests are open: the threads end with their channels.
            self.threads.clear();
        }
    }

    fn is_at_rest(&mut self) -> bool {
        if self.is_anyone_waiting() {
            return false;
        }
        self.shared.stop.give();
        self.threads.iter().all(TimerThread::is_finished)
    }

    fn settle(&mut self, given_up: Nanos) {
        // Before the stop wakes the waiting threads: a service whose thread leaves because of the
        // stop has not run.
        self.standings = self
            .readers
            .iter()
            .map(|(cpu, reader)| self.standing(*cpu, reader, given_up))
            .collect();
        self.shared.stop.give();
        self.class = None;
    }

    fn accounts(&self) -> Vec<Account> {
        self.readers
            .iter()
            .map(|(_, reader)| reader.account())
            .collect()
    }

    fn caveats(&self) -> Vec<Caveat> {
        let mut caveats = self.caveats.clone();
        caveats.extend(self.early_caveat());
        caveats
    }

    fn unsettled(&self) -> Losses {
        let mut losses = Losses::default();
        for (cpu, reader) in &self.readers {
            let lost = reader.lost_since(self.shared.board.cpu(*cpu));
            losses.add(LossReason::RingFull, lost);
        }
        losses
    }

    fn given_up(&self) -> Option<Nanos> {
        let failed = self.shared.failed.load(Ordering::Relaxed);
        let failed = (failed > 0).then(|| Nanos::from_ns(failed));
        self.shared.exhaustion.given_up().or(failed)
    }

    fn failure(&self) -> Option<String> {
        let has_failed = self.shared.failed.load(Ordering::Relaxed) > 0;
        has_failed.then(|| "Windows refused to set a timer for a thread".into())
    }

    fn thread_of(&self, line: usize) -> Option<Tid> {
        let (cpu, reader) = self.readers.get(line)?;
        let own = (Cpu(*cpu), reader.index);
        let thread = self.threads.iter().find(|thread| thread.line == own)?;
        Some(thread.id())
    }

    fn measuring_cpu(&self) -> Nanos {
        let own = self.threads.iter().map(cpu_of);
        own.fold(Nanos::ZERO, |sum, cpu| sum + cpu)
    }
}
