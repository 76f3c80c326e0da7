//! `laggard why --handlers`: what the kernel ran beside threads, late or not, and
//! so who was *not* the problem, as Jones & Regehr 1999, 4.2 and 4.3, acquit
//! handlers of less than 600 us.

use laggard_model::name::activity_name;
use laggard_model::text::{Unit, count, span};
use laggard_model::{
    Activity, Backend, Cpu, Episode, HandlerCount, HandlerCounts, Manifest, MissingRuns, Nanos,
    Symbols, Vector, printable,
};
use schemars::JsonSchema;
use serde::Serialize;

use super::RecordedEpisodes;

/// The version of `why --handlers --json`.
pub const HANDLERS_SCHEMA: u32 = 1;
/// Sorts that a sentence names at most.
const NAMED: usize = 3;
/// A run is called stretched by the hypervisor where it may have taken so much of
/// it, a share.
const STRETCHED: f64 = 0.1;

/// What the kernel ran beside threads: the value that all views show.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct HandlersReport {
    /// The version of this layout.
    pub schema: u32,
    /// The recording.
    pub path: String,
    /// For how long all were counted.
    pub duration_ns: Nanos,
    /// On how many CPUs.
    pub cpus: u64,
    /// From which latency on an activation counted as late, of the service for
    /// which that is least; absent: that was not decided, and nothing was late.
    pub late_ns: Option<Nanos>,
    /// The least latency that was late before that was decided, where it is less.
    pub early_ns: Option<Nanos>,
    /// How long was recorded after the last reading of what is counted, which a
    /// recording that was killed has.
    pub uncounted_ns: Nanos,
    /// Interrupt handlers, softirqs and timers' functions, the longest first.
    pub handlers: Vec<HandlerRow>,
    /// Work items, the longest first: with what they slept and waited.
    pub works: Vec<HandlerRow>,
    /// Whether softirqs, and timers' functions in them, were threads' here: their
    /// times have what ran in between, as work items' do.
    pub softirqs_are_threads: bool,
    /// Runs that are not counted above.
    pub missing: MissingRuns,
    /// The result in plain words.
    pub sentences: Vec<String>,
}

/// One sort of handler.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct HandlerRow {
    /// What ran: a function's name for a timer's and for work, with its module.
    pub who: String,
    /// How often.
    pub count: u64,
    /// How often a second, on all CPUs.
    pub per_second: f64,
    /// Its share of the time of all CPUs, 0 to 1; of a work item, with what it
    /// slept and waited, so that it can be more.
    pub share: f64,
    /// Half took at most so long: the end of a bucket that is a fifth wide.
    pub median_ns: Nanos,
    /// Of 1,000, 999 took at most so long; absent of fewer than 1,000, of which it would
    /// be the longest.
    pub p999_ns: Option<Nanos>,
    /// The longest.
    pub longest_ns: Nanos,
    /// How long it took at least, without what the hypervisor may have taken.
    pub longest_own_ns: Nanos,
    /// Where.
    pub longest_cpu: Cpu,
    /// When it began, since the start of the recording; negative: before.
    pub longest_after_start_s: f64,
}

/// With fewer runs, nothing is known of what one in 1,000 exceeds.
const ENOUGH_FOR_ONE_IN_1000: u64 = 1_000;

impl HandlerRow {
    /// Whether the hypervisor may have stretched the longest.
    #[must_use]
    pub fn is_stretched(&self) -> bool {
        self.longest_own_ns.as_f64() < (1.0 - STRETCHED) * self.longest_ns.as_f64()
    }

