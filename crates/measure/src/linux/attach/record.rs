//! Converts the records of `bpf/attach.h` to events.

use laggard_model::{
    ActivationEnd, Address, Cpu, CycleWaits, KernelLock, Nanos, ThreadActivation, ThreadExit,
    ThreadHappening, ThreadMove, ThreadMoves, ThreadName, ThreadPolicy, ThreadTold, ThreadUsage,
    Tid, UnfinishedActivation, WaitSite, WatchedThread, WokenBy,
};

use shared::{
    ATTACH_ACTIVATION, ATTACH_BACK_UNSEEN, ATTACH_BEGAN, ATTACH_END_BLOCKED, ATTACH_END_FREEZE,
    ATTACH_END_PERIOD, ATTACH_END_STOP, ATTACH_END_TRACE, ATTACH_ENDED, ATTACH_HRTIMER,
    ATTACH_IN_RECLAIM, ATTACH_IRQ, ATTACH_LAST, ATTACH_LOCK_MMAP, ATTACH_NO_CALL, ATTACH_PREEMPTED,
    ATTACH_RUN_UNSEEN, ATTACH_RUNS, ATTACH_SOFTIRQ, ATTACH_START_UNSEEN, ATTACH_THREAD,
    ATTACH_TIMER, ATTACH_VECTOR, ATTACH_WAKE_UNSEEN, ATTACH_WAS_FROZEN, ATTACH_WOKEN, AttachRecord,
};

use super::calls::{self, system_call};
use crate::linux::interrupts::CpuInterrupts;

#[allow(
    dead_code,
    unreachable_pub,
    reason = "generated; the programs use some fields alone"
)]
pub(super) mod shared {
    use crate::board::Shared;

    include!(concat!(env!("OUT_DIR"), "/attach.rs"));
}

/// Softirq of received packets: include/linux/interrupt.h.
const NET_RX: u32 = 3;
/// Value of the record's priority field at nice 0.
const NICE_ZERO: i16 = 20;

impl AttachRecord {
    /// Converts the record. Returns `None` if its times are out of order or its kind is unknown.
    pub(super) fn told(&self) -> Option<ThreadTold> {
        let what = match u32::from(self.kind) {
            ATTACH_BEGAN => ThreadHappening::Began((self.who != 0).then_some(self.who)),
            ATTACH_ACTIVATION => ThreadHappening::Done(self.activation()?),
            ATTACH_ENDED => ThreadHappening::Ended(self.unfinished(), self.exit()),
            ATTACH_LAST => ThreadHappening::Left(self.unfinished()),
            _ => return None,
        };
        Some(ThreadTold {
            thread: WatchedThread {
                number: self.thread,
                tid: Tid(self.tid),
                process: self.tgid,
                name: name(self.name),
                policy: self.policy(),
                merged: self.merged,
                unseen: self.unseen,
                stopped: self.stopped,
            },
            sequence: self.seq,
            at: Nanos::from_ns(self.done_ns),
            what,
        })
    }

    fn activation(&self) -> Option<ThreadActivation> {
        let instants = [
            self.origin_ns,
            self.due_ns,
            self.waking_ns,
            self.running_ns,
            self.done_ns,
        ];
        let [origin, due, waking, running, done] = instants.map(Nanos::from_ns);
        let (preempted, blocked) = (self.preempted_ns, self.blocked_ns);
        let unseen = u32::from(self.unseen_of);
        let is_there = self.done_ns.checked_sub(self.running_ns)?;
        let fits = preempted.checked_add(blocked)? <= is_there;
        (instants.is_sorted() && fits).then(|| ThreadActivation {
            woken: self.woken(),
            wake_seen: unseen & ATTACH_WAKE_UNSEEN == 0,
            run_seen: unseen & ATTACH_RUN_UNSEEN == 0,
            back_seen: unseen & ATTACH_BACK_UNSEEN == 0,
            origin,
            due,
            waking,
            waker_cpu: Cpu(self.waker_cpu),
            moves: self.moves(),
            running,
            first_cpu: Cpu(self.first_cpu),
            done,
            preempted: Nanos::from_ns(preempted),
            blocked: Nanos::from_ns(blocked),
            preemptions: self.preemptions,
            migrations: self.migrations,
            blocks: self.blocks,
            cpu: Cpu(self.cpu),
            start_seen: unseen & ATTACH_START_UNSEEN == 0,
            was_frozen: unseen & ATTACH_WAS_FROZEN != 0,
            end: self.end(),
            site: self.site(),
            lock: (self.lock != 0).then_some(KernelLock {
                address: Address(self.lock),
                is_mmap: self.lock_flags & ATTACH_LOCK_MMAP != 0,
            }),
            usage: ThreadUsage {
                system: Nanos::from_ns(self.system_ns),
                minor_faults: self.minor_faults,
                major_faults: self.major_faults,
                throttled: Nanos::from_ns(self.throttled_ns.min(preempted)),
                reclaim: Nanos::from_ns(self.reclaim_ns),
                waits_for_memory: unseen & ATTACH_IN_RECLAIM != 0,
                spun_for: (self.spins > 0).then(|| (Tid(self.spun_who), name(self.spun_name))),
            },
            timer: self.timer(),
            waits: CycleWaits::default(),
        })
    }

