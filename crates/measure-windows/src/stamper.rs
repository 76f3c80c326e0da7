//! Adds stages from kernel events to activations: when the thread became ready, and when it was
//! switched in.
//!
//! Events arrive some tenths of a second after they happen, so activations are held back until
//! then. The maximum is two seconds; after that an activation is passed on without these stages.

use std::collections::VecDeque;
use std::fmt::Debug;
use std::sync::{Arc, MutexGuard};
use std::time::Duration;

use laggard_etl::KernelLog;
use laggard_model::{Activation, Batch, Line, Nanos, Stage, Tid};

use super::clock;

/// Time after an activation that is requested as evidence, and more.
const EVIDENCE_AFTER: Nanos = Nanos::from_ms(1);
/// Maximum wait for events.
const MAX_WAIT: Nanos = Nanos::from_secs(2);
/// The same at the end: after its window is closed, a program has 5 s in total.
const MAX_LAST_WAIT: Nanos = Nanos::from_secs(1);
/// Interval of the checks for the last events.
const CHECK_INTERVAL: Duration = Duration::from_millis(50);

pub(super) trait EventSource: Debug {
    /// Requests the delivery of everything written so far.
    fn flush(&self);

    /// Returns the events that have arrived.
    fn log(&self) -> MutexGuard<'_, KernelLog>;

    /// Returns whether no more events will arrive.
    fn has_ended(&self) -> bool;
}

#[derive(Debug)]
pub(super) struct Stamper {
    events: Arc<dyn EventSource>,
    /// Thread and CPU of each line.
    lines: Vec<(Option<Tid>, u16)>,
    stages: Vec<Stage>,
    held: VecDeque<HeldBatch>,
    /// Per line: activations without an event that shows when the thread became ready.
    unseen: Vec<u64>,
}

#[derive(Debug)]
struct HeldBatch {
    batch: Batch,
    /// Time when the last activation of the batch ran.
    latest: Nanos,
    since: Nanos,
    /// Time when all needed events had been delivered. Later events were delivered after
    /// that, on any CPU.
    flushed: Option<Nanos>,
}

impl Stamper {
    /// Creates a stamper for these lines with their threads, and for the `stages` that events
    /// provide.
    pub(super) fn new(
        events: Arc<dyn EventSource>,
        lines: impl Iterator<Item = (Line, Option<Tid>)>,
        stages: Vec<Stage>,
    ) -> Self {
        let lines: Vec<(Option<Tid>, u16)> = lines
            .map(|(line, thread)| (thread, u16::try_from(line.cpu.0).unwrap_or(u16::MAX)))
            .collect();
        events
            .log()
            .watch(lines.iter().filter_map(|(thread, _)| *thread));
        Self {
            events,
            unseen: vec![0; lines.len()],
            lines,
            stages,
            held: VecDeque::new(),
        }
    }

    /// Holds back the current batch.
    pub(super) fn hold(&mut self, batch: Batch) {
        let ends = batch
            .iter()
            .map(|activation| activation.expiry + activation.latency());
        if let Some(latest) = ends.max() {
            self.held.push_back(HeldBatch {
                batch,
                latest,
                since: clock::now(),
                flushed: None,
            });
        }
    }

    /// Discards the held batches.
    pub(super) fn forget(&mut self) {
        self.held.clear();
        self.unseen.fill(0);
    }

    /// Returns, per line, the number of activations without an event that shows when the thread
    /// became ready.
    pub(super) fn unseen(&self) -> impl Iterator<Item = u64> {
        self.unseen.iter().copied()
    }

