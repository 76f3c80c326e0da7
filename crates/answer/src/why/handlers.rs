//! `laggard why --handlers`: what the kernel ran beside threads, late or not, and
//! so who was *not* the problem, as Jones & Regehr 1999, 4.2 and 4.3, acquit
//! handlers of less than 600 us.

use laggard_model::name::activity_name;
use laggard_model::text::{Unit, count};
use laggard_model::{
    Activity, Backend, Cpu, HandlerCount, HandlerCounts, Manifest, MissingRuns, Nanos, Symbols,
    Vector, printable,
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
    /// which that is least; absent: that was not decided.
    pub late_ns: Option<Nanos>,
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
    /// Of 1,000, 999 took at most so long.
    pub p999_ns: Nanos,
    /// The longest.
    pub longest_ns: Nanos,
    /// How long it took at least, without what the hypervisor may have taken.
    pub longest_own_ns: Nanos,
    /// Where.
    pub longest_cpu: Cpu,
    /// When it began, since the start of the recording; negative: before.
    pub longest_after_start_s: f64,
}

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
            p999_ns: one.quantile(0.999).unwrap_or(one.longest_ns),
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
    let mut report = HandlersReport {
        schema: HANDLERS_SCHEMA,
        path: late.path.clone(),
        duration_ns: counts.to_ns.saturating_sub(counts.from_ns),
        cpus: counts.cpus,
        late_ns: late.notes.thresholds_ns.iter().flatten().min().copied(),
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
            "What the hypervisor took is in these times: this kernel does not tell it.".into(),
        );
    }
    if report.softirqs_are_threads {
        all.push(
            "Softirqs are threads' here: their times, and those of timers' functions in them, \
             have what ran in between."
                .into(),
        );
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

/// Whether any of them can have made an activation late alone.
fn verdict(report: &HandlersReport) -> Option<String> {
    let first = report.handlers.first()?;
    let Some(late) = report.late_ns else {
        return Some(format!(
            "No interrupt handler, softirq or timer's function ran for longer than {}.",
            write(first.longest_ns)
        ));
    };
    let is_shorter = |time: Nanos| time < late;
    // A run that is missing can have been the longest.
    let is_sure = report.missing.runs == 0 || report.missing.none_longer_ns.is_some_and(is_shorter);
    if first.longest_ns < late && is_sure {
        return Some(format!(
            "No interrupt handler, softirq or timer's function ran for longer than {}: none made \
             an activation late alone, which begins at {}.",
            write(first.longest_ns),
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
    let acquitted = match rest.count() {
        0 => String::new(),
        1 => " The other sort never did.".into(),
        more => format!(" {more} other sorts never did."),
    };
    Some(format!(
        "For {} or longer, from which on an activation is late, ran: {}.{acquitted}",
        write(late),
        named.join("; ")
    ))
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
    use laggard_model::{EpisodeNotes, HandlerTimes, Host};

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

    fn report(handlers: Vec<HandlerCount>, late_us: u64, missing: MissingRuns) -> HandlersReport {
        let manifest = laggard_made::late::manifest();
        let counts = HandlerCounts {
            from_ns: Nanos::from_secs(100),
            to_ns: Nanos::from_secs(110),
            cpus: 2,
            stolen_is_seen: true,
            handlers,
            missing,
        };
        let late = RecordedEpisodes {
            path: "r".into(),
            manifest: Manifest {
                backend: Backend::User,
                host: Host {
                    hypervisor: Some("kvm".into()),
                    ..manifest.host
                },
                ..manifest
            },
            episodes: Vec::new(),
            notes: EpisodeNotes {
                thresholds_ns: vec![None, Some(Nanos::from_us(late_us))],
                handlers: Some(counts),
                ..EpisodeNotes::default()
            },
            latest: Vec::new(),
            shortfalls: Vec::new(),
        };
        super::handlers(&late).unwrap()
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
                 made an activation late alone, which begins at 100 us."
            ]
        );
        let first = &report.handlers[0];
        assert_eq!(first.who, "NET_RX");
        assert_eq!(first.per_second, 100.0);
        assert_eq!(first.share, 0.0015);
        assert_eq!(first.p999_ns, Nanos::from_us(20));
        assert_eq!(first.longest_after_start_s, 2.0);
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
            sure.sentences[0].starts_with("No interrupt"),
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

    #[test]
    fn work_items_are_apart_for_they_sleep() {
        let work = Activity::Work(laggard_model::Address(16));
        let report = report(vec![one(work, 9_000, 9_000), one(DISK, 40, 40)], 100, NONE);

        assert_eq!((report.handlers.len(), report.works.len()), (1, 1));
        assert!(report.sentences[0].contains("longer than 40.0 us"));
    }
}
