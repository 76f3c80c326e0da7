//! Measuring threads: one per CPU, thread service and route.
//!
//! After its start a measuring thread takes no lock, allocates nothing,
//! writes no file and, once its memory is locked, has no page fault. It
//! sleeps, reads the clock and writes to the board.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering, compiler_fence};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

use laggard_model::{Cpu, Nanos, Service, Tid};
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};

use super::board::{Board, BoardCpu, BoardLine, BoardSlot};
use super::carrier::{self, Passed};
use super::doorbell::Doorbell;
use super::exhaustion::Exhaustion;
use super::external::External;
use super::lines::Turn;
use super::programs::Enlist;
use super::soft::SoftTimer;
use super::{clock, policy};
use crate::timeline::Timeline;

/// The kernel keeps this much of a thread's name.
const NAME_BYTES: usize = 15;

/// What all threads of a run share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) board: Board,
    /// Where programs stamp: how a thread makes itself known to them.
    pub(crate) enlist: Option<Enlist>,
    /// Set when measuring is to end.
    pub(crate) stop: AtomicBool,
    /// Whether measuring takes the machine from its own collector.
    pub(crate) exhaustion: Exhaustion,
    /// Page faults of measuring threads that have ended, while they measured.
    pub(crate) faults: AtomicU64,
    /// What the carrying thread of a CPU did not come to arm, by the CPU.
    pub(crate) passed: BTreeMap<u32, Passed>,
}

/// How a thread is woken.
#[derive(Debug)]
pub(crate) enum Waking {
    /// By its own timer, on this timeline.
    Timer,
    /// By its own timer descriptor, on this timeline.
    SoftTimer,
    /// By the interrupt of this device.
    Interrupt(Arc<External>),
    /// By nothing: it raises the interrupt of this device, on this timeline.
    Raising(Arc<External>),
    /// By nothing: its timer descriptor leads to a work item, on this timeline.
    Carrier,
    /// By the softirq's callback, through this ring buffer.
    Doorbell(OwnedFd),
}

impl Waking {
    /// Whether the thread is its line's service, whose wakeups are stamped, or
    /// only arms the timer that leads to it; `None`: neither.
    const fn serves(&self) -> Option<bool> {
        match self {
            Self::Raising(_) => None,
            Self::Carrier => Some(false),
            _ => Some(true),
        }
    }
}

/// A thread that is ready to measure.
#[derive(Debug)]
pub(crate) struct MeasuringThread {
    pub(crate) tid: Tid,
    /// The CPU and place of its line.
    pub(crate) line: (Cpu, usize),
    /// Whether it is that line's service itself.
    pub(crate) is_service: bool,
    start: Sender<Option<(Timeline, Turn)>>,
    handle: JoinHandle<()>,
}

impl MeasuringThread {
    /// A thread for line `line` of `cpu`, with its policy set, asleep.
    pub(crate) fn prepare(
        shared: Arc<Shared>,
        cpu: Cpu,
        line: usize,
        service: Service,
        waking: Waking,
    ) -> io::Result<Self> {
        let (start, started) = channel();
        let (ready, is_ready) = channel();
        let is_service = waking.serves() == Some(true);
        let handle = std::thread::Builder::new()
            .name(name(cpu, service, &waking))
            .stack_size(policy::STACK_BYTES)
            .spawn(move || run(&shared, cpu, line, service, waking, &ready, &started))?;
        let tid = is_ready
            .recv()
            .map_err(|_| io::Error::other("the measuring thread ended at its start"))??;
        Ok(Self {
            tid,
            line: (cpu, line),
            is_service,
            start,
            handle,
        })
    }

    /// Lets it measure; a thread that is woken by a doorbell needs no timeline.
    pub(crate) fn start(&self, timeline: Option<(Timeline, Turn)>) {
        // A thread that is gone has reported why when it was prepared.
        let _ = self.start.send(timeline);
    }

    /// Whether it has ended.
    pub(crate) fn is_finished(&self) -> bool {
        self.handle.is_finished()
    }
}

