//! Search for a comb among event times (docs/method.md 7.1).

use statrs::distribution::{Binomial, DiscreteCDF};
use statrs::function::factorial::ln_binomial;

use crate::InputError;
use crate::input::{ascending, finite, not_negative, positive};

/// Limits of a search.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CombSearch {
    /// The events lie within 0 and this time.
    pub exposure: f64,
    /// Maximum distance of an event from the tooth that it hits: two ticks, or 5 and 20
    /// ms in separate searches.
    pub tolerance: f64,
    /// Shortest period.
    pub shortest: f64,
    /// Longest period; at most half of the exposure.
    pub longest: f64,
    /// Minimum number of hit teeth.
    pub least_hits: usize,
    /// Minimum fraction of hit teeth.
    pub least_fill: f64,
    /// Maximum distance in periods of two events.
    pub most_teeth_apart: u32,
}

/// Tail probability below which `statrs` loses digits.
const SMALLEST_TAIL: f64 = 1e-200;

impl CombSearch {
    /// Creates a search with the usual limits: 3 hits, 60 % of the teeth, periods up to
    /// half of `exposure`.
    pub fn new(exposure: f64, tolerance: f64, shortest: f64) -> Self {
        Self {
            exposure,
            tolerance,
            shortest,
            longest: exposure / 2.0,
            least_hits: 3,
            least_fill: 0.6,
            most_teeth_apart: 8,
        }
    }

    fn check(&self) -> Result<(), InputError> {
        positive("exposure", self.exposure)?;
        positive("tolerance", self.tolerance)?;
        positive("shortest period", self.shortest)?;
        positive("longest period", self.longest)?;
        positive("least share of teeth hit", self.least_fill)?;
        Ok(())
    }
}

/// Periodic source.
#[derive(Clone, Debug, PartialEq)]
pub struct Comb {
    /// Its period.
    pub period: f64,
    /// Time of a tooth, from 0 to the period.
    pub phase: f64,
    /// Number of hit teeth.
    pub hits: usize,
    /// Number of teeth within the exposure.
    pub teeth: usize,
    /// -log10 of the probability that random events hit the same number of teeth of one given comb;
    /// not a p-value of the search.
    pub score: f64,
    /// Standard error of the period; `None` with fewer than three events.
    pub period_error: Option<f64>,
    /// Standard deviation of the events around the teeth.
    pub jitter: Option<f64>,
    /// Indices of the events on the comb.
    pub events: Vec<usize>,
}

/// Returns the comb among `times` that is least likely by chance, if any has enough hit
/// teeth. Missing and foreign events are allowed.
///
/// Pass cluster times only (one per cluster, because bursts look periodic), at most
/// about 200: the work is cubic.
///
/// # Errors
/// If times do not ascend within the exposure, or a limit is not positive.
pub fn find_comb(times: &[f64], search: &CombSearch) -> Result<Option<Comb>, InputError> {
    search.check()?;
    finite("times", times)?;
    ascending("times", times)?;
    if let (Some(first), Some(last)) = (times.first(), times.last()) {
        not_negative("first time", *first)?;
        not_negative("exposure left after the last time", search.exposure - last)?;
    }
    let best = best_fit(times, search, f64::INFINITY);
    Ok(best.map(|fit| fit.comb(times, search)))
}

/// Returns the highest score, or the first one that reaches `enough`.
pub(super) fn best_score(times: &[f64], search: &CombSearch, enough: f64) -> Option<f64> {
    best_fit(times, search, enough).map(|fit| fit.score)
}

/// Comb with teeth at `phase` and at every `period` from there, in both directions.
#[derive(Clone, Copy)]
pub(super) struct CombFit {
    pub(super) period: f64,
    pub(super) phase: f64,
    pub(super) hits: usize,
    pub(super) teeth: usize,
    pub(super) score: f64,
}

fn best_fit(times: &[f64], search: &CombSearch, enough: f64) -> Option<CombFit> {
    let count = times.len();
    if count < search.least_hits {
        return None;
    }
    // More teeth than this cannot be filled by this number of events. The margin of a
    // hundredth allows for the refinement of the period.
    let shortest = 0.99 * search.exposure / (count as f64 / search.least_fill + 1.0);
    let shortest = search.shortest.max(shortest).max(10.0 * search.tolerance);
    let mut best: Option<CombFit> = None;
    for (first, &anchor) in times.iter().enumerate() {
        for &other in &times[first + 1..] {
            for apart in 1..=search.most_teeth_apart {
                let period = (other - anchor) / f64::from(apart);
                if period < shortest {
                    break;
                }
                if period > search.longest {
                    continue;
                }
                let Some(fit) = scored(times, search, period, anchor) else {
                    continue;
                };
                if best.is_none_or(|best| fit.score > best.score + 1e-9) {
                    best = Some(fit);
                    if fit.score >= enough {
                        return best;
                    }
                }
            }
        }
    }
    best
}

