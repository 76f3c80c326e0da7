//! Minima in a few dimensions (Nelder & Mead 1965).

/// Termination of the search.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Simplex {
    /// Maximum distance of all corners from the best one at the end ...
    pub(crate) distance: f64,
    /// ... and maximum difference of their values.
    pub(crate) difference: f64,
    /// Maximum number of steps.
    pub(crate) steps: usize,
}

impl Default for Simplex {
    fn default() -> Self {
        Self {
            distance: 1e-8,
            difference: 1e-9,
            steps: 4000,
        }
    }
}

type Corner<const N: usize> = ([f64; N], f64);

/// Returns the lowest point found from `start`, and its value. `f` may be infinite
/// where it is not defined, but not at `start`.
pub(crate) fn lowest<const N: usize>(
    f: impl Fn(&[f64; N]) -> f64,
    start: [f64; N],
    simplex: Simplex,
) -> Corner<N> {
    let mut corners: Vec<Corner<N>> = vec![(start, f(&start))];
    for axis in 0..N {
        let mut corner = start;
        corner[axis] = if corner[axis] == 0.0 {
            0.000_25
        } else {
            corner[axis] * 1.05
        };
        corners.push((corner, f(&corner)));
    }
    for _ in 0..simplex.steps {
        corners.sort_by(|a, b| a.1.total_cmp(&b.1));
        if has_converged(&corners, simplex) {
            break;
        }
        step(&f, &mut corners);
    }
    corners.sort_by(|a, b| a.1.total_cmp(&b.1));
    corners[0]
}

fn has_converged<const N: usize>(corners: &[Corner<N>], simplex: Simplex) -> bool {
    let (best, lowest) = &corners[0];
    corners[1..].iter().all(|(corner, value)| {
        (value - lowest).abs() <= simplex.difference
            && corner
                .iter()
                .zip(best)
                .all(|(a, b)| (a - b).abs() <= simplex.distance)
    })
}

/// Reflects, expands, contracts or shrinks sorted corners once.
fn step<const N: usize>(f: &impl Fn(&[f64; N]) -> f64, corners: &mut [Corner<N>]) {
    let (worst, at_worst) = corners[N];
    let mut centre = [0.0; N];
    for (corner, _) in &corners[..N] {
        for (sum, x) in centre.iter_mut().zip(corner) {
            *sum += x / N as f64;
        }
    }
    let along = |factor: f64| {
        let mut point = centre;
        for (x, away) in point.iter_mut().zip(&worst) {
            *x += factor * (*x - away);
        }
        let value = f(&point);
        (point, value)
    };
    let reflected = along(1.0);
    if reflected.1 < corners[0].1 {
        let expanded = along(2.0);
        corners[N] = if expanded.1 < reflected.1 {
            expanded
        } else {
            reflected
        };
    } else if reflected.1 < corners[N - 1].1 {
        corners[N] = reflected;
    } else {
        let contracted = if reflected.1 < at_worst {
            along(0.5)
        } else {
            along(-0.5)
        };
        if contracted.1 < at_worst.min(reflected.1) {
            corners[N] = contracted;
        } else {
            let best = corners[0].0;
            for (corner, value) in &mut corners[1..] {
                for (x, to) in corner.iter_mut().zip(&best) {
                    *x = to + 0.5 * (*x - to);
                }
                *value = f(corner);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bottom_of_a_bent_valley_is_found() {
        let rosenbrock = |p: &[f64; 2]| (1.0 - p[0]).powi(2) + 100.0 * (p[1] - p[0] * p[0]).powi(2);

        let (point, value) = lowest(rosenbrock, [-1.2, 1.0], Simplex::default());

        assert!(value < 1e-12, "value {value}");
        assert!((point[0] - 1.0).abs() < 1e-5 && (point[1] - 1.0).abs() < 1e-5);
    }
}
