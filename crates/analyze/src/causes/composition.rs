//! The latency that the pieces which were seen could make together: a second
//! estimate, which no tail model enters.
//!
//! After de Oliveira, Casini, de Oliveira & Cucinotta (ECRTS 2020): a service
//! waits at most once for code that cannot be preempted, and meanwhile for
//! everything above it, as much of it as ever came in a window of that length.
//! Their windows are all of a trace; ours are those of the late activations,
//! which is where the long pieces are.

use std::collections::BTreeMap;

use laggard_model::{CauseClass, Culprit, Nanos};

use super::{Explanation, Part};
use crate::exceedance::Blackout;
use crate::sched::blackout_envelope;

/// Windows: from 1 us on, each this many times the one before.
const STEP: f64 = 1.1;
const SHORTEST: f64 = 1e3;
const LONGEST: f64 = 10e9;
/// The sum has settled when it grows by less than this, ns.
const SETTLED: f64 = 1.0;

/// Who keeps a service waiting without being stopped by it.
type CauseKey = (CauseClass, Culprit);

/// The pieces of which the latencies of one service were made.
#[derive(Clone, Debug, Default)]
pub struct Pieces {
    episodes: usize,
    /// Most time in one activation for which nothing could be preempted.
    blocking: Nanos,
    /// The largest part of that.
    blocked_by: Option<CauseKey>,
    own: Nanos,
    unexplained: Nanos,
    /// By source: the most time in any window of [`windows`].
    above: BTreeMap<CauseKey, Vec<f64>>,
    /// Whether the service waited for its turn, which no piece bounds.
    took_turns: bool,
}

/// The latency that pieces could make together.
#[derive(Clone, Debug, PartialEq)]
pub struct Composition {
    /// All together; `None`: what is above the service leaves it no time.
    pub latency: Option<f64>,
    /// Waiting for code that cannot be preempted, ns.
    pub blocking: Nanos,
    /// The largest part of that.
    pub blocked_by: Option<CauseKey>,
    /// The activation's own interrupt, wakeup, switch and return.
    pub own: Nanos,
    /// Most time in one activation that nothing explains; left out.
    pub unexplained: Nanos,
    /// What is above the service, the longest first, ns.
    pub above: Vec<(CauseKey, f64)>,
    /// From so many late activations.
    pub episodes: usize,
}

impl Pieces {
    /// Takes in an explained activation of a service that does not run by turns
    /// with its equals, as normal threads do.
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
            // Parts follow each other, so they do not overlap.
            let Ok(found) = blackout_envelope(&times, &windows) else {
                continue;
            };
            let known = self
                .above
                .entry(source)
                .or_insert_with(|| vec![0.0; windows.len()]);
            for (known, found) in known.iter_mut().zip(found) {
                *known = known.max(found);
            }
        }
    }

    /// Puts the pieces together. `None`: there are none, or the service waits
    /// for its turn, and that nobody bounds.
    pub fn compose(&self) -> Option<Composition> {
        if self.episodes == 0 || self.took_turns {
            return None;
        }
        let windows = windows();
        let base = (self.blocking + self.own).as_f64();
        let within = |known: &[f64], window: f64| {
            let at = windows.partition_point(|one| *one < window);
            known.get(at).copied()
        };
        let mut latency = Some(base.max(SHORTEST));
        while let Some(now) = latency {
            let sums = self.above.values().map(|known| within(known, now));
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
            .filter_map(|(source, known)| Some((source.clone(), within(known, window)?)))
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

/// How a part of a latency counts.
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

/// When each source above the service ran.
fn above(parts: &[Part]) -> BTreeMap<CauseKey, Vec<Blackout>> {
    let mut all: BTreeMap<CauseKey, Vec<Blackout>> = BTreeMap::new();
    for part in parts {
        if !matches!(kind(part.class), PieceKind::Above) {
            continue;
        }
        let culprit = Culprit {
            thread: part.culprit.thread.clone(),
            activity: part.culprit.activity,
            ..Culprit::default()
        };
        all.entry((part.class, culprit))
            .or_default()
            .push(Blackout {
                start: part.slice.from.as_f64(),
                end: part.slice.to.as_f64(),
            });
    }
    all
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

    /// An explanation of parts one after the other: class, interrupt, us.
    fn explained(parts: &[(CauseClass, u32, u64)]) -> Explanation {
        let mut at = Nanos::from_secs(9);
        let parts: Vec<Part> = parts
            .iter()
            .map(|&(class, irq, us)| {
                let from = at;
                at += Nanos::from_us(us);
                Part {
                    slice: Slice {
                        from,
                        to: at,
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
    fn pieces_that_never_met_are_put_together() {
        let mut pieces = Pieces::default();
        pieces.add(&explained(&[
            (CauseClass::PreemptionOff, 0, 4_000),
            (CauseClass::OwnPath, 0, 20),
        ]));
        pieces.add(&explained(&[
            (CauseClass::Interrupt, 7, 1_000),
            (CauseClass::OwnPath, 0, 10),
        ]));

        let found = pieces.compose().unwrap();

        assert_eq!(found.latency, Some(5_020_000.0));
        assert_eq!(found.blocking, Nanos::from_us(4_000));
        assert_eq!(found.above[0].0, (CauseClass::Interrupt, culprit(7)));
        assert_eq!(found.episodes, 2);
    }

    #[test]
    fn no_explained_activation_is_later_than_its_composition() {
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
    fn what_nothing_explains_is_left_out_and_told() {
        let mut pieces = Pieces::default();
        pieces.add(&explained(&[
            (CauseClass::Unexplained, 0, 900),
            (CauseClass::OwnPath, 0, 20),
        ]));

        let found = pieces.compose().unwrap();

        assert_eq!(found.latency, Some(20e3));
        assert_eq!(found.unexplained, Nanos::from_us(900));
    }

    #[test]
    fn waiting_for_a_turn_has_no_composition() {
        let mut pieces = Pieces::default();
        pieces.add(&explained(&[(CauseClass::Throttled, 0, 300)]));

        assert_eq!(pieces.compose(), None);
    }
}
