//! Latency that the recorded pieces could make together: a second estimate, without a
//! tail model.
//!
//! After de Oliveira, Casini, de Oliveira & Cucinotta (ECRTS 2020): a service waits at
//! most once for code that cannot be preempted, and during that wait for all activity
//! above it, for the maximum of it in any window of that length. Their windows cover a whole trace.
//! The windows here cover the late wakeups, which contain the long pieces.

use std::collections::BTreeMap;

use laggard_model::{CauseClass, Culprit, Nanos};

use super::{Explanation, Part};
use crate::exceedance::Blackout;
use crate::sched::blackout_envelope;

/// Ratio of consecutive window lengths, which start at 1 us.
const STEP: f64 = 1.1;
const SHORTEST: f64 = 1e3;
const LONGEST: f64 = 10e9;
/// Growth of the sum, ns, below which it has settled.
const SETTLED: f64 = 1.0;

/// Cause that delays a service without being stopped by it.
type CauseKey = (CauseClass, Culprit);

/// Pieces of the latencies of one service.
#[derive(Clone, Debug, Default)]
pub struct Pieces {
    episodes: usize,
    /// Longest time in one activation without preemption.
    blocking: Nanos,
    /// Cause of the largest part of `blocking`.
    blocked_by: Option<CauseKey>,
    own: Nanos,
    unexplained: Nanos,
    /// Maximum time of each source in any window of [`windows`].
    above: BTreeMap<CauseKey, Vec<f64>>,
    /// Whether the service waited for its turn. No piece bounds that wait.
    took_turns: bool,
}

/// Latency that the pieces could make together.
#[derive(Clone, Debug, PartialEq)]
pub struct Composition {
    /// Sum of all pieces; `None` if the activity above the service leaves it no time.
    pub latency: Option<f64>,
    /// Wait for code that cannot be preempted, ns.
    pub blocking: Nanos,
    /// Cause of the largest part of `blocking`.
    pub blocked_by: Option<CauseKey>,
    /// Interrupt, wakeup, switch and return of the activation itself.
    pub own: Nanos,
    /// Longest unexplained time in one activation. It is excluded.
    pub unexplained: Nanos,
    /// Activity above the service, ns, longest first.
    pub above: Vec<(CauseKey, f64)>,
    /// Number of late wakeups.
    pub episodes: usize,
}

impl Pieces {
    /// Adds an explained activation of a service that does not share the CPU in turns,
    /// as normal threads do.
    pub fn add(&mut self, explanation: &Explanation) {
        self.episodes += 1;
        let mut blocking = Nanos::ZERO;
        let mut own = Nanos::ZERO;
        let mut unexplained = Nanos::ZERO;
        let mut most: Option<(Nanos, CauseKey)> = None;
        for cause in &explanation.causes {
            match kind(cause.class) {
                PieceKind::Blocking => {
                    blocking += cause.time_ns;
                    if most.as_ref().is_none_or(|most| cause.time_ns > most.0) {
                        most = Some((cause.time_ns, (cause.class, cause.culprit.clone())));
                    }
                }
                PieceKind::Own => own += cause.time_ns,
                PieceKind::Unknown => unexplained += cause.time_ns,
                PieceKind::Above => {}
                PieceKind::Turns => self.took_turns = true,
            }
        }
        if blocking > self.blocking {
            self.blocking = blocking;
            self.blocked_by = most.map(|(_, source)| source);
        }
        self.own = self.own.max(own);
        self.unexplained = self.unexplained.max(unexplained);
        let windows = windows();
        for (source, times) in above(&explanation.parts) {
            // Consecutive parts do not overlap.
            let Ok(envelope) = blackout_envelope(&times, &windows) else {
                continue;
            };
            let maxima = self
                .above
                .entry(source)
                .or_insert_with(|| vec![0.0; windows.len()]);
            for (max, value) in maxima.iter_mut().zip(envelope) {
                *max = max.max(value);
            }
        }
    }

    /// Combines the pieces. Returns `None` without pieces, or if the service waits for
    /// its turn, because that wait is unbounded.
    pub fn compose(&self) -> Option<Composition> {
        if self.episodes == 0 || self.took_turns {
            return None;
        }
        let windows = windows();
        let base = (self.blocking + self.own).as_f64();
        let within = |envelope: &[f64], window: f64| {
            let position = windows.partition_point(|length| *length < window);
            envelope.get(position).copied()
        };
        let mut latency = Some(base.max(SHORTEST));
        while let Some(now) = latency {
            let sums = self.above.values().map(|envelope| within(envelope, now));
            let next = sums.sum::<Option<f64>>().map(|sum| base + sum);
            if next.is_some_and(|next| next <= now + SETTLED) {
                latency = next;
                break;
            }
            latency = next;
        }
        let window = latency.unwrap_or(LONGEST);
        let mut above: Vec<(CauseKey, f64)> = self
            .above
            .iter()
            .filter_map(|(source, envelope)| Some((source.clone(), within(envelope, window)?)))
            .collect();
        above.sort_by(|a, b| b.1.total_cmp(&a.1));
        Some(Composition {
            latency,
            blocking: self.blocking,
            blocked_by: self.blocked_by.clone(),
            own: self.own,
            unexplained: self.unexplained,
            above,
            episodes: self.episodes,
        })
    }
}

/// Role of a part of a latency.
enum PieceKind {
    Blocking,
    Own,
    Above,
    Turns,
    Unknown,
}