    fn of(one: &HandlerCount, counts: &HandlerCounts, start: Nanos, symbols: &Symbols) -> Self {
        let seconds = counts.to_ns.saturating_sub(counts.from_ns).as_secs_f64();
        let of_second = |value: f64| if seconds > 0.0 { value / seconds } else { 0.0 };
        let after = one.longest_at_ns.as_secs_f64() - start.as_secs_f64();
        Self {
            who: name(one.activity, symbols),
            count: one.count,
            per_second: of_second(one.count as f64),
            share: of_second(one.total_ns.as_secs_f64()) / counts.cpus.max(1) as f64,
            median_ns: one.quantile(0.5).unwrap_or(one.longest_ns),
            p999_ns: one
                .quantile(0.999)
                .filter(|_| one.count >= ENOUGH_FOR_ONE_IN_1000),
            longest_ns: one.longest_ns,
            longest_own_ns: one.longest_own_ns,
            longest_cpu: one.longest_cpu,
            longest_after_start_s: after,
        }
    }
}

/// What the kernel ran beside threads; `None`: the recording did not count that.
#[must_use]
pub fn handlers(late: &RecordedEpisodes) -> Option<HandlersReport> {
    let counts = late.notes.handlers.as_ref()?;
    let start = late.manifest.clock.start_ns;
    let mut rows = counts.handlers.clone();
    rows.sort_by_key(|one| std::cmp::Reverse(one.longest_ns));
    let (works, handlers): (Vec<_>, Vec<_>) = rows
        .iter()
        .partition(|one| matches!(one.activity, Activity::Work(_)));
    let row = |one: &&HandlerCount| HandlerRow::of(one, counts, start, &late.notes.symbols);
    let decided = late.notes.thresholds_ns.iter().flatten().min().copied();
    let kept = late.episodes.iter().map(Episode::latency).min();
    let late_ns = decided.or(kept);
    let mut report = HandlersReport {
        schema: HANDLERS_SCHEMA,
        path: late.path.clone(),
        duration_ns: counts.to_ns.saturating_sub(counts.from_ns),
        cpus: counts.cpus,
        late_ns,
        early_ns: kept.filter(|early| late_ns.is_some_and(|late| *early < late)),
        uncounted_ns: (start + late.duration()).saturating_sub(counts.to_ns),
        handlers: handlers.iter().map(row).collect(),
        works: works.iter().map(row).collect(),
        softirqs_are_threads: has_softirq_threads(&late.manifest),
        missing: counts.missing,
        sentences: Vec::new(),
    };
    report.sentences = sentences(&report, counts, &late.manifest);
    Some(report)
}

/// Whether softirqs run in threads, which others can preempt.
fn has_softirq_threads(manifest: &Manifest) -> bool {
    manifest.host.preemption.as_deref() == Some("rt")
}

/// As short as a table's first column has to be.
fn name(activity: Activity, symbols: &Symbols) -> String {
    match activity {
        Activity::Hrtimer(function) | Activity::Timer(function) | Activity::Work(function) => {
            printable(&symbols.kernel_name(function)).to_string()
        }
        Activity::Vector(Vector::CallFunction) => "function call to several".into(),
        Activity::Vector(Vector::CallFunctionSingle) => "function call".into(),
        Activity::Irq(_)
        | Activity::Isr(_)
        | Activity::Dpc(_)
        | Activity::Vector(_)
        | Activity::Softirq(_)
        | Activity::Idle(_)
        | Activity::PageFault => activity_name(activity, symbols),
    }
}

fn write(time: Nanos) -> String {
    Unit::Auto.write_nanos(time)
}

