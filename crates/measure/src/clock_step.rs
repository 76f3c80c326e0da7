//! How a clock goes on.

use laggard_model::Nanos;

/// A clock is read for so long: more than two of the longest ticks that systems have.
const READ: Nanos = Nanos::from_ms(40);

/// The smallest step forward among readings; absent where it did not go on, or cannot
/// be read.
pub fn least_step(now: impl Fn() -> Nanos, read: impl Fn() -> Option<Nanos>) -> Option<Nanos> {
    let over = now() + READ;
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

    /// 1 us passes with each look at the time.
    #[test]
    fn a_clock_of_ticks_steps_by_them_and_one_that_stands_does_not() {
        let time = Cell::new(Nanos::ZERO);
        let now = || {
            time.set(time.get() + Nanos::from_us(1));
            time.get()
        };
        let tick = Nanos::from_ms(10);
        let coarse = || Some(tick * (time.get().ns() / tick.ns()));

        assert_eq!(least_step(now, coarse), Some(tick));
        assert_eq!(least_step(now, || Some(tick)), None);
        assert_eq!(least_step(now, || None), None);
    }
}