const fn kind(class: CauseClass) -> PieceKind {
    match class {
        CauseClass::OwnPath
        | CauseClass::ContextSwitch
        | CauseClass::ReturnToUser
        | CauseClass::OwnWork
        | CauseClass::Overrun
        | CauseClass::SystemCall
        | CauseClass::PageFault
        | CauseClass::Lock
        | CauseClass::KernelLock
        | CauseClass::Reclaim
        | CauseClass::Blocked
        | CauseClass::Wait
        | CauseClass::Frozen
        | CauseClass::Stopped => PieceKind::Own,
        CauseClass::Unexplained => PieceKind::Unknown,
        CauseClass::Throttled
        | CauseClass::RtThrottled
        | CauseClass::FairServer
        | CauseClass::DeadlineThrottled => PieceKind::Turns,
        CauseClass::Interrupt
        | CauseClass::Softirq
        | CauseClass::Dpc
        | CauseClass::Stolen
        | CauseClass::Stall
        | CauseClass::HigherPriority
        | CauseClass::Equal
        | CauseClass::GroupWeight => PieceKind::Above,
        CauseClass::IdleExit
        | CauseClass::InterruptsOff
        | CauseClass::PreemptionOff
        | CauseClass::Migration => PieceKind::Blocking,
    }
}

/// Returns whether time of this class belongs to the service itself.
pub(super) const fn is_own(class: CauseClass) -> bool {
    matches!(kind(class), PieceKind::Own)
}

/// Returns the times when each source above the service ran.
fn above(parts: &[Part]) -> BTreeMap<CauseKey, Vec<Blackout>> {
    let mut blackouts: BTreeMap<CauseKey, Vec<Blackout>> = BTreeMap::new();
    for part in parts {
        if !matches!(kind(part.class), PieceKind::Above) {
            continue;
        }
        let culprit = Culprit {
            thread: part.culprit.thread.clone(),
            activity: part.culprit.activity,
            ..Culprit::default()
        };
        blackouts
            .entry((part.class, culprit))
            .or_default()
            .push(Blackout::new(
                part.slice.from.as_f64(),
                part.slice.to.as_f64(),
            ));
    }
    blackouts
}

fn windows() -> Vec<f64> {
    let mut windows = vec![SHORTEST];
    while let Some(&last) = windows.last()
        && last < LONGEST
    {
        windows.push(last * STEP);
    }
    windows
}

#[cfg(test)]
mod tests {
    use laggard_model::{Activity, Cause};

    use super::super::{Context, Slice};
    use super::*;

    fn culprit(irq: u32) -> Culprit {
        Culprit {
            activity: Some(Activity::Irq(irq)),
            ..Culprit::default()
        }
    }

    /// Returns an explanation with consecutive parts: class, interrupt, us.
    fn explained(parts: &[(CauseClass, u32, u64)]) -> Explanation {
        let mut time = Nanos::from_secs(9);
        let parts: Vec<Part> = parts
            .iter()
            .map(|&(class, irq, us)| {
                let from = time;
                time += Nanos::from_us(us);
                Part {
                    slice: Slice {
                        from,
                        to: time,
                        context: Context::default(),
                    },
                    class,
                    culprit: culprit(irq),
                }
            })
            .collect();
        let causes = parts
            .iter()
            .map(|part| Cause {
                class: part.class,
                culprit: part.culprit.clone(),
                time_ns: part.time(),
            })
            .collect();
        Explanation {
            parts,
            causes,
            passed: Vec::new(),
        }
    }

    #[test]
    fn composition_joins_pieces_that_never_met() {
        let mut pieces = Pieces::default();
        pieces.add(&explained(&[
            (CauseClass::PreemptionOff, 0, 4_000),
            (CauseClass::OwnPath, 0, 20),
        ]));
        pieces.add(&explained(&[
            (CauseClass::Interrupt, 7, 1_000),
            (CauseClass::OwnPath, 0, 10),
        ]));

        let composition = pieces.compose().unwrap();

        assert_eq!(composition.latency, Some(5_020_000.0));
        assert_eq!(composition.blocking, Nanos::from_us(4_000));
        assert_eq!(composition.above[0].0, (CauseClass::Interrupt, culprit(7)));
        assert_eq!(composition.episodes, 2);
    }

    #[test]
    fn composition_bounds_every_explained_activation() {
        let late = explained(&[
            (CauseClass::PreemptionOff, 0, 300),
            (CauseClass::Interrupt, 1, 40),
            (CauseClass::Interrupt, 2, 70),
            (CauseClass::Interrupt, 1, 60),
            (CauseClass::IdleExit, 0, 5),
            (CauseClass::ContextSwitch, 0, 9),
        ]);
        let mut pieces = Pieces::default();
        pieces.add(&late);

        let latency = pieces.compose().unwrap().latency.unwrap();

        assert!((484e3..=490e3).contains(&latency), "{latency}");
    }

    #[test]
    fn unexplained_time_is_left_out_and_reported() {
        let mut pieces = Pieces::default();
        pieces.add(&explained(&[
            (CauseClass::Unexplained, 0, 900),
            (CauseClass::OwnPath, 0, 20),
        ]));

        let composition = pieces.compose().unwrap();

        assert_eq!(composition.latency, Some(20e3));
        assert_eq!(composition.unexplained, Nanos::from_us(900));
    }

    #[test]
    fn composition_is_none_after_a_wait_for_a_turn() {
        let mut pieces = Pieces::default();
        pieces.add(&explained(&[(CauseClass::Throttled, 0, 300)]));

        assert_eq!(pieces.compose(), None);
    }
}