fn sentences(report: &HandlersReport, counts: &HandlerCounts, manifest: &Manifest) -> Vec<String> {
    let mut all = Vec::new();
    all.extend(verdict(report));
    all.extend(stretched(report));
    if manifest.backend == Backend::Bpf {
        all.push(
            "What laggard measures with is in it: its timers (hrtimer_wakeup, bpf_timer_cb, \
             perf_swevent_hrtimer) and its work (bpf_wq_work)."
                .into(),
        );
    }
    let has_hypervisor = manifest.host.hypervisor.is_some();
    if has_hypervisor && !counts.stolen_is_seen {
        all.push(
            "What the hypervisor took, if anything, is in these times: it does not tell it.".into(),
        );
    }
    if report.softirqs_are_threads {
        all.push(
            "Softirqs are threads' here: their times, and those of timers' functions in them, \
             have what ran in between."
                .into(),
        );
    }
    if report.uncounted_ns > Nanos::ZERO {
        all.push(format!(
            "What ran in the last {} is not counted: the counts are read every few seconds, and the \
             recording was cut short or still runs.",
            span(report.uncounted_ns)
        ));
    }
    if report.missing.runs > 0 {
        let (s, are) = match report.missing.runs {
            1 => ("", "is"),
            _ => ("s", "are"),
        };
        let how_long = match report.missing.none_longer_ns {
            Some(most) => format!("none was longer than {}", write(most)),
            None => "how long they were is not known".into(),
        };
        all.push(format!(
            "{} run{s} {are} not counted: the beginning or the end was not seen, or there was no \
             room; {how_long}.",
            count(report.missing.runs)
        ));
    }
    all
}

/// Whether any of them explains a late activation alone.
fn verdict(report: &HandlersReport) -> Option<String> {
    let first = report.handlers.first()?;
    // A run that is missing can have been the longest; `None`: nobody knows.
    let longest = match (report.missing.runs, report.missing.none_longer_ns) {
        (0, _) => Some(first.longest_ns),
        (_, missing) => missing.map(|missing| missing.max(first.longest_ns)),
    };
    let Some(late) = report.late_ns else {
        return longest.map(|longest| none_longer(report, longest));
    };
    if let Some(longest) = longest.filter(|longest| *longest < late) {
        let told = none_longer(report, longest);
        let early = report.early_ns.filter(|early| *early <= longest);
        let early = early.map_or(String::new(), |early| {
            format!(
                " Before that was decided, {} was late too, which one may explain.",
                write(early)
            )
        });
        return Some(format!(
            "{}: none alone explains a latency of {} or more, which is late.{early}",
            told.trim_end_matches('.'),
            write(late)
        ));
    }
    let guilty = report
        .handlers
        .iter()
        .filter(|one| one.longest_own_ns >= late);
    let mut guilty: Vec<&HandlerRow> = guilty.collect();
    guilty.sort_by_key(|one| std::cmp::Reverse(one.longest_own_ns));
    if guilty.is_empty() {
        return Some(format!(
            "None is shown to have run for {} itself, from which on an activation is late.",
            write(late)
        ));
    }
    let mut named: Vec<String> = guilty
        .iter()
        .take(NAMED)
        .map(|one| format!("{} (up to {})", one.who, write(one.longest_own_ns)))
        .collect();
    if guilty.len() > NAMED {
        named.push(format!("{} more", guilty.len() - NAMED));
    }
    let rest = report.handlers.iter().filter(|one| one.longest_ns < late);
    let is_sure = report.missing.runs == 0
        || report
            .missing
            .none_longer_ns
            .is_some_and(|missing| missing < late);
    let did = if is_sure && report.uncounted_ns == Nanos::ZERO {
        "never did"
    } else {
        "did not, as far as they were counted"
    };
    let acquitted = match rest.count() {
        0 => String::new(),
        1 => format!(" The other sort {did}."),
        more => format!(" {more} other sorts {did}."),
    };
    Some(format!(
        "For {} or longer, from which on an activation is late, ran: {}.{acquitted}",
        write(late),
        named.join("; ")
    ))
}

/// How long the longest was, of what was counted.
fn none_longer(report: &HandlersReport, longest: Nanos) -> String {
    let no = match report.uncounted_ns {
        Nanos::ZERO => "No",
        _ => "In what was counted no",
    };
    format!(
        "{no} interrupt handler, softirq or timer's function ran for longer than {}.",
        write(longest)
    )
}

/// What the hypervisor may have stretched.
fn stretched(report: &HandlersReport) -> Option<String> {
    let most = report.handlers.iter().filter(|one| one.is_stretched());
    let most = most.max_by_key(|one| one.longest_ns)?;
    Some(format!(
        "The hypervisor may have taken part of the longest: of the {} of {} all but {}.",
        write(most.longest_ns),
        most.who,
        write(most.longest_own_ns)
    ))
}

