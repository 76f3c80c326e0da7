//! `laggard why --handlers`: handlers that the kernel ran outside threads, and whether one
//! alone explains a late wakeup (Jones & Regehr 1999, 4.2 and 4.3).

use laggard_model::name::activity_name;
use laggard_model::{
    Activity, Backend, Cpu, Episode, HandlerCount, HandlerCounts, Manifest, MissingRuns, Nanos,
    Symbols, Vector, printable,
};
use schemars::JsonSchema;
use serde::Serialize;

use super::RecordedEpisodes;

/// Version of the JSON layout of `why --handlers --json`.
pub const HANDLERS_SCHEMA: u32 = 2;
/// Steal time counts as lengthening a run if it takes this share of the run or more.
const MIN_STEAL_SHARE: f64 = 0.1;
/// Number of runs below which the p99.9 is not known.
const MIN_RUNS_FOR_P999: u64 = 1_000;

/// Handlers that the kernel ran outside threads.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct HandlersReport {
    /// Version of this layout.
    pub schema: u32,
    pub path: String,
    /// Length of the count of all handlers.
    pub duration_ns: Nanos,
    pub cpus: u64,
    /// Smallest latency threshold of all series. Absent: none was chosen, and no wakeup was
    /// late.
    pub late_ns: Option<Nanos>,
    /// Time recorded after the handlers were last counted, because the recording was killed
    /// or still runs.
    pub uncounted_ns: Nanos,
    /// Interrupt handlers, softirqs and timer functions, the longest first.
    pub handlers: Vec<HandlerRow>,
    /// Work items, the longest first. Their times include sleeping and waiting.
    pub works: Vec<HandlerRow>,
    /// Whether softirqs run in threads (`PREEMPT_RT`), so that their times, and the times of timer
    /// functions in them, include preemption.
    pub softirqs_are_threads: bool,
    /// Whether handlers of the measurement itself are included.
    pub has_probes: bool,
    /// Whether steal time is included, because the hypervisor does not report it.
    pub has_steal: bool,
    /// Runs that were not counted.
    pub missing: MissingRuns,
    /// Conclusion. Absent if handlers were not counted, or if the counts do not permit one.
    pub verdict: Option<HandlersVerdict>,
}

/// Whether one handler alone explains a late wakeup.
#[derive(Clone, Debug, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum HandlersVerdict {
    /// The threshold for comparison is missing.
    NoThreshold {
        /// Longest run of any handler.
        longest_ns: Nanos,
    },
    /// No handler ran for the length of the threshold.
    NoneAlone {
        /// Longest run of any handler.
        longest_ns: Nanos,
        /// Smaller latency that was late before the threshold was chosen, and that one
        /// handler may explain.
        early_ns: Option<Nanos>,
    },
    /// No handler is known to have run for the length of the threshold without steal time.
    NoneWithoutSteal,
    /// Some handlers ran for the length of the threshold.
    Some {
        /// Their positions among the handlers, the longest without steal time first.
        handlers: Vec<usize>,
        /// Number of handlers that did not.
        others: usize,
        /// Whether that is certain: no run of them is missing.
        is_certain: bool,
    },
}

/// Runs of one kind of handler.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct HandlerRow {
    /// Name of the handler; of a timer or work item the function, with its module.
    pub who: String,
    /// Number of runs.
    pub count: u64,
    /// Runs per second on all CPUs.
    pub per_second: f64,
    /// Share of the time of all CPUs, 0 to 1. A work item can have more, because sleeping and
    /// waiting are included.
    pub share: f64,
    /// Median: the upper edge of a bucket that is a fifth wide.
    pub median_ns: Nanos,
    /// p99.9. Absent: fewer than 1,000 runs.
    pub p999_ns: Option<Nanos>,
    pub longest_ns: Nanos,
    /// Its length without possible steal time (at least).
    pub longest_own_ns: Nanos,
    pub longest_cpu: Cpu,
    /// Its start, since the start of the recording. Negative: before.
    pub longest_after_start_s: f64,
}

impl HandlerRow {
    /// Returns whether steal time may have lengthened the longest run.
    #[must_use]
    pub fn is_stretched(&self) -> bool {
        self.longest_own_ns.as_f64() < (1.0 - MIN_STEAL_SHARE) * self.longest_ns.as_f64()
    }

