//! Minima along a line.

/// Inverse of the golden ratio.
const GOLDEN: f64 = 0.618_033_988_749_894_9;

/// Number of steps that shrinks a bracket by 1e-14.
const STEPS: usize = 68;

/// Position and value of a minimum.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Minimum {
    pub(crate) at: f64,
    pub(crate) value: f64,
}

/// Finds the minimum between `low` and `high` by golden section. It is the global
/// minimum only if `f` falls and then rises.
pub(crate) fn minimum_between(f: impl Fn(f64) -> f64, mut low: f64, mut high: f64) -> Minimum {
    let (mut left, mut right) = (high - GOLDEN * (high - low), low + GOLDEN * (high - low));
    let (mut at_left, mut at_right) = (f(left), f(right));
    for _ in 0..STEPS {
        if at_left <= at_right {
            high = right;
            (right, at_right) = (left, at_left);
            left = high - GOLDEN * (high - low);
            at_left = f(left);
        } else {
            low = left;
            (left, at_left) = (right, at_right);
            right = low + GOLDEN * (high - low);
            at_right = f(right);
        }
    }
    if at_left <= at_right {
        Minimum {
            at: left,
            value: at_left,
        }
    } else {
        Minimum {
            at: right,
            value: at_right,
        }
    }
}

/// Finds the minimum near the best point of an ascending, non-empty `grid`, between the
/// neighbours of that point.
pub(crate) fn minimum_on_grid(f: impl Fn(f64) -> f64, grid: &[f64]) -> Minimum {
    let mut best = Minimum {
        at: grid[0],
        value: f64::INFINITY,
    };
    let mut index = 0;
    for (i, &point) in grid.iter().enumerate() {
        let value = f(point);
        if value < best.value {
            best = Minimum { at: point, value };
            index = i;
        }
    }
    let last = grid.len() - 1;
    let refined = minimum_between(
        f,
        grid[index.saturating_sub(1)],
        grid[(index + 1).min(last)],
    );
    if refined.value < best.value {
        refined
    } else {
        best
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grid_finds_the_deeper_of_two_valleys() {
        let grid: Vec<f64> = (-20..=20).map(|i| f64::from(i) / 4.0).collect();

        let minimum = minimum_on_grid(|x| (x * x - 4.0).powi(2) + x, &grid);

        let slope = 4.0 * minimum.at * (minimum.at * minimum.at - 4.0) + 1.0;
        assert!(minimum.at < 0.0 && slope.abs() < 1e-5, "at {}", minimum.at);
    }
}
