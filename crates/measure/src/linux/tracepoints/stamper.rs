//! Stages of wakeups, found in the order of the kernel's events.

use std::collections::{BTreeMap, HashMap, VecDeque};

use laggard_model::Nanos;

use crate::board::BoardSlot;

/// Event of the kernel on CPU `cpu`.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct KernelEvent {
    pub(super) at: Nanos,
    pub(super) cpu: u32,
    pub(super) kind: EventKind,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum EventKind {
    InterruptEntry,
    InterruptExit,
    /// A thread armed a timer for `expiry`. `is_soft`: it expires in softirq context.
    Armed {
        tid: u32,
        timer: u64,
        expiry: Nanos,
        is_soft: bool,
    },
    /// The callback of a timer starts.
    Expired {
        timer: u64,
    },
    /// The softirq of timers was raised.
    SoftirqRaised,
    SoftirqEntry,
    Waking {
        tid: u32,
    },
    SwitchIn {
        tid: u32,
    },
    /// Events of this CPU before this time are missing.
    Lost,
}

/// Wait of a thread for its timer, from the arming to the switch to the thread. Times are zero if
/// not seen.
#[derive(Clone, Copy, Debug, Default)]
struct Wait {
    expiry: Nanos,
    timer: u64,
    is_soft: bool,
    /// Events during the wait are missing, so no time is certain.
    is_incomplete: bool,
    is_elsewhere: bool,
    irq: Nanos,
    expire: Nanos,
    raise: Nanos,
    softirq: Nanos,
    waking: Nanos,
    running: Nanos,
}

/// Line of a thread.
#[derive(Debug)]
struct LineWaits {
    cpu: u32,
    /// Waits whose slots have not been read, oldest first.
    waits: VecDeque<Wait>,
}

/// Interrupts and timer softirqs of a CPU. Times are zero if it did not occur.
#[derive(Clone, Copy, Debug, Default)]
struct CpuState {
    irq: Nanos,
    /// First raise of the softirq that has not been served, and the interrupt before it.
    raised: (Nanos, Nanos),
    /// The same for the softirq in service or served last.
    served: (Nanos, Nanos),
}

/// Thread of a line as tracepoints show it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StampedThread {
    pub(crate) cpu: u32,
    /// Place of the line on its CPU.
    pub(crate) place: usize,
    pub(crate) tid: u32,
    /// Whether the thread is its line's service, or only arms its timer.
    pub(crate) is_service: bool,
}

/// Finds the times of each wakeup of the measuring threads.
///
/// Model: `bpf/chain.bpf.c` and `bpf/raise.bpf.c`. A timer is found by its address, which the
/// thread's last arming showed.
#[derive(Debug)]
pub(super) struct Stamper {
    cpus: BTreeMap<u32, CpuState>,
    lines: Vec<LineWaits>,
    places: HashMap<(u32, usize), usize>,
    /// Lines by the thread that arms their timers, and by the thread that is woken.
    arming: HashMap<u32, usize>,
    served: HashMap<u32, usize>,
    /// Lines by the address of their timer.
    timers: HashMap<u64, usize>,
    /// Whether `Waking` events are recorded.
    has_waking: bool,
    /// Whether timers of a line may expire on another CPU.
    may_leave: bool,
}

impl Stamper {
    pub(super) fn new(threads: &[StampedThread], has_waking: bool, may_leave: bool) -> Self {
        let mut stamper = Self {
            cpus: BTreeMap::new(),
            lines: Vec::new(),
            places: HashMap::new(),
            arming: HashMap::new(),
            served: HashMap::new(),
            timers: HashMap::new(),
            has_waking,
            may_leave,
        };
        for thread in threads {
            let place = (thread.cpu, thread.place);
            let line = *stamper.places.entry(place).or_insert_with(|| {
                stamper.lines.push(LineWaits {
                    cpu: thread.cpu,
                    waits: VecDeque::new(),
                });
                stamper.lines.len() - 1
            });
            stamper.arming.insert(thread.tid, line);
            if thread.is_service {
                stamper.served.insert(thread.tid, line);
            }
        }
        stamper
    }

    /// Takes the next event. Events of a CPU are in order.
    pub(super) fn take(&mut self, event: KernelEvent) {
        let KernelEvent { at, cpu, kind } = event;
        match kind {
            EventKind::InterruptEntry => self.cpu(cpu).irq = at,
            EventKind::InterruptExit => self.cpu(cpu).irq = Nanos::ZERO,
            EventKind::SoftirqRaised => {
                let state = self.cpu(cpu);
                if state.raised.0 == Nanos::ZERO {
                    state.raised = (at, state.irq);
                }
            }
            EventKind::SoftirqEntry => {
                let state = self.cpu(cpu);
                state.served = std::mem::take(&mut state.raised);
            }
            EventKind::Armed {
                tid,
                timer,
                expiry,
                is_soft,
            } => self.arm(tid, timer, expiry, is_soft),
            EventKind::Expired { timer } => self.expire(at, cpu, timer),
            EventKind::Waking { tid } => {
                if let Some(wait) = self.wait_of(tid)
                    && wait.waking == Nanos::ZERO
                {
                    wait.waking = at;
                }
            }
            EventKind::SwitchIn { tid } => {
                let has_waking = self.has_waking;
                if let Some(wait) = self.wait_of(tid)
                    && wait.running == Nanos::ZERO
                {
                    // A thread can be preempted before its expiry, on its way to sleep.
                    let is_woken = if has_waking {
                        wait.waking != Nanos::ZERO
                    } else {
                        at >= wait.expiry
                    };
                    if is_woken {
                        wait.running = at;
                    }
                }
            }
            EventKind::Lost => self.lose(cpu),
        }
    }