    fn new(
        counted: &HandlerCount,
        counts: &HandlerCounts,
        start: Nanos,
        symbols: &Symbols,
    ) -> Self {
        let seconds = counts.to_ns.saturating_sub(counts.from_ns).as_secs_f64();
        let rate = |value: f64| if seconds > 0.0 { value / seconds } else { 0.0 };
        let after = counted.longest_at_ns.as_secs_f64() - start.as_secs_f64();
        Self {
            who: name(counted.activity, symbols),
            count: counted.count,
            per_second: rate(counted.count as f64),
            share: rate(counted.total_ns.as_secs_f64()) / counts.cpus.max(1) as f64,
            median_ns: counted.quantile(0.5).unwrap_or(counted.longest_ns),
            p999_ns: counted
                .quantile(0.999)
                .filter(|_| counted.count >= MIN_RUNS_FOR_P999),
            longest_ns: counted.longest_ns,
            longest_own_ns: counted.longest_own_ns,
            longest_cpu: counted.longest_cpu,
            longest_after_start_s: after,
        }
    }
}

/// Returns the handlers of a recording. `None`: it did not count them.
#[must_use]
pub fn handlers(late: &RecordedEpisodes) -> Option<HandlersReport> {
    let counts = late.notes.handlers.as_ref()?;
    let manifest = &late.manifest;
    let start = manifest.clock.start_ns;
    let mut rows = counts.handlers.clone();
    rows.sort_by_key(|counted| std::cmp::Reverse(counted.longest_ns));
    let (works, handlers): (Vec<_>, Vec<_>) = rows
        .iter()
        .partition(|counted| matches!(counted.activity, Activity::Work(_)));
    let row =
        |counted: &&HandlerCount| HandlerRow::new(counted, counts, start, &late.notes.symbols);
    let chosen = late.notes.thresholds_ns.iter().flatten().min().copied();
    let kept = late.episodes.iter().map(Episode::latency).min();
    let late_ns = chosen.or(kept);
    let early = kept.filter(|early| late_ns.is_some_and(|late| *early < late));
    let mut report = HandlersReport {
        schema: HANDLERS_SCHEMA,
        path: late.path.clone(),
        duration_ns: counts.to_ns.saturating_sub(counts.from_ns),
        cpus: counts.cpus,
        late_ns,
        uncounted_ns: (start + late.duration()).saturating_sub(counts.to_ns),
        handlers: handlers.iter().map(row).collect(),
        works: works.iter().map(row).collect(),
        softirqs_are_threads: has_softirq_threads(manifest),
        has_probes: manifest.backend == Backend::Bpf,
        has_steal: manifest.host.hypervisor.is_some() && !counts.stolen_is_seen,
        missing: counts.missing,
        verdict: None,
    };
    report.verdict = verdict(&report, early);
    Some(report)
}

/// Returns whether softirqs run in threads, which can be preempted.
fn has_softirq_threads(manifest: &Manifest) -> bool {
    manifest.host.preemption.as_deref() == Some("rt")
}

/// Returns a name that is short enough for the first column of a table.
fn name(activity: Activity, symbols: &Symbols) -> String {
    match activity {
        Activity::Hrtimer(function) | Activity::Timer(function) | Activity::Work(function) => {
            printable(&symbols.kernel_name(function)).to_string()
        }
        Activity::Vector(Vector::CallFunction) => "function call to several".into(),
        Activity::Vector(Vector::CallFunctionSingle) => "function call".into(),
        _ => activity_name(activity, symbols),
    }
}

/// `early`: a latency below the threshold that was late before the threshold was chosen.
fn verdict(report: &HandlersReport, early: Option<Nanos>) -> Option<HandlersVerdict> {
    let first = report.handlers.first()?;
    // A missing run can have been the longest.
    let longest = match (report.missing.runs, report.missing.none_longer_ns) {
        (0, _) => Some(first.longest_ns),
        (_, missing) => missing.map(|missing| missing.max(first.longest_ns)),
    };
    let Some(late) = report.late_ns else {
        return longest.map(|longest_ns| HandlersVerdict::NoThreshold { longest_ns });
    };
    if let Some(longest_ns) = longest.filter(|longest| *longest < late) {
        let early_ns = early.filter(|early| *early <= longest_ns);
        return Some(HandlersVerdict::NoneAlone {
            longest_ns,
            early_ns,
        });
    }
    let rows = report.handlers.iter().enumerate();
    let mut handlers: Vec<usize> = rows
        .filter(|(_, row)| row.longest_own_ns >= late)
        .map(|(index, _)| index)
        .collect();
    handlers.sort_by_key(|index| std::cmp::Reverse(report.handlers[*index].longest_own_ns));
    if handlers.is_empty() {
        return Some(HandlersVerdict::NoneWithoutSteal);
    }
    let others = report.handlers.iter().filter(|row| row.longest_ns < late);
    let missing = report.missing;
    let is_short = missing.none_longer_ns.is_some_and(|missing| missing < late);
    Some(HandlersVerdict::Some {
        handlers,
        others: others.count(),
        is_certain: (missing.runs == 0 || is_short) && report.uncounted_ns == Nanos::ZERO,
    })
}

