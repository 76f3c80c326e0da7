//! Fit to binned excesses by interval likelihood.

use super::{Fitted, Pareto};
use crate::InputError;
use crate::forecast::SHAPE_FLOOR;
use crate::input::{ascending, not_negative, positive};
use crate::solve::{Simplex, lowest};

/// The most likely distribution of excesses of which only the bin is known:
/// `counts[i]` of them between `edges[i]` and `edges[i + 1]`. The first edge is
/// zero (the threshold); the last may be infinite.
///
/// Buckets of 2^(1/8) and finer cost next to nothing in precision; taking the
/// middles of bins instead would bias the shape (docs/method.md 8.4).
///
/// # Errors
/// When edges do not ascend from zero, there is not one more edge than counts,
/// a count is negative, or all are zero.
pub fn fit_bins(edges: &[f64], counts: &[f64]) -> Result<Fitted, InputError> {
    if edges.len() != counts.len() + 1 {
        return Err(InputError::Unpaired {
            name: "edges",
            len: edges.len(),
            other: "counts (and one more)",
            needed: counts.len() + 1,
        });
    }
    ascending("edges", edges)?;
    not_negative("first edge", -edges[0].abs())?;
    for &count in counts {
        not_negative("count", count)?;
    }
    let total = positive("number of excesses", counts.iter().sum())?;
    let middle = |i: usize| {
        let upper = edges[i + 1];
        let upper = if upper.is_finite() {
            upper
        } else {
            2.0 * edges[i] + 1.0
        };
        f64::midpoint(edges[i], upper)
    };
    let sum: f64 = (0..counts.len()).map(|i| middle(i) * counts[i]).sum();
    let scale = positive("mean excess", sum / total)?;
    let loss = |p: &[f64; 2]| loss(edges, counts, *p);
    let starts = [0.05, 0.3, -0.2];
    let fits = starts.map(|shape| lowest(loss, [scale.ln(), shape], Simplex::default()));
    let (at, loss) = fits
        .into_iter()
        .fold(([0.0; 2], f64::INFINITY), |best, fit| {
            if fit.1 < best.1 { fit } else { best }
        });
    positive("likelihood of the fit", (-loss / total).exp())?;
    let pareto = Pareto {
        scale: at[0].exp(),
        shape: at[1],
    };
    Ok(Fitted { pareto, loss })
}

fn loss(edges: &[f64], counts: &[f64], [log_scale, shape]: [f64; 2]) -> f64 {
    if shape < SHAPE_FLOOR {
        return f64::INFINITY;
    }
    let pareto = Pareto {
        scale: log_scale.exp(),
        shape,
    };
    let beyond = |edge: f64| {
        if edge.is_finite() {
            pareto.survival(edge)
        } else {
            0.0
        }
    };
    let mut loss = 0.0;
    for (edge, &count) in edges.windows(2).zip(counts) {
        if count > 0.0 {
            let share = beyond(edge[0]) - beyond(edge[1]);
            if share <= 0.0 {
                return f64::INFINITY;
            }
            loss -= count * share.ln();
        }
    }
    loss
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;

    #[test]
    fn fine_bins_give_nearly_the_fit_of_the_values_themselves() {
        let mut random = rand_pcg::Pcg64Mcg::seed_from_u64(5);
        let truth = Pareto {
            scale: 1.0,
            shape: 0.2,
        };
        let x: Vec<f64> = (0..400).map(|_| truth.sample(&mut random)).collect();
        let edges: Vec<f64> = std::iter::once(0.0)
            .chain((0..160).map(|i| 1e-3 * (f64::from(i) / 8.0).exp2()))
            .collect();
        let counts: Vec<f64> = edges
            .windows(2)
            .map(|e| x.iter().filter(|x| e[0] < **x && **x <= e[1]).count() as f64)
            .collect();

        let (bins, values) = (
            fit_bins(&edges, &counts).unwrap(),
            crate::forecast::fit_likelihood(&x).unwrap(),
        );

        assert!((bins.pareto.shape - values.pareto.shape).abs() < 0.02);
    }

    #[test]
    fn bins_without_any_excess_are_refused() {
        assert!(fit_bins(&[0.0, 1.0, 2.0], &[0.0, 0.0]).is_err());
        assert!(fit_bins(&[0.0, 1.0], &[1.0, 0.0]).is_err());
        assert!(fit_bins(&[1.0, 2.0], &[1.0]).is_err());
    }
}