#[cfg(test)]
mod tests {
    use laggard_model::{Clock, EpisodeNotes, HandlerTimes, Host, Stage};

    use super::*;

    fn one(activity: Activity, longest: u64, own: u64) -> HandlerCount {
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
        RecordedEpisodes {
            path: "r".into(),
            manifest: Manifest {
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
            episodes: Vec::new(),
            notes: EpisodeNotes {
                thresholds_ns: vec![None, late_us.map(Nanos::from_us)],
                handlers: Some(counts),
                ..EpisodeNotes::default()
            },
            latest: Vec::new(),
            shortfalls: Vec::new(),
        }
    }

    fn report(handlers: Vec<HandlerCount>, late_us: u64, missing: MissingRuns) -> HandlersReport {
        super::handlers(&recorded(handlers, Some(late_us), missing)).unwrap()
    }

    /// One that was so late.
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
    fn who_never_ran_for_as_long_as_late_is_acquitted_by_name_of_the_longest() {
        let report = report(vec![one(DISK, 40, 40), one(NET, 90, 90)], 100, NONE);

        assert_eq!(
            report.sentences,
            [
                "No interrupt handler, softirq or timer's function ran for longer than 90.0 us: none \
                 alone explains a latency of 100 us or more, which is late."
            ]
        );
        let first = &report.handlers[0];
        assert_eq!(first.who, "NET_RX");
        assert_eq!(first.per_second, 100.0);
        assert_eq!(first.share, 0.0015);
        assert_eq!(first.p999_ns, Some(Nanos::from_us(20)));
        assert_eq!(first.longest_after_start_s, 2.0);
    }

    /// Of one run, one in 1,000 would be that run.
    #[test]
    fn what_one_in_1000_exceeds_is_not_told_of_fewer_runs() {
        let mut seldom = one(NET, 90, 90);
        seldom.count = 999;
        seldom.times[0].count = 998;

        let report = report(vec![seldom], 100, NONE);

        assert_eq!(report.handlers[0].p999_ns, None);
        assert!(report.handlers[0].median_ns > Nanos::ZERO);
    }

    /// One that is missing can have been the longest.
    #[test]
    fn nobody_is_acquitted_while_a_run_is_missing() {
        let missing = |none_longer_ns| MissingRuns {
            runs: 2,
            none_longer_ns,
        };
        let sure = report(
            vec![one(NET, 90, 90)],
            100,
            missing(Some(Nanos::from_us(95))),
        );
        let report = report(vec![one(NET, 90, 90)], 100, missing(None));

        assert!(
            sure.sentences[0].starts_with(
                "No interrupt handler, softirq or timer's function ran for longer than 95.0 us: "
            ),
            "{:?}",
            sure.sentences
        );
        assert!(
            report.sentences[0].starts_with("None is shown"),
            "{:?}",
            report.sentences
        );
        assert!(report.sentences[1].starts_with("2 runs are not counted"));
    }

    #[test]
    fn who_ran_for_longer_is_named_and_what_the_hypervisor_took_is_not_held_against_it() {
        let named = report(vec![one(NET, 300, 300), one(DISK, 40, 40)], 100, NONE);
        let stopped = report(vec![one(NET, 13_000, 60), one(DISK, 40, 40)], 100, NONE);

        assert_eq!(
            named.sentences,
            [
                "For 100 us or longer, from which on an activation is late, ran: NET_RX (up to 300 \
                 us). The other sort never did."
            ]
        );
        assert_eq!(
            stopped.sentences,
            [
                "None is shown to have run for 100 us itself, from which on an activation is late.",
                "The hypervisor may have taken part of the longest: of the 13.0 ms of NET_RX all \
                 but 60.0 us."
            ]
        );
    }

    /// Also where nothing says what is late.
    #[test]
    fn what_is_missing_can_have_been_the_longest_where_no_threshold_was_decided() {
        let missing = |none_longer_ns| MissingRuns {
            runs: 1,
            none_longer_ns,
        };
        let first = |missing| {
            let late = recorded(vec![one(NET, 90, 90)], None, missing);
            super::handlers(&late).unwrap().sentences.swap_remove(0)
        };

        assert!(first(NONE).ends_with("ran for longer than 90.0 us."));
        let most = Some(Nanos::from_ms(3));
        assert!(first(missing(most)).ends_with("ran for longer than 3.00 ms."));
        assert!(first(missing(None)).starts_with("1 run is not counted"));
    }

    /// Each new largest of the first seconds is late, by a lower threshold.
    #[test]
    fn what_was_late_before_its_threshold_was_decided_is_not_explained_away() {
        let first = |longest, decided| {
            let mut recorded = recorded(vec![one(NET, longest, longest)], decided, NONE);
            recorded.episodes = vec![late(Nanos::from_secs(101), Nanos::from_us(60))];
            super::handlers(&recorded).unwrap().sentences.swap_remove(0)
        };

        assert_eq!(
            first(90, Some(100)),
            "No interrupt handler, softirq or timer's function ran for longer than 90.0 us: none \
             alone explains a latency of 100 us or more, which is late. Before that was decided, \
             60.0 us was late too, which one may explain."
        );
        assert!(first(40, Some(100)).ends_with("which is late."));
        assert!(first(90, None).starts_with("For 60.0 us or longer"));
    }

    /// A kill costs the counts since they were last read, and not the late
    /// activations since then.
    #[test]
    fn what_was_recorded_after_the_last_reading_is_said_not_to_be_counted() {
        let mut recorded = recorded(vec![one(NET, 40, 40)], Some(50), NONE);
        recorded.manifest.clock.start_ns = Nanos::from_secs(100);
        recorded.manifest.clock.end_ns = None;
        recorded.episodes = vec![late(Nanos::from_secs(114), Nanos::from_ms(2))];
        let acquitted = super::handlers(&recorded).unwrap();
        let counts = recorded.notes.handlers.as_mut().unwrap();
        counts.handlers.push(one(DISK, 70, 70));
        let accused = super::handlers(&recorded).unwrap();

        assert_eq!(
            acquitted.sentences,
            [
                "In what was counted no interrupt handler, softirq or timer's function ran for \
                 longer than 40.0 us: none alone explains a latency of 50.0 us or more, which is \
                 late.",
                "What ran in the last 4 s is not counted: the counts are read every few seconds, \
                 and the recording was cut short or still runs.",
            ]
        );
        assert!(
            accused.sentences[0].ends_with("The other sort did not, as far as they were counted."),
            "{:?}",
            accused.sentences
        );
    }

    #[test]
    fn work_items_are_apart_for_they_sleep() {
        let work = Activity::Work(laggard_model::Address(16));
        let report = report(vec![one(work, 9_000, 9_000), one(DISK, 40, 40)], 100, NONE);

        assert_eq!((report.handlers.len(), report.works.len()), (1, 1));
        assert!(report.sentences[0].contains("longer than 40.0 us"));
    }

    #[test]
    fn three_are_named_and_of_more_only_how_many() {
        let said = |sorts: u32| {
            let all = (0..sorts).map(|irq| one(Activity::Irq(irq), 300, 300));
            let report = report(all.collect(), 100, NONE);
            let names = report.sentences[0].matches("(up to").count();
            let rest = report.sentences[0].split_once(" more.");
            let more = rest.and_then(|(before, _)| Some(before.rsplit_once("; ")?.1.to_owned()));
            (names, more)
        };

        assert_eq!(said(2), (2, None));
        assert_eq!(said(3), (3, None));
        assert_eq!(said(4), (3, Some("1".into())));
        assert_eq!(said(5), (3, Some("2".into())));
    }
}
