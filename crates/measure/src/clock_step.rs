//! Resolution of a clock.

use laggard_model::Nanos;

/// Time that is spent on reading a clock: more than two of the longest ticks of any system.
const READ_TIME: Nanos = Nanos::from_ms(40);

/// Returns the smallest step forward among the readings; `None` if the clock did not advance or
/// is not readable.
pub fn min_step(now: impl Fn() -> Nanos, read: impl Fn() -> Option<Nanos>) -> Option<Nanos> {
    let over = now() + READ_TIME;
    let mut before = read()?;
    let mut least = None;
    while now() < over {
        let next = read()?;
        let step = next.saturating_sub(before);
        if step > Nanos::ZERO {
            least = Some(least.map_or(step, |least: Nanos| least.min(step)));
        }
        before = next;
    }
    least
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    /// 1 us passes with each reading of the time.
    #[test]
    fn min_step_is_the_tick_and_none_for_a_stopped_clock() {
        let time = Cell::new(Nanos::ZERO);
        let now = || {
            time.set(time.get() + Nanos::from_us(1));
            time.get()
        };
        let tick = Nanos::from_ms(10);
        let coarse = || Some(tick * (time.get().ns() / tick.ns()));

        assert_eq!(min_step(now, coarse), Some(tick));
        assert_eq!(min_step(now, || Some(tick)), None);
        assert_eq!(min_step(now, || None), None);
    }
}