/// Scores the comb near `period` and `phase`, refined twice by least squares.
fn scored(times: &[f64], search: &CombSearch, period: f64, phase: f64) -> Option<CombFit> {
    let (mut period, mut phase) = (period, phase);
    for _ in 0..2 {
        let mut line = StraightLine::new();
        each_first(times, (period, phase), search.tolerance, |tooth, time| {
            line.add(tooth, time);
        });
        if line.points < 2.0 {
            break;
        }
        if line.slope() <= 0.0 {
            break;
        }
        (period, phase) = (line.slope(), line.start());
    }
    let mut hits = 0;
    each_first(times, (period, phase), search.tolerance, |_, _| hits += 1);
    let first = ((-phase - search.tolerance) / period).ceil();
    let last = ((search.exposure - phase + search.tolerance) / period).floor();
    let teeth = last - first + 1.0;
    if hits < search.least_hits || (hits as f64) < search.least_fill * teeth || teeth < 3.0 {
        return None;
    }
    let teeth = crate::sample::index(teeth);
    let rate = (times.len() as f64 - 1.0) / search.exposure;
    let by_chance = -(-rate * 2.0 * search.tolerance).exp_m1();
    Some(CombFit {
        period,
        phase,
        hits,
        teeth,
        score: score(hits, teeth, by_chance),
    })
}

/// Returns -log10 of the probability that `hits` or more of `teeth` teeth are hit, each
/// with the probability `by_chance`. Two hits are spent on period and phase.
pub(super) fn score(hits: usize, teeth: usize, by_chance: f64) -> f64 {
    let (Some(below), Some(teeth)) = (hits.checked_sub(3), teeth.checked_sub(2)) else {
        return 0.0;
    };
    let Ok(binomial) = Binomial::new(by_chance, teeth as u64) else {
        return 0.0;
    };
    let tail = binomial.sf(below as u64);
    if tail > SMALLEST_TAIL {
        return -tail.log10();
    }
    // Below the range of numbers: the first term, and the others as a geometric series.
    let (hits, missed) = (below as f64 + 1.0, (teeth - below - 1) as f64);
    let odds = by_chance / (1.0 - by_chance);
    let ratio = missed / (hits + 1.0) * odds;
    let term = ln_binomial(teeth as u64, below as u64 + 1)
        + hits * by_chance.ln()
        + missed * (-by_chance).ln_1p();
    -(term - (1.0 - ratio).ln()) / std::f64::consts::LN_10
}

/// Returns the integer nearest to `turns`, for values below 2^51: a sum of this size
/// does not have fraction digits. `round_ties_even` is a function call on x86-64 without SSE 4.1
/// and took most of the search time.
fn nearest_whole(turns: f64) -> f64 {
    const NO_FRACTION: f64 = 6_755_399_441_055_744.0; // 1.5 * 2^52
    (turns + NO_FRACTION) - NO_FRACTION
}

/// Number of events that are compared with the teeth at once.
const LANES: usize = 8;

/// Passes the index, the tooth number and the time of each event that hits a tooth. Most
/// events of a search hit none, so the processor compares several at once.
fn each_hit(
    times: &[f64],
    (period, phase): (f64, f64),
    tolerance: f64,
    mut take: impl FnMut(usize, f64, f64),
) {
    let tooth = |time: f64| nearest_whole((time - phase) / period);
    let is_hit = |time: f64, tooth: f64| (time - (phase + tooth * period)).abs() <= tolerance;
    let (chunks, rest) = times.as_chunks::<LANES>();
    for (number, chunk) in chunks.iter().enumerate() {
        let (mut teeth, mut are_hit) = ([0.0; LANES], [false; LANES]);
        for ((&time, number), is_near) in chunk.iter().zip(&mut teeth).zip(&mut are_hit) {
            *number = tooth(time);
            *is_near = is_hit(time, *number);
        }
        if are_hit.iter().fold(false, |any, &is_hit| any | is_hit) {
            let lanes = (0..LANES).filter(|&lane| are_hit[lane]);
            lanes.for_each(|lane| take(number * LANES + lane, teeth[lane], chunk[lane]));
        }
    }
    for (place, &time) in rest.iter().enumerate() {
        let tooth = tooth(time);
        if is_hit(time, tooth) {
            take(chunks.len() * LANES + place, tooth, time);
        }
    }
}

/// Passes the tooth number and the time of the first event at each hit tooth.
fn each_first(times: &[f64], comb: (f64, f64), tolerance: f64, mut take: impl FnMut(f64, f64)) {
    let mut before = f64::NAN;
    each_hit(times, comb, tolerance, |_, tooth, time| {
        if tooth != before {
            take(tooth, time);
        }
        before = tooth;
    });
}