    /// Appends the activations whose events have arrived, or all of them if no more events will
    /// arrive.
    pub(super) fn release(&mut self, is_last: bool, into: &mut Batch) {
        let requested_at = clock::now();
        self.events.flush();
        let now = clock::now();
        let unflushed = self.held.iter_mut().filter(|held| held.flushed.is_none());
        for held in unflushed.filter(|held| held.latest + EVIDENCE_AFTER <= requested_at) {
            held.flushed = Some(now);
        }
        let mut log = self.events.log();
        let newest = log.newest();
        let is_due = |held: &HeldBatch| {
            is_last
                || held.flushed.is_some_and(|flushed| flushed < newest)
                || held.since + MAX_WAIT <= now
        };
        while let Some(held) = self.held.pop_front_if(|held| is_due(held)) {
            for mut activation in held.batch.iter() {
                if let (false, Some(&(Some(thread), cpu))) = (
                    activation.missed,
                    self.lines.get(usize::from(activation.line.0)),
                ) {
                    let path = log.way(
                        thread,
                        activation.expiry,
                        activation.expiry + activation.latency(),
                    );
                    let is_unseen = path.ready.is_none() && self.stages.contains(&Stage::Waking);
                    self.unseen[usize::from(activation.line.0)] += u64::from(is_unseen);
                    stamp(&mut activation, path.ready, path.ran, cpu, &self.stages);
                }
                into.push(&activation);
            }
        }
    }

    /// Waits until all events up to now have arrived, up to a limit.
    pub(super) fn wait(&self) {
        let patience = clock::now() + MAX_LAST_WAIT;
        std::thread::sleep(EVIDENCE_AFTER.into());
        self.events.flush();
        let flushed = clock::now();
        while self.events.log().newest() <= flushed
            && clock::now() < patience
            && !self.events.has_ended()
        {
            std::thread::sleep(CHECK_INTERVAL);
            self.events.flush();
        }
    }
}