/// What the system calls a measuring thread, as in `lag/1/fifo:90`; one of the
/// deferred route ends in `d`, one that raises an interrupt in `r`, one whose
/// timer leads to a work item in `w`.
fn name(cpu: Cpu, service: Service, waking: &Waking) -> String {
    let how = match waking {
        Waking::Timer | Waking::Interrupt(_) => "",
        Waking::SoftTimer | Waking::Doorbell(_) => "d",
        Waking::Raising(_) => "r",
        Waking::Carrier => "w",
    };
    let name = format!("lag/{cpu}/{service}{how}");
    match name.len() {
        0..=NAME_BYTES => name,
        // Cut, `fifo:90` and `fifo:9` would look alike.
        _ => name.replace("fifo:", "f"),
    }
}

fn run(
    shared: &Shared,
    cpu: Cpu,
    line: usize,
    service: Service,
    waking: Waking,
    ready: &Sender<io::Result<Tid>>,
    started: &Receiver<Option<(Timeline, Turn)>>,
) {
    let prepared = policy::block_signals()
        .and_then(|()| policy::pin(cpu))
        .and_then(|()| policy::schedule_as(service))
        .and_then(|()| {
            let serves = waking.serves();
            Waiting::new(waking).map(|waiting| (waiting, serves))
        })
        .and_then(|(waiting, serves)| {
            if let (Some(enlist), Some(serves)) = (&shared.enlist, serves) {
                waiting.be_learnt(shared.board.cpu(cpu.0), line);
                enlist.enlist(cpu, line, serves)?;
            }
            Ok(waiting)
        });
    policy::refuse_timer_slack();
    policy::touch_stack();
    // SAFETY: takes nothing; cannot fail.
    let tid = Tid(unsafe { libc::gettid() }.cast_unsigned());
    let waiting = match prepared {
        Ok(waiting) => waiting,
        Err(err) => {
            // The other end waits for exactly this message.
            let _ = ready.send(Err(err));
            return;
        }
    };
    // As above.
    let _ = ready.send(Ok(tid));
    let Ok(timeline) = started.recv() else {
        return;
    };
    let faults = policy::faults_of_thread();
    let cpu_board = shared.board.cpu(cpu.0);
    let ring = shared.board.ring(cpu_board, line);
    match (waiting, timeline) {
        (Waiting::Doorbell(doorbell, epoll), _) => {
            let post = Post::new(cpu, cpu_board, line, ring);
            measure_doorbell(shared, post, &doorbell, &epoll);
        }
        (Waiting::Timer, Some((timeline, turn))) => {
            let post = Post::new(cpu, cpu_board, line, ring);
            measure_timer(shared, post, timeline, turn, &Sleep);
        }
        (Waiting::SoftTimer(timer), Some((timeline, turn))) => {
            let post = Post::new(cpu, cpu_board, line, ring);
            measure_timer(shared, post, timeline, turn, &timer);
        }
        (Waiting::Carrier(timer), Some((timeline, turn))) => {
            if let Some(passed) = shared.passed.get(&cpu.0) {
                carrier::carry(shared, cpu_board, line, timeline, turn, &timer, passed);
            }
        }
        (Waiting::Interrupt(device), _) => {
            device.wait(shared, Post::new(cpu, cpu_board, line, ring));
        }
        (Waiting::Raising(device), Some((timeline, _))) => {
            device.raise(shared, cpu_board, line, ring, timeline);
        }
        (_, None) => {}
    }
    let faults = policy::faults_of_thread() - faults;
    shared.faults.fetch_add(faults, Ordering::Relaxed);
}

/// What a thread waits with.
enum Waiting {
    Timer,
    SoftTimer(SoftTimer),
    Carrier(SoftTimer),
    Doorbell(Doorbell, Epoll),
    Interrupt(Arc<External>),
    Raising(Arc<External>),
}

impl Waiting {
    fn new(waking: Waking) -> io::Result<Self> {
        Ok(match waking {
            Waking::Timer => Self::Timer,
            Waking::Interrupt(device) => Self::Interrupt(device),
            Waking::Raising(device) => Self::Raising(device),
            Waking::SoftTimer => Self::SoftTimer(SoftTimer::new()?),
            Waking::Carrier => Self::Carrier(SoftTimer::unwaited()?),
            Waking::Doorbell(ring) => {
                let doorbell = Doorbell::new(ring)?;
                let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
                epoll.add(doorbell.ring(), EpollEvent::new(EpollFlags::EPOLLIN, 0))?;
                Self::Doorbell(doorbell, epoll)
            }
        })
    }
}

