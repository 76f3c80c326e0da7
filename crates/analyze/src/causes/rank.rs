//! Which causes matter, over all episodes of a recording.

use std::collections::BTreeMap;

use laggard_model::{CauseClass, Cpu, Culprit, Episode, Nanos};

use super::Explanation;

/// What is the same in all episodes that have one cause: its class and its
/// culprit, by name.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Signature {
    /// What kind of thing.
    pub class: CauseClass,
    /// Who, in words; `None` where the class says it all.
    pub who: Option<String>,
}

/// A cause over all episodes.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct RankedCause {
    /// What tells this cause from others.
    pub signature: Signature,
    /// In how many episodes it took part.
    pub episodes: usize,
    /// In how many no other cause took more.
    pub first_in: usize,
    /// Time in all of them.
    pub total: Nanos,
    /// Most time in one.
    pub largest: Nanos,
    /// The number of that one.
    pub largest_episode: u64,
    /// Whether it is at least these times: one of its episodes had not ended when
    /// measuring did.
    pub is_at_least: bool,
    /// On which CPUs.
    pub cpus: Vec<Cpu>,
    /// The largest latency of any episode, had this cause taken no time.
    pub largest_without: Nanos,
    /// Its episodes: when they expired, `CLOCK_MONOTONIC`, and how much of
    /// them it took.
    pub met: Vec<(Nanos, Nanos)>,
}

/// The causes of a recording's episodes, those with most time first.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Ranking {
    /// Every cause, the one with most time first.
    pub causes: Vec<RankedCause>,
    /// How many episodes there are.
    pub episodes: usize,
    /// Their latencies together.
    pub total: Nanos,
    /// The largest of them.
    pub largest: Nanos,
    /// Whether the largest is at least that, with each cause and without: an
    /// episode had not ended when measuring did.
    pub is_at_least: bool,
}

/// Ranks the causes of explained episodes. `who` puts a culprit in words; equal
/// words are one culprit.
pub fn rank<'a>(
    explained: impl IntoIterator<Item = (&'a Episode, &'a Explanation)>,
    who: impl Fn(&Culprit) -> Option<String>,
) -> Ranking {
    let mut causes: BTreeMap<Signature, RankedCause> = BTreeMap::new();
    let mut latencies = Vec::new();
    let mut is_at_least = false;
    // By episode: how much each signature took.
    let mut shares: Vec<BTreeMap<Signature, Nanos>> = Vec::new();
    for (episode, explanation) in explained {
        let mut share: BTreeMap<Signature, Nanos> = BTreeMap::new();
        for cause in &explanation.causes {
            let signature = Signature {
                class: cause.class,
                who: who(&cause.culprit),
            };
            *share.entry(signature).or_default() += cause.time_ns;
        }
        let most = share.values().copied().max().unwrap_or_default();
        for (signature, &time) in &share {
            let cause = causes
                .entry(signature.clone())
                .or_insert_with(|| RankedCause::new(signature.clone()));
            cause.episodes += 1;
            cause.first_in += usize::from(time == most);
            cause.total += time;
            if time > cause.largest {
                (cause.largest, cause.largest_episode) = (time, episode.number);
            }
            if !cause.cpus.contains(&episode.cpu) {
                cause.cpus.push(episode.cpu);
                cause.cpus.sort_unstable();
            }
            cause.is_at_least |= episode.censored;
            cause.met.push((episode.expiry_ns, time));
        }
        latencies.push(episode.latency());
        is_at_least |= episode.censored;
        shares.push(share);
    }
    let mut causes: Vec<RankedCause> = causes.into_values().collect();
    for cause in &mut causes {
        let left = latencies.iter().zip(&shares).map(|(latency, share)| {
            let taken = share.get(&cause.signature).copied().unwrap_or_default();
            latency.saturating_sub(taken)
        });
        cause.largest_without = left.max().unwrap_or_default();
    }
    causes.sort_by_key(|cause| std::cmp::Reverse(cause.total));
    Ranking {
        causes,
        episodes: latencies.len(),
        total: latencies.iter().fold(Nanos::ZERO, |sum, &one| sum + one),
        largest: latencies.iter().copied().max().unwrap_or_default(),
        is_at_least,
    }
}

impl RankedCause {
    const fn new(signature: Signature) -> Self {
        Self {
            signature,
            episodes: 0,
            first_in: 0,
            total: Nanos::ZERO,
            largest: Nanos::ZERO,
            largest_episode: 0,
            is_at_least: false,
            cpus: Vec::new(),
            largest_without: Nanos::ZERO,
            met: Vec::new(),
        }
    }
}
