//! A rhythm, and what visits must be to have one.

use laggard_model::Nanos;

use super::spell::Spell;

/// Episodes nearer to each other than this are one visit of the cause, which
/// made several lines late.
pub(super) const ONE_VISIT: Nanos = Nanos::from_ms(25);
/// Fewer visits cannot tell a rhythm from chance.
pub(super) const FEWEST_VISITS: usize = 3;
/// How far a visit may be from when it is due, ns: what timers of the kernel
/// miss by, and a few ticks.
pub(super) const TOLERANCES: [f64; 2] = [5e6, 20e6];
/// And at most this share of its period or step.
pub(super) const NEAR: f64 = 0.125;
/// How likely chance alone is to give any of all causes a rhythm.
pub(super) const ALPHA: f64 = 0.01;

/// A cause that comes again and again.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rhythm {
    /// From one time to the next.
    pub period: Nanos,
    /// Standard error of that.
    pub period_error: Option<Nanos>,
    /// How often it came when it was due.
    pub hits: usize,
    /// How often it was due, in the time that was looked at.
    pub due: usize,
    /// How likely chance alone is to give as clear a rhythm to any of the
    /// causes that were searched.
    pub p: f64,
    /// Whether it began or ended while it was watched.
    pub spell: Spell,
}