/// Sums for a straight line through (tooth, time) points, relative to the first point
/// to preserve precision.
pub(super) struct StraightLine {
    origin: (f64, f64),
    pub(super) points: f64,
    x: f64,
    y: f64,
    xx: f64,
    xy: f64,
}

impl StraightLine {
    const fn new() -> Self {
        Self {
            origin: (f64::NAN, f64::NAN),
            points: 0.0,
            x: 0.0,
            y: 0.0,
            xx: 0.0,
            xy: 0.0,
        }
    }

    pub(super) fn through(points: impl Iterator<Item = (f64, f64)>) -> Self {
        let mut line = Self::new();
        points.for_each(|(x, y)| line.add(x, y));
        line
    }

    fn add(&mut self, x: f64, y: f64) {
        if self.points == 0.0 {
            self.origin = (x, y);
        }
        let (x, y) = (x - self.origin.0, y - self.origin.1);
        self.points += 1.0;
        self.x += x;
        self.y += y;
        self.xx += x * x;
        self.xy += x * y;
    }

    /// Returns the sum of squared deviations of the teeth from their mean.
    fn spread(&self) -> f64 {
        self.xx - self.x * self.x / self.points
    }

    pub(super) fn slope(&self) -> f64 {
        (self.xy - self.x * self.y / self.points) / self.spread()
    }

    /// Returns the time of tooth 0.
    pub(super) fn start(&self) -> f64 {
        let (x, y) = (self.x / self.points, self.y / self.points);
        self.origin.1 + y - self.slope() * (self.origin.0 + x)
    }
}

impl CombFit {
    pub(super) fn comb(self, times: &[f64], search: &CombSearch) -> Comb {
        let mut hits: Vec<(usize, f64, f64)> = Vec::new();
        each_hit(
            times,
            (self.period, self.phase),
            search.tolerance,
            |index, tooth, time| hits.push((index, tooth, time)),
        );
        let line = StraightLine::through(hits.iter().map(|&(_, tooth, time)| (tooth, time)));
        let (slope, start) = (line.slope(), line.start());
        let squares: f64 = hits
            .iter()
            .map(|(_, tooth, time)| (time - start - slope * tooth).powi(2))
            .sum();
        let jitter = (line.points >= 3.0).then(|| (squares / (line.points - 2.0)).sqrt());
        Comb {
            period: self.period,
            phase: self.phase.rem_euclid(self.period),
            hits: self.hits,
            teeth: self.teeth,
            score: self.score,
            period_error: jitter.map(|jitter| jitter / line.spread().sqrt()),
            jitter,
            events: hits.into_iter().map(|(index, _, _)| index).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::{prop_assert, proptest};

    proptest! {
        #[test]
        fn clean_comb_is_found_for_any_start(
            period in 2.0..7.0_f64, start in 0.0..1.0_f64,
        ) {
            let times: Vec<f64> = (0..)
                .map(|k| (start + f64::from(k)) * period)
                .take_while(|&time| time <= 30.0)
                .collect();
            let comb = find_comb(&times, &CombSearch::new(30.0, 0.02, 0.5)).unwrap().unwrap();
            prop_assert!((comb.period / period - 1.0).abs() < 1e-9);
            prop_assert!(comb.events.len() == times.len());
        }

        #[test]
        fn unit_of_time_does_not_matter(unit in 1e-3..1e3_f64) {
            let times = [1.2, 3.3, 6.2, 9.9, 11.2, 16.2, 17.7, 21.2, 26.2];
            let scaled = times.map(|time| time * unit);
            let seconds = CombSearch::new(30.0, 0.02, 0.5);
            let other = CombSearch::new(30.0 * unit, 0.02 * unit, 0.5 * unit);
            let comb = find_comb(&times, &seconds).unwrap().unwrap();
            let two = find_comb(&scaled, &other).unwrap().unwrap();
            prop_assert!((two.period / unit / comb.period - 1.0).abs() < 1e-9);
            prop_assert!((two.score - comb.score).abs() < 1e-6);
        }
    }

    #[test]
    fn two_events_make_no_comb() {
        let search = CombSearch::new(30.0, 0.02, 0.5);

        assert_eq!(find_comb(&[1.0, 2.0], &search), Ok(None));
        assert_eq!(find_comb(&[], &search), Ok(None));
    }

    #[test]
    fn times_outside_the_exposure_are_refused() {
        let search = CombSearch::new(30.0, 0.02, 0.5);

        assert!(find_comb(&[1.0, 2.0, 31.0], &search).is_err());
        assert!(find_comb(&[2.0, 1.0, 3.0], &search).is_err());
    }
}