    /// Writes the times of the wakeup in a slot of the line at `place` of `cpu`. Waits before it
    /// are forgotten, because they did not have a slot.
    pub(super) fn stamp(&mut self, cpu: u32, place: usize, slot: &BoardSlot) {
        use std::sync::atomic::Ordering::Relaxed;

        let Some(&line) = self.places.get(&(cpu, place)) else {
            return;
        };
        let expiry = slot.expiry();
        let waits = &mut self.lines[line].waits;
        while waits.front().is_some_and(|wait| wait.expiry < expiry) {
            waits.pop_front();
        }
        let Some(wait) = waits
            .pop_front_if(|wait| wait.expiry == expiry)
            .filter(|wait| !wait.is_incomplete)
        else {
            return;
        };
        slot.irq_ns.store(wait.irq.ns(), Relaxed);
        slot.expire_ns.store(wait.expire.ns(), Relaxed);
        slot.raise_ns.store(wait.raise.ns(), Relaxed);
        slot.softirq_ns.store(wait.softirq.ns(), Relaxed);
        slot.waking_ns.store(wait.waking.ns(), Relaxed);
        slot.running_ns.store(wait.running.ns(), Relaxed);
        slot.elsewhere.store(wait.is_elsewhere.into(), Relaxed);
    }

    fn cpu(&mut self, cpu: u32) -> &mut CpuState {
        self.cpus.entry(cpu).or_default()
    }

    /// Returns the wait in progress of a thread that is a service.
    fn wait_of(&mut self, tid: u32) -> Option<&mut Wait> {
        let line = *self.served.get(&tid)?;
        self.lines[line].waits.back_mut()
    }

    fn arm(&mut self, tid: u32, timer: u64, expiry: Nanos, is_soft: bool) {
        let Some(&line) = self.arming.get(&tid) else {
            return;
        };
        self.timers.insert(timer, line);
        let waits = &mut self.lines[line].waits;
        // A wait that a signal interrupted continues.
        if waits.back().is_none_or(|wait| wait.expiry != expiry) {
            waits.push_back(Wait {
                expiry,
                timer,
                is_soft,
                ..Wait::default()
            });
        }
    }

    fn expire(&mut self, time: Nanos, cpu: u32, timer: u64) {
        let Some(&line) = self.timers.get(&timer) else {
            return;
        };
        let state = *self.cpu(cpu);
        let line = &mut self.lines[line];
        let Some(wait) = line.waits.back_mut() else {
            return;
        };
        if wait.timer != timer || (wait.expire, wait.softirq) != (Nanos::ZERO, Nanos::ZERO) {
            return;
        }
        wait.is_elsewhere = cpu != line.cpu;
        if wait.is_soft {
            wait.softirq = time;
            (wait.raise, wait.irq) = state.served;
            // Arming the timer may have blocked and caused other wakeups.
            (wait.waking, wait.running) = (Nanos::ZERO, Nanos::ZERO);
        } else {
            wait.expire = time;
            wait.irq = state.irq;
        }
    }

