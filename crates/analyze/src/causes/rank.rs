//! Ranking of causes over all episodes of a recording.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use laggard_model::{CauseClass, Cpu, Culprit, Episode, NamedCause, Nanos};

use super::{Explanation, HashMap};

/// Cause over all episodes.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct RankedCause {
    /// The cause.
    pub cause: NamedCause,
    /// Number of episodes that contain it.
    pub episodes: usize,
    /// Number of episodes with this as the largest cause.
    pub first_in: usize,
    /// Late wakeups with the cause: episodes, and expiries that passed during them.
    pub wakeups: u64,
    /// Time in all of these wakeups.
    pub total: Nanos,
    /// Longest time in one wakeup.
    pub largest: Nanos,
    /// Number of the episode with the longest time.
    pub largest_episode: u64,
    /// Whether the times are lower bounds, because an episode had not ended when the
    /// measurement did.
    pub is_at_least: bool,
    /// CPUs where it took at least a tenth of its time on the CPU with the most. A cause that
    /// delayed CPU 1 by 7 ms is not reported for CPU 0 because of 2 us.
    pub cpus: Vec<Cpu>,
    /// Largest latency of any episode if this cause had taken no time.
    pub largest_without: Nanos,
    /// Its episodes.
    pub met: Vec<Met>,
}

/// Cause in one episode.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Met {
    /// Expiry of the episode, `CLOCK_MONOTONIC`.
    pub expiry: Nanos,
    /// Time of the episode that the cause took.
    pub took: Nanos,
    /// Whether no other cause took more.
    pub is_first: bool,
    /// CPU of the episode.
    pub cpu: Cpu,
}

/// Minimum time of a cause on one of its CPUs: the time on the CPU with the most,
/// divided by this number.
const MAX_CPU_RATIO: u64 = 10;

/// Causes of a recording's episodes, largest total time first.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Ranking {
    /// Every cause, largest total time first.
    pub causes: Vec<RankedCause>,
    /// Number of episodes.
    pub episodes: usize,
    /// Late wakeups: episodes, and expiries that passed during them.
    pub wakeups: u64,
    /// Sum of the latencies of these wakeups.
    pub total: Nanos,
    /// Largest of these latencies.
    pub largest: Nanos,
    /// Whether the largest latency is a lower bound, with and without each cause,
    /// because an episode had not ended when the measurement did.
    pub is_at_least: bool,
}

/// Ranks the causes of explained episodes. `who` names a culprit.
pub fn rank<'a>(
    explained: impl IntoIterator<Item = (&'a Episode, &'a Explanation)>,
    who: impl Fn(&Culprit) -> Option<String>,
) -> Ranking {
    let mut ranks = Ranks::default();
    for (episode, explanation) in explained {
        ranks.add(episode, explanation, &who);
    }
    ranks.into_ranking()
}

/// Causes during counting.
#[derive(Default)]
struct Ranks<'a> {
    /// Positions in `causes`.
    by_culprit: HashMap<(CauseClass, &'a Culprit), usize>,
    by_name: HashMap<NamedCause, usize>,
    causes: Vec<CountedCause>,
    latencies: Vec<Nanos>,
    wakeups: u64,
    total: Nanos,
    is_at_least: bool,
}

/// Cause with its positions.
struct CountedCause {
    ranked: RankedCause,
    /// Positions of its episodes among all, ascending; one for each of
    /// [`RankedCause::met`].
    episodes: Vec<usize>,
}