/// Adds the known ones of `stages` to an activation with only its last stage. `cpu` is the CPU of
/// its line.
fn stamp(
    one: &mut Activation,
    ready: Option<(Nanos, u16)>,
    ran: Option<Nanos>,
    cpu: u16,
    stages: &[Stage],
) {
    let elsewhere = ready.filter(|(_, by)| *by != cpu);
    let known_stages = [
        (Stage::IrqElsewhere, elsewhere),
        (Stage::Waking, ready),
        (Stage::Running, ran.map(|time| (time, cpu))),
    ];
    let mut before = one.expiry;
    let Some(last) = one.steps.iter().rposition(Option::is_some) else {
        return;
    };
    let end = one.expiry + one.latency();
    for (stage, time) in known_stages {
        // The interrupt on another CPU belongs to the wakeup.
        let wanted = if stage == Stage::IrqElsewhere {
            Stage::Waking
        } else {
            stage
        };
        if let (true, Some((time, _))) = (stages.contains(&wanted), time) {
            one.steps[stage.index()] = Some(time.saturating_sub(before));
            before = time;
        }
    }
    one.steps[last] = Some(end.saturating_sub(before));
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use laggard_etl::{EventName, LogPlan, PointerWidth, TraceEvent};
    use laggard_made::trace::MadeEvent;
    use laggard_model::{Cpu, LineId, Route, STAGES, Service};

    use super::*;

    /// Event source that the test controls.
    #[derive(Debug)]
    struct TestEvents(Mutex<KernelLog>);

    impl TestEvents {
        fn new() -> Arc<Self> {
            let plan = LogPlan {
                entries: 100,
                sampled: None,
                clock: Nanos::from_us,
            };
            Arc::new(Self(Mutex::new(KernelLog::new(plan))))
        }

        fn add(&self, made: &MadeEvent) {
            self.log().add(&TraceEvent {
                name: EventName::Kernel {
                    group: made.group,
                    opcode: made.opcode,
                },
                version: made.version,
                cpu: 3,
                ticks: made.ticks,
                thread: None,
                pointers: PointerWidth::Eight,
                payload: &made.payload,
            });
        }

        /// Adds an event of another thread now.
        fn go_on(&self) {
            let now = clock::now().ns() / 1_000 + 1;
            self.add(&MadeEvent::ready(now.cast_signed(), 7));
        }
    }

    impl EventSource for TestEvents {
        fn flush(&self) {}

        fn log(&self) -> MutexGuard<'_, KernelLog> {
            self.0.lock().unwrap()
        }

        fn has_ended(&self) -> bool {
            false
        }
    }

    fn stamper(events: &Arc<TestEvents>) -> Stamper {
        let line = Line::new(Cpu(3), Service::Realtime(24), Route::Direct);
        let stages = vec![Stage::Waking, Stage::Running];
        let events = Arc::clone(events) as Arc<dyn EventSource>;
        Stamper::new(events, [(line, Some(Tid(42)))].into_iter(), stages)
    }

    /// Returns an activation that was due `ms` ago with a latency of 90 us.
    fn came(ms: u64, seq: u64) -> Activation {
        Activation {
            seq,
            expiry: US((clock::now().ns() / 1_000).saturating_sub(ms * 1_000)),
            ..activation()
        }
    }

    fn batch(activation: &Activation) -> Batch {
        let mut batch = Batch::default();
        batch.push(activation);
        batch
    }

    fn released(stamper: &mut Stamper, is_last: bool) -> Vec<Activation> {
        let mut into = Batch::default();
        stamper.release(is_last, &mut into);
        into.iter().collect()
    }

    #[test]
    fn activation_waits_for_its_events_and_is_passed_on_once() {
        let events = TestEvents::new();
        let mut stamper = stamper(&events);
        let activation = came(20, 1);
        stamper.hold(batch(&activation));

        // No event came after the flush.
        assert_eq!(released(&mut stamper, false), []);
        let due = (activation.expiry.ns() / 1_000).cast_signed();
        events.add(&MadeEvent::ready(due + 10, 42));
        events.add(&MadeEvent::switch(due + 70, 0, 42, 24));
        assert_eq!(released(&mut stamper, false), []);
        events.go_on();
        let activations = released(&mut stamper, false);

        assert_eq!(activations.len(), 1);
        assert_eq!(activations[0].until(Stage::Waking), Some(US(10)));
        assert_eq!(activations[0].until(Stage::Running), Some(US(70)));
        assert_eq!(activations[0].latency(), activation.latency());
        assert_eq!(released(&mut stamper, true), []);
        assert_eq!(stamper.unseen().collect::<Vec<_>>(), [0]);
    }

    #[test]
    fn activation_without_events_is_passed_on_and_counted() {
        let events = TestEvents::new();
        let mut stamper = stamper(&events);
        let (first, second) = (came(20, 1), came(10, 2));
        stamper.hold(batch(&first));
        stamper.hold(batch(&second));
        stamper.held[0].since = clock::now().saturating_sub(MAX_WAIT);

        assert_eq!(released(&mut stamper, false), [first]);
        assert_eq!(released(&mut stamper, true), [second]);
        assert_eq!(stamper.unseen().collect::<Vec<_>>(), [2]);
        stamper.forget();
        assert_eq!(stamper.unseen().collect::<Vec<_>>(), [0]);
    }

    const US: fn(u64) -> Nanos = Nanos::from_us;

    fn activation() -> Activation {
        let mut steps = [None; STAGES.len()];
        steps[Stage::User.index()] = Some(US(90));
        Activation::new(LineId(0), 1, US(1_000), steps)
    }

    fn stamped(ready: Option<(u64, u16)>, ran: Option<u64>, stages: &[Stage]) -> Vec<(Stage, u64)> {
        let mut activation = activation();
        let ready = ready.map(|(time, cpu)| (US(time), cpu));
        stamp(&mut activation, ready, ran.map(US), 3, stages);
        assert_eq!(activation.latency(), US(90), "{activation:?}");
        let stages = STAGES.into_iter();
        stages
            .filter_map(|stage| Some((stage, activation.until(stage)?.ns() / 1_000)))
            .collect()
    }

    #[test]
    fn known_stages_add_up_to_the_latency() {
        let both = [Stage::Waking, Stage::Running];
        let user = (Stage::User, 90);

        assert_eq!(
            stamped(Some((1_010, 3)), Some(1_070), &both),
            [(Stage::Waking, 10), (Stage::Running, 70), user]
        );
        assert_eq!(
            stamped(Some((1_010, 2)), Some(1_070), &both),
            [
                (Stage::IrqElsewhere, 10),
                (Stage::Waking, 10),
                (Stage::Running, 70),
                user
            ]
        );
        assert_eq!(
            stamped(None, Some(1_070), &both),
            [(Stage::Running, 70), user]
        );
        assert_eq!(
            stamped(Some((1_010, 2)), Some(1_070), &[Stage::Running]),
            [(Stage::Running, 70), user]
        );
        assert_eq!(stamped(None, None, &both), [user]);
    }
}