#[cfg(test)]
mod tests {
    use laggard_model::{Clock, EpisodeNotes, HandlerTimes, Host, Stage};

    use super::*;

    fn handler_count(activity: Activity, longest: u64, own: u64) -> HandlerCount {
        HandlerCount {
            activity,
            count: 1_000,
            total_ns: Nanos::from_ms(30),
            longest_ns: Nanos::from_us(longest),
            longest_at_ns: Nanos::from_secs(102),
            longest_cpu: Cpu(1),
            longest_own_ns: Nanos::from_us(own),
            times: vec![
                HandlerTimes {
                    below_ns: Nanos::from_us(20),
                    count: 999,
                },
                HandlerTimes {
                    below_ns: Nanos::from_us(longest * 2),
                    count: 1,
                },
            ],
        }
    }

    fn recorded(
        handlers: Vec<HandlerCount>,
        late_us: Option<u64>,
        missing: MissingRuns,
    ) -> RecordedEpisodes {
        let manifest = laggard_made::late::manifest();
        let counts = HandlerCounts {
            from_ns: Nanos::from_secs(100),
            to_ns: Nanos::from_secs(110),
            cpus: 2,
            stolen_is_seen: true,
            handlers,
            missing,
        };
        RecordedEpisodes::new(
            "r",
            Manifest {
                backend: Backend::User,
                clock: Clock {
                    end_ns: Some(counts.to_ns),
                    ..manifest.clock
                },
                host: Host {
                    hypervisor: Some("kvm".into()),
                    ..manifest.host
                },
                ..manifest
            },
            Vec::new(),
            EpisodeNotes {
                thresholds_ns: vec![None, late_us.map(Nanos::from_us)],
                handlers: Some(counts),
                ..EpisodeNotes::default()
            },
        )
    }

    fn report(handlers: Vec<HandlerCount>, late_us: u64, missing: MissingRuns) -> HandlersReport {
        super::handlers(&recorded(handlers, Some(late_us), missing)).unwrap()
    }

    /// Returns a late wakeup with this latency.
    fn late(expiry_ns: Nanos, latency: Nanos) -> Episode {
        Episode {
            expiry_ns,
            stages: [(Stage::User, latency)].into(),
            ..laggard_made::late::episode(1)
        }
    }

    const NONE: MissingRuns = MissingRuns {
        runs: 0,
        none_longer_ns: None,
    };
    const NET: Activity = Activity::Softirq(3);
    const DISK: Activity = Activity::Irq(21);

    #[test]
    fn no_handler_as_long_as_the_threshold_explains_a_late_wakeup_alone() {
        let report = report(
            vec![handler_count(DISK, 40, 40), handler_count(NET, 90, 90)],
            100,
            NONE,
        );

        assert_eq!(
            report.verdict,
            Some(HandlersVerdict::NoneAlone {
                longest_ns: Nanos::from_us(90),
                early_ns: None
            })
        );
        let first = &report.handlers[0];
        assert_eq!(first.who, "NET_RX");
        assert_eq!(first.per_second, 100.0);
        assert_eq!(first.share, 0.0015);
        assert_eq!(first.p999_ns, Some(Nanos::from_us(20)));
        assert_eq!(first.longest_after_start_s, 2.0);
    }

    #[test]
    fn p999_needs_1000_runs() {
        let mut seldom = handler_count(NET, 90, 90);
        seldom.count = 999;
        seldom.times[0].count = 998;

        let report = report(vec![seldom], 100, NONE);

        assert_eq!(report.handlers[0].p999_ns, None);
        assert!(report.handlers[0].median_ns > Nanos::ZERO);
    }