    fn end(&self) -> ActivationEnd {
        match u32::from(self.end) {
            ATTACH_END_PERIOD => ActivationEnd::Period,
            ATTACH_END_BLOCKED => ActivationEnd::Blocked,
            ATTACH_END_STOP => ActivationEnd::Stopped,
            ATTACH_END_TRACE => ActivationEnd::Traced,
            ATTACH_END_FREEZE => ActivationEnd::Frozen,
            _ => ActivationEnd::Slept,
        }
    }

    fn site(&self) -> WaitSite {
        if self.site_call == ATTACH_NO_CALL {
            return WaitSite::default();
        }
        WaitSite {
            call: Some(system_call(self.site_call)),
            object: self.site_object,
            argument: self.site_argument,
            value: self.site_value,
        }
    }

    fn moves(&self) -> ThreadMoves {
        let known = std::array::from_fn(|place| ThreadMove {
            at: Nanos::from_ns(self.moved_ns[place]),
            left: Cpu(u32::try_from(self.left_cpus[place]).unwrap_or(u32::MAX)),
        });
        ThreadMoves::new(known, self.moves, self.preempted_moves)
    }

    /// Returns the number of the timer that woke the thread, unless it slept.
    fn timer(&self) -> Option<u32> {
        let is_timer = u32::from(self.route) == ATTACH_HRTIMER;
        (is_timer && self.who != 0).then_some(self.who)
    }

    fn exit(&self) -> ThreadExit {
        let limit = self.rt_limit_us.checked_mul(1_000);
        ThreadExit {
            signal: self.exit_code,
            // `RLIM_INFINITY` does not fit.
            rt_limit: limit.map(Nanos::from_ns),
            activation: self.activation().filter(|_| self.runs()),
        }
    }

    fn unfinished(&self) -> Option<UnfinishedActivation> {
        let runs = self.runs();
        (runs || u32::from(self.phase) == ATTACH_WOKEN).then(|| UnfinishedActivation {
            woken: self.woken(),
            origin: Nanos::from_ns(self.origin_ns),
            running: runs.then(|| Nanos::from_ns(self.running_ns)),
            cpu: Cpu(self.cpu),
            start_seen: u32::from(self.unseen_of) & ATTACH_START_UNSEEN == 0,
        })
    }

    /// Returns true if an incomplete activation has run.
    fn runs(&self) -> bool {
        [ATTACH_RUNS, ATTACH_PREEMPTED].contains(&u32::from(self.phase))
    }

    fn woken(&self) -> WokenBy {
        let function = Address(self.function);
        match u32::from(self.route) {
            // The idle thread wakes no thread: an interrupt without a tracepoint did.
            ATTACH_THREAD if self.who == 0 => WokenBy::Interrupt,
            ATTACH_THREAD => WokenBy::Thread(Tid(self.who), name(self.waker_name)),
            ATTACH_HRTIMER => WokenBy::Timer(function),
            ATTACH_TIMER => WokenBy::Wheel(function),
            ATTACH_IRQ => match CpuInterrupts::of_machine().vector(self.who) {
                Some(_) => WokenBy::Vector,
                None => WokenBy::Irq(self.who),
            },
            ATTACH_VECTOR => WokenBy::Vector,
            ATTACH_SOFTIRQ => self.softirq(),
            _ => WokenBy::Interrupt,
        }
    }

    /// Returns the softirq, with the thread that caused it by a system call for the network.
    fn softirq(&self) -> WokenBy {
        let number = u32::try_from(self.function).unwrap_or(ATTACH_NO_CALL);
        if self.who == NET_RX && calls::is_for_network(number) {
            WokenBy::Sender(self.who, name(self.waker_name))
        } else {
            WokenBy::Softirq(self.who)
        }
    }

    /// Constants of include/uapi/linux/sched.h.
    fn policy(&self) -> ThreadPolicy {
        let nice = i16::from(self.nice) - NICE_ZERO;
        let nice = i8::try_from(nice).unwrap_or(i8::MAX);
        match self.policy {
            0 => ThreadPolicy::Other(nice),
            1 => ThreadPolicy::Fifo(self.priority),
            2 => ThreadPolicy::RoundRobin(self.priority),
            3 => ThreadPolicy::Batch(nice),
            5 => ThreadPolicy::Idle,
            6 => ThreadPolicy::Deadline,
            other => ThreadPolicy::Unknown(other),
        }
    }
}

