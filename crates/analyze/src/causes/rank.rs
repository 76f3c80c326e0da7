//! Which causes matter, over all episodes of a recording.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};

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
    /// Late wakeups in which it took part: the episodes, and expiries that passed during
    /// them.
    pub wakeups: u64,
    /// Time in all of these wakeups.
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
    /// Late wakeups: the episodes, and expiries that passed during them.
    pub wakeups: u64,
    /// Sum of the latencies of these wakeups.
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
    let mut ranks = Ranks::default();
    for (episode, explanation) in explained {
        ranks.add(episode, explanation, &who);
    }
    ranks.into_ranking()
}

/// Causes as they are counted.
#[derive(Default)]
struct Ranks<'a> {
    /// Positions in `causes`.
    by_culprit: HashMap<(CauseClass, &'a Culprit), usize>,
    by_signature: HashMap<Signature, usize>,
    causes: Vec<CountedCause>,
    latencies: Vec<Nanos>,
    wakeups: u64,
    total: Nanos,
    is_at_least: bool,
}

/// A cause, and where it took part.
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
        // Causes with the same words: all expiries up to the end of the last of them.
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

    /// The position of a culprit's cause. Words are found once for each culprit.
    fn place(
        &mut self,
        class: CauseClass,
        culprit: &'a Culprit,
        who: &impl Fn(&Culprit) -> Option<String>,
    ) -> usize {
        let (by_signature, causes) = (&mut self.by_signature, &mut self.causes);
        *self.by_culprit.entry((class, culprit)).or_insert_with(|| {
            let signature = Signature {
                class,
                who: who(culprit),
            };
            *by_signature
                .entry(signature)
                .or_insert_with_key(|signature| {
                    causes.push(CountedCause {
                        ranked: RankedCause::new(signature.clone()),
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
        causes.sort_by(|one, other| {
            let by_time = other.total.cmp(&one.total);
            by_time.then_with(|| one.signature.cmp(&other.signature))
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
    /// The largest latency of any episode, had this cause taken no time. Of the
    /// episodes without it only the latest counts, and no more of them are looked at
    /// than it has episodes itself.
    fn largest_without(&self, latencies: &[Nanos], latest_first: &[usize]) -> Nanos {
        let is_without = |episode: &usize| self.episodes.binary_search(episode).is_err();
        let without = latest_first.iter().copied().find(is_without);
        let met = self.episodes.iter().zip(&self.ranked.met);
        let left = met.map(|(&episode, met)| latencies[episode].saturating_sub(met.took));
        let without = without.map(|episode| latencies[episode]);
        left.chain(without).max().unwrap_or_default()
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