impl Waiting {
    /// Lets the programs know which timer leads to line `line`, where that is
    /// a descriptor's (`learning.bpf.c`); a sleeper's they know by its stack.
    fn be_learnt(&self, cpu: &BoardCpu, line: usize) {
        let (Self::SoftTimer(timer) | Self::Carrier(timer)) = self else {
            return;
        };
        let far = clock::now() + FAR;
        cpu.learnt_ns.store(far.ns(), Ordering::Relaxed);
        let learner = u32::try_from(line + 1).unwrap_or(0);
        cpu.learner.store(learner, Ordering::Relaxed);
        // The program runs on this CPU, in the call.
        compiler_fence(Ordering::SeqCst);
        timer.arm(far);
        compiler_fence(Ordering::SeqCst);
        cpu.learner.store(0, Ordering::Relaxed);
        // A descriptor is armed anew before anybody waits for it.
    }
}

/// Further away than measuring begins.
const FAR: Nanos = Nanos::from_secs(3_600);

/// Where a thread measures, and what it writes to.
#[derive(Clone, Copy)]
pub(super) struct Post<'a> {
    cpu: Cpu,
    board: &'a BoardCpu,
    index: usize,
    ring: &'a [BoardSlot],
}

impl<'a> Post<'a> {
    pub(super) const fn new(
        cpu: Cpu,
        board: &'a BoardCpu,
        index: usize,
        ring: &'a [BoardSlot],
    ) -> Self {
        Self {
            cpu,
            board,
            index,
            ring,
        }
    }

    /// The line's ring.
    pub(super) const fn line(&self) -> &'a BoardLine {
        &self.board.lines[self.index]
    }

    /// The slot number `head`.
    #[allow(clippy::cast_possible_truncation)]
    pub(super) const fn slot(&self, head: u64) -> &'a BoardSlot {
        &self.ring[(head % self.ring.len() as u64) as usize]
    }

    /// Fills in a slot whose service ran at `end`, just now.
    pub(super) fn complete(&self, slot: &BoardSlot, end: Nanos) {
        if policy::current_cpu() != Some(self.cpu) {
            slot.set_foreign();
        }
        slot.end_ns.store(end.ns(), Ordering::Relaxed);
    }
}

/// How a thread has itself woken at an instant.
trait Alarm {
    /// Sets it, where that is a step of its own; whether it is.
    fn arm(&self, time: Nanos) -> bool;
    /// Returns when that time has come.
    fn wait(&self, time: Nanos);
}

/// Sleeping until then.
struct Sleep;

impl Alarm for Sleep {
    fn arm(&self, _: Nanos) -> bool {
        false
    }

    fn wait(&self, time: Nanos) {
        clock::sleep_until(time);
    }
}

impl Alarm for SoftTimer {
    fn arm(&self, time: Nanos) -> bool {
        Self::arm(self, time);
        true
    }

    fn wait(&self, _: Nanos) {
        Self::wait(self);
    }
}