fn name(words: [u64; 2]) -> ThreadName {
    let mut bytes = [0; 16];
    for (part, word) in bytes.chunks_exact_mut(8).zip(words) {
        part.copy_from_slice(&word.to_ne_bytes());
    }
    ThreadName(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record() -> AttachRecord {
        AttachRecord {
            kind: u8::try_from(ATTACH_ACTIVATION).unwrap(),
            route: u8::try_from(ATTACH_HRTIMER).unwrap(),
            origin_ns: 1_000,
            due_ns: 1_200,
            waking_ns: 1_500,
            running_ns: 2_000,
            done_ns: 9_000,
            preempted_ns: 3_000,
            blocked_ns: 1_000,
            policy: 1,
            priority: 80,
            ..AttachRecord::default()
        }
    }

    #[test]
    fn parts_of_an_activation_add_up() {
        let event = record().told().unwrap();

        let ThreadHappening::Done(activation) = event.what else {
            panic!("{event:?}");
        };
        assert_eq!(activation.latency().ns(), 1_000);
        assert_eq!(activation.response().ns(), 8_000);
        assert_eq!(activation.execution().ns(), 3_000);
        assert_eq!(event.thread.policy, ThreadPolicy::Fifo(80));
        assert_eq!((activation.timer, activation.usage.spun_for), (None, None));
    }

    #[test]
    fn timer_and_holder_of_a_spun_lock_are_reported() {
        let record = AttachRecord {
            who: 64,
            spins: 2,
            spun_who: 7,
            spun_name: [u64::from_ne_bytes(*b"mapper\0\0"), 0],
            ..record()
        };

        let ThreadHappening::Done(one) = record.told().unwrap().what else {
            panic!("{record:?}");
        };

        assert_eq!(one.timer, Some(64));
        let (tid, name) = one.usage.spun_for.unwrap();
        assert_eq!((tid, name.to_string().as_str()), (Tid(7), "mapper"));
        let by_interrupt = AttachRecord {
            route: u8::try_from(ATTACH_IRQ).unwrap(),
            ..record
        };
        assert_eq!(by_interrupt.timer(), None);
    }

    #[test]
    fn idle_thread_wakes_no_thread() {
        let woken = |who| {
            let record = AttachRecord {
                route: u8::try_from(ATTACH_THREAD).unwrap(),
                who,
                ..record()
            };
            record.woken()
        };

        assert_eq!(woken(0), WokenBy::Interrupt);
        assert!(matches!(woken(7), WokenBy::Thread(Tid(7), _)));
    }

    #[test]
    fn softirq_of_a_packet_to_this_machine_names_its_sender() {
        let woken = |vector: u32, call: i64| {
            let record = AttachRecord {
                route: u8::try_from(ATTACH_SOFTIRQ).unwrap(),
                who: vector,
                function: call.cast_unsigned(),
                waker_name: [u64::from_ne_bytes(*b"server\0\0"), 0],
                ..record()
            };
            record.woken()
        };

        let by_server = woken(NET_RX, libc::SYS_sendto);
        assert_eq!(
            by_server,
            WokenBy::Sender(NET_RX, name([u64::from_ne_bytes(*b"server\0\0"), 0]))
        );
        assert_eq!(by_server.way(), WokenBy::Softirq(NET_RX).way());
        assert_eq!(
            woken(NET_RX, ATTACH_NO_CALL.into()),
            WokenBy::Softirq(NET_RX)
        );
        assert_eq!(woken(NET_RX, libc::SYS_getpid), WokenBy::Softirq(NET_RX));
        assert_eq!(
            woken(NET_RX - 1, libc::SYS_sendto),
            WokenBy::Softirq(NET_RX - 1)
        );
    }

    #[test]
    fn records_with_unordered_times_are_dropped() {
        for broken in [
            AttachRecord {
                waking_ns: 500,
                ..record()
            },
            AttachRecord {
                due_ns: 900,
                ..record()
            },
            AttachRecord {
                running_ns: 1_400,
                ..record()
            },
            AttachRecord {
                done_ns: 1_900,
                ..record()
            },
            AttachRecord {
                preempted_ns: 6_001,
                ..record()
            },
            AttachRecord {
                blocked_ns: u64::MAX,
                ..record()
            },
            AttachRecord {
                kind: 9,
                ..record()
            },
        ] {
            assert_eq!(broken.told(), None, "{broken:?}");
        }
    }
}