impl<'a> Ranks<'a> {
    fn add(
        &mut self,
        episode: &'a Episode,
        explanation: &'a Explanation,
        who: &impl Fn(&Culprit) -> Option<String>,
    ) {
        let mut times: BTreeMap<usize, Nanos> = BTreeMap::new();
        for cause in &explanation.causes {
            let place = self.place(cause.class, &cause.culprit, who);
            *times.entry(place).or_default() += cause.time_ns;
        }
        let most = times.values().copied().max().unwrap_or_default();
        for (place, time) in times {
            let CountedCause { ranked, episodes } = &mut self.causes[place];
            ranked.episodes += 1;
            ranked.first_in += usize::from(time == most);
            ranked.wakeups += 1;
            ranked.total += time;
            if time > ranked.largest {
                (ranked.largest, ranked.largest_episode) = (time, episode.number);
            }
            ranked.is_at_least |= episode.censored;
            ranked.met.push(Met {
                expiry: episode.expiry_ns,
                took: time,
                is_first: time == most,
                cpu: episode.cpu,
            });
            episodes.push(self.latencies.len());
        }
        // Causes with the same text: all expiries up to the end of the last of them.
        let mut passed_wakeups: BTreeMap<usize, u64> = BTreeMap::new();
        for (cause, passed) in explanation.causes.iter().zip(&explanation.passed) {
            let place = self.place(cause.class, &cause.culprit, who);
            self.causes[place].ranked.total += passed.total;
            let wakeups = passed_wakeups.entry(place).or_default();
            *wakeups = (*wakeups).max(passed.wakeups);
        }
        for (place, wakeups) in passed_wakeups {
            self.causes[place].ranked.wakeups += wakeups;
        }
        self.wakeups += 1 + episode.passed_ns.len() as u64;
        let passed = episode.passed_ns.iter();
        self.total += passed.fold(episode.latency(), |sum, &after| {
            sum + episode.latency().saturating_sub(after)
        });
        self.latencies.push(episode.latency());
        self.is_at_least |= episode.censored;
    }

    /// Returns the position of a culprit's cause. The text of each culprit is formatted
    /// once.
    fn place(
        &mut self,
        class: CauseClass,
        culprit: &'a Culprit,
        who: &impl Fn(&Culprit) -> Option<String>,
    ) -> usize {
        let (by_name, causes) = (&mut self.by_name, &mut self.causes);
        *self.by_culprit.entry((class, culprit)).or_insert_with(|| {
            let cause = NamedCause {
                class,
                who: who(culprit),
                because: culprit.because,
            };
            *by_name.entry(cause).or_insert_with_key(|cause| {
                causes.push(CountedCause {
                    ranked: RankedCause::new(cause.clone()),
                    episodes: Vec::new(),
                });
                causes.len() - 1
            })
        })
    }

    fn into_ranking(self) -> Ranking {
        let latencies = self.latencies;
        let mut latest_first: Vec<usize> = (0..latencies.len()).collect();
        latest_first.sort_by_key(|&episode| Reverse(latencies[episode]));
        let complete = |cause: CountedCause| RankedCause {
            largest_without: cause.largest_without(&latencies, &latest_first),
            cpus: cpus_of(&cause.ranked.met),
            ..cause.ranked
        };
        let mut causes: Vec<RankedCause> = self.causes.into_iter().map(complete).collect();
        causes.sort_by(|a, b| {
            let by_time = b.total.cmp(&a.total);
            by_time.then_with(|| a.cause.cmp(&b.cause))
        });
        Ranking {
            causes,
            episodes: latencies.len(),
            wakeups: self.wakeups,
            total: self.total,
            largest: latencies.iter().copied().max().unwrap_or_default(),
            is_at_least: self.is_at_least,
        }
    }
}

impl CountedCause {
    /// Returns the largest latency of any episode without the time of this cause. Only the latest
    /// episode without the cause matters. The search visits at most the number of the cause's
    /// episodes before it.
    fn largest_without(&self, latencies: &[Nanos], latest_first: &[usize]) -> Nanos {
        let is_without = |episode: &usize| self.episodes.binary_search(episode).is_err();
        let without = latest_first.iter().copied().find(is_without);
        let met = self.episodes.iter().zip(&self.ranked.met);
        let left = met.map(|(&episode, met)| latencies[episode].saturating_sub(met.took));
        let without = without.map(|episode| latencies[episode]);
        left.chain(without).max().unwrap_or_default()
    }
}

/// Returns the CPUs where a cause took the most time or not much less.
fn cpus_of(met: &[Met]) -> Vec<Cpu> {
    let mut by_cpu: BTreeMap<Cpu, Nanos> = BTreeMap::new();
    for episode in met {
        *by_cpu.entry(episode.cpu).or_default() += episode.took;
    }
    let most = by_cpu.values().copied().max().unwrap_or_default();
    by_cpu
        .into_iter()
        .filter(|(_, time)| *time * MAX_CPU_RATIO >= most)
        .map(|(cpu, _)| cpu)
        .collect()
}

impl RankedCause {
    const fn new(cause: NamedCause) -> Self {
        Self {
            cause,
            episodes: 0,
            first_in: 0,
            wakeups: 0,
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