    fn lose(&mut self, cpu: u32) {
        self.cpus.insert(cpu, CpuState::default());
        for line in &mut self.lines {
            if (line.cpu == cpu || self.may_leave)
                && let Some(wait) = line.waits.back_mut()
            {
                wait.is_incomplete = true;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    const TID: u32 = 7;
    const LENDER: u32 = 8;
    const TIMER: u64 = 0xffff_c900_0000_1234;

    fn stamper(has_waking: bool) -> Stamper {
        let thread = |tid, is_service| StampedThread {
            cpu: 1,
            place: 3,
            tid,
            is_service,
        };
        Stamper::new(
            &[thread(TID, true), thread(LENDER, false)],
            has_waking,
            false,
        )
    }

    fn us(us: u64) -> Nanos {
        Nanos::from_us(us)
    }

    fn armed(expiry_us: u64) -> EventKind {
        EventKind::Armed {
            tid: TID,
            timer: TIMER,
            expiry: us(expiry_us),
            is_soft: false,
        }
    }

    /// Takes events on CPU 1 at these microseconds.
    fn take(stamper: &mut Stamper, events: &[(u64, EventKind)]) {
        for &(at_us, kind) in events {
            let (time, cpu) = (us(at_us), 1);
            stamper.take(KernelEvent {
                at: time,
                cpu,
                kind,
            });
        }
    }

    /// Returns irq, expire, raise, softirq, waking, running of a wakeup due at `expiry_us`, in us.
    fn stamped(stamper: &mut Stamper, expiry_us: u64) -> [u64; 6] {
        let slot = BoardSlot::default();
        slot.begin(0, us(expiry_us), 0);
        stamper.stamp(1, 3, &slot);
        let us = |time: &AtomicU64| time.load(Ordering::Relaxed) / 1_000;
        [
            us(&slot.irq_ns),
            us(&slot.expire_ns),
            us(&slot.raise_ns),
            us(&slot.softirq_ns),
            us(&slot.waking_ns),
            us(&slot.running_ns),
        ]
    }

    #[test]
    fn events_of_a_wakeup_become_its_stages() {
        use EventKind::{Expired, InterruptEntry, SwitchIn, Waking};
        let mut stamper = stamper(true);

        take(
            &mut stamper,
            &[
                // Preempted on its way to sleep.
                (10, armed(100)),
                (11, SwitchIn { tid: TID }),
                (50, InterruptEntry),
                (51, Expired { timer: TIMER + 64 }),
                (101, InterruptEntry),
                (102, Expired { timer: TIMER }),
                (103, Waking { tid: TID }),
                (103, Waking { tid: 99 }),
                (104, SwitchIn { tid: 99 }),
                (105, SwitchIn { tid: TID }),
                // Preempted and switched in again.
                (108, SwitchIn { tid: TID }),
                (110, armed(200)),
            ],
        );

        assert_eq!(stamped(&mut stamper, 100), [101, 102, 0, 0, 103, 105]);
        assert_eq!(stamped(&mut stamper, 200), [0; 6]);
    }

    #[test]
    fn handler_that_has_ended_is_not_the_interrupt_of_a_timer() {
        use EventKind::{Expired, InterruptEntry, InterruptExit};
        let mut stamper = stamper(true);

        take(
            &mut stamper,
            &[
                (10, armed(100)),
                (20, InterruptEntry),
                (21, InterruptExit),
                (102, Expired { timer: TIMER }),
            ],
        );

        assert_eq!(stamped(&mut stamper, 100), [0, 102, 0, 0, 0, 0]);
    }

    #[test]
    fn timer_in_softirq_context_has_the_first_raise() {
        use EventKind::{Expired, InterruptEntry, SoftirqEntry, SoftirqRaised, SwitchIn, Waking};
        let mut stamper = stamper(true);
        let is_soft = EventKind::Armed {
            tid: LENDER,
            timer: TIMER,
            expiry: us(100),
            is_soft: true,
        };

        take(
            &mut stamper,
            &[
                (10, is_soft),
                (12, Waking { tid: TID }),
                (101, InterruptEntry),
                (102, SoftirqRaised),
                (103, InterruptEntry),
                (104, SoftirqRaised),
                (105, SoftirqEntry),
                (106, Expired { timer: TIMER }),
                (107, Waking { tid: TID }),
                (108, SwitchIn { tid: TID }),
            ],
        );

        assert_eq!(stamped(&mut stamper, 100), [101, 0, 102, 106, 107, 108]);
    }

    #[test]
    fn wakeup_during_lost_events_has_no_stages() {
        use EventKind::{Expired, Lost, SwitchIn, Waking};
        let mut stamper = stamper(true);

        take(
            &mut stamper,
            &[
                (10, armed(100)),
                (102, Expired { timer: TIMER }),
                (103, Waking { tid: TID }),
                (150, Lost),
                (160, SwitchIn { tid: TID }),
                (170, armed(200)),
                (202, Expired { timer: TIMER }),
            ],
        );

        assert_eq!(stamped(&mut stamper, 100), [0; 6]);
        assert_eq!(stamped(&mut stamper, 200)[1], 202);
    }

    #[test]
    fn wakeup_without_a_slot_is_forgotten() {
        let mut stamper = stamper(true);

        take(
            &mut stamper,
            &[
                (10, armed(100)),
                (102, EventKind::Expired { timer: TIMER }),
                (110, armed(200)),
                (202, EventKind::Expired { timer: TIMER }),
            ],
        );

        assert_eq!(stamped(&mut stamper, 200)[1], 202);
        assert_eq!(stamped(&mut stamper, 100), [0; 6]);
    }

    #[test]
    fn switch_counts_from_the_expiry_if_wakeups_are_not_recorded() {
        let mut stamper = stamper(false);
        let switch = EventKind::SwitchIn { tid: TID };

        take(
            &mut stamper,
            &[(10, armed(100)), (11, switch), (104, switch)],
        );

        assert_eq!(stamped(&mut stamper, 100)[5], 104);
    }
}
