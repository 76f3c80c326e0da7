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
    /// On which CPUs: those on which it took no less than a tenth of what it took
    /// on the one with most. Whoever made CPU 1 late for 7 ms is not looked for on
    /// CPU 0 for 2 us.
    pub cpus: Vec<Cpu>,
    /// The largest latency of any episode, had this cause taken no time.
    pub largest_without: Nanos,
    /// Its episodes.
    pub met: Vec<Met>,
}

/// A cause in one episode.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Met {
    /// When the episode expired, `CLOCK_MONOTONIC`.
    pub expiry: Nanos,
    /// How much of it the cause took.
    pub took: Nanos,
    /// Whether no other cause took more.
    pub is_first: bool,
    /// Where.
    pub cpu: Cpu,
}

/// A CPU on which a cause took less than this part of what it took on the one with
/// most is not one of its CPUs.
const LEAST_OF_CPU: u64 = 10;

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
            cause.is_at_least |= episode.censored;
            cause.met.push(Met {
                expiry: episode.expiry_ns,
                took: time,
                is_first: time == most,
                cpu: episode.cpu,
            });
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
        cause.cpus = cpus_of(&cause.met);
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

/// The CPUs on which a cause took most, and those on which it took not much less.
fn cpus_of(met: &[Met]) -> Vec<Cpu> {
    let mut by_cpu: BTreeMap<Cpu, Nanos> = BTreeMap::new();
    for one in met {
        *by_cpu.entry(one.cpu).or_default() += one.took;
    }
    let most = by_cpu.values().copied().max().unwrap_or_default();
    by_cpu
        .into_iter()
        .filter(|(_, time)| *time * LEAST_OF_CPU >= most)
        .map(|(cpu, _)| cpu)
        .collect()
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
