//! Expiries that passed during a late wakeup. Each is a late wakeup itself, with the
//! causes of the time since it was due.

use laggard_model::{Cause, CauseClass, Culprit, Episode, Nanos};

use super::{HashMap, Part};

/// Share of a cause in the expiries that passed during an episode.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct PassedShare {
    /// Number of these expiries where the cause took part.
    pub wakeups: u64,
    /// Time that the cause took in them, summed over the expiries.
    pub total: Nanos,
}

/// Returns the share of each of `causes`, in their order. Empty if no expiry passed. The order in
/// time of recorded causes is unknown: each expiry has a share of all of them.
///
/// The cost is the number of parts plus the number of expiries, times the logarithm of
/// the latter. It does not grow with their product.
pub(super) fn passed_shares(
    episode: &Episode,
    parts: &[Part],
    causes: &[Cause],
) -> Vec<PassedShare> {
    if episode.passed_ns.is_empty() {
        return Vec::new();
    }
    let latency = episode.latency();
    let passed = episode.passed_ns.iter();
    if !episode.causes.is_empty() {
        let left = passed.map(|&after| latency.saturating_sub(after));
        let left = left.fold(Nanos::ZERO, |sum, time| sum + time);
        let shares = causes.iter().map(|cause| PassedShare {
            wakeups: episode.passed_ns.len() as u64,
            total: cause.time_ns.share(left, latency),
        });
        return shares.collect();
    }
    let mut due: Vec<Nanos> = passed.map(|&after| episode.expiry_ns + after).collect();
    due.sort_unstable();
    // Sums of the first n times, for every n.
    let mut sums = vec![0_u128];
    for expiry in &due {
        sums.push(sums[sums.len() - 1] + u128::from(expiry.ns()));
    }
    let indexed = causes.iter().enumerate();
    let places: HashMap<(CauseClass, &Culprit), usize> = indexed
        .map(|(place, cause)| ((cause.class, &cause.culprit), place))
        .collect();
    let mut shares = vec![PassedShare::default(); causes.len()];
    for part in parts {
        let (from, to) = (part.slice.from, part.slice.to);
        let Some(&place) = places.get(&(part.class, &part.culprit)) else {
            continue;
        };
        if to <= from {
            continue;
        }
        let before = due.partition_point(|&expiry| expiry <= from);
        let until = due.partition_point(|&expiry| expiry < to);
        // Expiries within the part get the rest of it.
        let within = (until - before) as u128;
        let rest = u128::from(to.ns()) * within - (sums[until] - sums[before]);
        let rest = Nanos::from_ns(u64::try_from(rest).unwrap_or(u64::MAX));
        let share = &mut shares[place];
        share.total += to.saturating_sub(from) * before as u64 + rest;
        share.wakeups = share.wakeups.max(until as u64);
    }
    shares
}
