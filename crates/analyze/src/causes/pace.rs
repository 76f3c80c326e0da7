//! Rhythm of a cause, and the requirements on its visits.

use laggard_model::Nanos;

use super::spell::Spell;

/// Maximum distance of episodes that count as one visit of a cause, which made several
/// series late.
pub(super) const MAX_VISIT_GAP: Nanos = Nanos::from_ms(25);
/// Minimum number of visits; fewer cannot distinguish a rhythm from chance.
pub(super) const MIN_VISITS: usize = 3;
/// Maximum distance of a visit from its due time, ns: the error of kernel timers, and a
/// few ticks.
pub(super) const TOLERANCES: [f64; 2] = [5e6, 20e6];
/// Maximum of the same distance as a fraction of the period or step.
pub(super) const MAX_DISTANCE_FRACTION: f64 = 0.125;
/// Probability that chance alone gives any cause a rhythm.
pub(super) const ALPHA: f64 = 0.01;

/// Cause that recurs at a steady period.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rhythm {
    /// Period.
    pub period: Nanos,
    /// Standard error of the period.
    pub period_error: Option<Nanos>,
    /// Number of due times when the cause occurred.
    pub hits: usize,
    /// Number of due times in the observed time.
    pub due: usize,
    /// Probability that chance alone gives any of the searched causes an equally clear
    /// rhythm.
    pub p: f64,
    /// Start and end of the rhythm, if they were observed.
    pub spell: Spell,
}