/// Waits for each expiry of the timeline that has not passed.
fn measure_timer(
    shared: &Shared,
    post: Post<'_>,
    mut timeline: Timeline,
    turn: Turn,
    alarm: &impl Alarm,
) {
    let (cpu, index) = (post.board, post.index);
    let (line, awaited) = (post.line(), &cpu.expiries[index]);
    let room = post.ring.len() as u64;
    let first = cpu.lines_first_slot.load(Ordering::Relaxed) + index as u64 * room;
    let mut head = 0_u64;
    let mut lost = 0_u64;
    advance(&mut timeline, turn.first);
    while !shared.stop.load(Ordering::Relaxed) {
        let has_room = head - line.tail.load(Ordering::Acquire) < room;
        let (slot, expiry) = (post.slot(head), timeline.expiry());
        if has_room {
            slot.begin(timeline.seq() / turn.stride, expiry, lost);
            line.slot.store(first + head % room, Ordering::Relaxed);
            line.waiting.store(1, Ordering::Release);
            awaited.store(expiry.ns(), Ordering::Relaxed);
        }
        // The programs run on this CPU, so they see the stores in order as
        // long as the compiler keeps them so.
        compiler_fence(Ordering::SeqCst);
        let armed = clock::now();
        if alarm.arm(expiry) && has_room {
            slot.set_armed();
        }
        alarm.wait(expiry);
        let user = clock::now();
        if has_room {
            line.waiting.store(0, Ordering::Relaxed);
            awaited.store(0, Ordering::Relaxed);
            if armed >= expiry {
                slot.set_armed_late();
            }
            post.complete(slot, user);
            head += 1;
            lost = 0;
            line.lost.store(0, Ordering::Relaxed);
            line.head.store(head, Ordering::Release);
        } else {
            lost += 1;
            line.lost.store(lost, Ordering::Relaxed);
        }
        if shared.exhaustion.is_hopeless(user) {
            shared.stop.store(true, Ordering::Relaxed);
        }
        advance(&mut timeline, turn.stride);
        while timeline.expiry() <= user {
            advance(&mut timeline, turn.stride);
        }
    }
}

pub(super) fn advance(timeline: &mut Timeline, expiries: u64) {
    for _ in 0..expiries {
        timeline.advance();
    }
}

/// How often a thread that nobody wakes looks whether it is to end, ms.
const DOORBELL_PATIENCE_MS: u16 = 100;

/// Waits for the softirq's callback to ring.
fn measure_doorbell(shared: &Shared, post: Post<'_>, doorbell: &Doorbell, epoll: &Epoll) {
    let line = post.line();
    let mut events = [EpollEvent::empty(); 1];
    let patience = EpollTimeout::from(DOORBELL_PATIENCE_MS);
    loop {
        // Interrupted or timed out: looks again below, and finds nothing.
        let _ = epoll.wait(&mut events, patience);
        let user = clock::now();
        doorbell.silence();
        if line.waiting.load(Ordering::Acquire) != 0 {
            let head = line.head.load(Ordering::Relaxed);
            let slot = post.slot(head);
            post.complete(slot, after_asked(user, slot));
            line.head.store(head + 1, Ordering::Release);
            // Last: the callback may claim the next slot from here on.
            line.waiting.store(0, Ordering::Release);
        }
        if shared.stop.load(Ordering::Relaxed) {
            return;
        }
    }
}

/// When a thread that read the clock at `user` was ready to serve `slot`. The
/// callback may ask a thread that is awake already, because it has looked
/// whether it is to end: after its reading, which is then not the one.
fn after_asked(user: Nanos, slot: &BoardSlot) -> Nanos {
    let asked = slot.signal_ns.load(Ordering::Relaxed);
    match user.ns() < asked {
        true => clock::now(),
        false => user,
    }
}

/// The slot that `line` has asked its service for, if that has not come.
pub(crate) fn unserved<'a>(
    cpu: &BoardCpu,
    line: usize,
    ring: &'a [BoardSlot],
) -> Option<&'a BoardSlot> {
    let state = &cpu.lines[line];
    if state.waiting.load(Ordering::Acquire) == 0 {
        return None;
    }
    let head = state.head.load(Ordering::Acquire);
    #[allow(clippy::cast_possible_truncation)]
    Some(&ring[(head % ring.len() as u64) as usize])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_of_one_machine_differ_within_what_the_kernel_keeps_of_a_name() {
        for (cpu, service, waking, called) in [
            (1, Service::Fifo(90), Waking::Timer, "lag/1/fifo:90"),
            (1, Service::Fifo(50), Waking::SoftTimer, "lag/1/fifo:50d"),
            (255, Service::Other, Waking::SoftTimer, "lag/255/otherd"),
            (255, Service::Fifo(90), Waking::Timer, "lag/255/fifo:90"),
            (255, Service::Fifo(90), Waking::SoftTimer, "lag/255/f90d"),
        ] {
            let name = name(Cpu(cpu), service, &waking);

            assert_eq!(name, called);
            assert!(name.len() <= NAME_BYTES, "{name}");
        }
    }
}