    /// A missing run can have been the longest.
    #[test]
    fn no_handler_is_ruled_out_while_a_run_may_be_longer() {
        let missing = |none_longer_ns| MissingRuns {
            runs: 2,
            none_longer_ns,
        };
        let handlers = || vec![handler_count(NET, 90, 90)];
        let short = report(handlers(), 100, missing(Some(Nanos::from_us(95))));
        let unknown = report(handlers(), 100, missing(None));

        assert_eq!(
            short.verdict,
            Some(HandlersVerdict::NoneAlone {
                longest_ns: Nanos::from_us(95),
                early_ns: None
            })
        );
        assert_eq!(unknown.verdict, Some(HandlersVerdict::NoneWithoutSteal));
    }

    #[test]
    fn longer_handlers_are_listed_without_steal_time() {
        let long = report(
            vec![handler_count(NET, 300, 300), handler_count(DISK, 40, 40)],
            100,
            NONE,
        );
        let stretched = report(
            vec![handler_count(NET, 13_000, 60), handler_count(DISK, 40, 40)],
            100,
            NONE,
        );

        assert_eq!(
            long.verdict,
            Some(HandlersVerdict::Some {
                handlers: vec![0],
                others: 1,
                is_certain: true
            })
        );
        assert_eq!(stretched.verdict, Some(HandlersVerdict::NoneWithoutSteal));
        assert!(stretched.handlers[0].is_stretched());
    }

    #[test]
    fn without_a_threshold_the_longest_includes_missing_runs() {
        let verdict = |none_longer_ns: Option<Nanos>, runs| {
            let missing = MissingRuns {
                runs,
                none_longer_ns,
            };
            let late = recorded(vec![handler_count(NET, 90, 90)], None, missing);
            super::handlers(&late).unwrap().verdict
        };
        let none_longer = |us| {
            Some(HandlersVerdict::NoThreshold {
                longest_ns: Nanos::from_us(us),
            })
        };

        assert_eq!(verdict(None, 0), none_longer(90));
        assert_eq!(verdict(Some(Nanos::from_ms(3)), 1), none_longer(3_000));
        assert_eq!(verdict(None, 1), None);
    }

    /// Each new maximum of the first seconds is late, by a lower threshold.
    #[test]
    fn wakeups_that_were_late_before_the_threshold_are_not_explained_away() {
        let verdict = |longest, threshold| {
            let mut recorded =
                recorded(vec![handler_count(NET, longest, longest)], threshold, NONE);
            recorded.episodes = vec![late(Nanos::from_secs(101), Nanos::from_us(60))];
            super::handlers(&recorded).unwrap().verdict.unwrap()
        };
        let none = |longest, early: Option<u64>| HandlersVerdict::NoneAlone {
            longest_ns: Nanos::from_us(longest),
            early_ns: early.map(Nanos::from_us),
        };

        assert_eq!(verdict(90, Some(100)), none(90, Some(60)));
        assert_eq!(verdict(40, Some(100)), none(40, None));
        assert!(matches!(verdict(90, None), HandlersVerdict::Some { .. }));
    }

    /// A kill loses the counts since they were last read, but not the late wakeups since
    /// then.
    #[test]
    fn time_after_the_last_reading_is_not_counted() {
        let mut recorded = recorded(vec![handler_count(NET, 40, 40)], Some(50), NONE);
        recorded.manifest.clock.start_ns = Nanos::from_secs(100);
        recorded.manifest.clock.end_ns = None;
        recorded.episodes = vec![late(Nanos::from_secs(114), Nanos::from_ms(2))];
        let counts = recorded.notes.handlers.as_mut().unwrap();
        counts.handlers.push(handler_count(DISK, 70, 70));

        let report = super::handlers(&recorded).unwrap();

        assert!(report.uncounted_ns > Nanos::from_secs(4));
        assert_eq!(
            report.verdict,
            Some(HandlersVerdict::Some {
                handlers: vec![0],
                others: 1,
                is_certain: false
            })
        );
    }

    #[test]
    fn work_items_are_separate_because_they_sleep() {
        let work = Activity::Work(laggard_model::Address(16));
        let report = report(
            vec![
                handler_count(work, 9_000, 9_000),
                handler_count(DISK, 40, 40),
            ],
            100,
            NONE,
        );

        assert_eq!((report.handlers.len(), report.works.len()), (1, 1));
        assert!(matches!(
            report.verdict,
            Some(HandlersVerdict::NoneAlone { .. })
        ));
    }
}
