//! For all recordings, answers do not panic and print only valid numbers, the terminal shows the
//! verdict of the JSON, and screens fit.

use laggard_analyze::distribution::{Fold, Split};
use laggard_analyze::exceedance::Collector;
use laggard_answer::forecast::{FORECAST_SCHEMA, ForecastReport, Horizon, UsageSource, predict};
use laggard_answer::overview::{Fit, Overview};
use laggard_answer::qos::{
    Application, Fitness, MissPolicy, QOS_SCHEMA, QosError, QosReport, Resolution, assess,
    assess_profiles, other_profiles, profiles,
};
use laggard_answer::sched::{SchedQuestion, TaskAsked, TaskRank, Verdict, analyse};
use laggard_answer::show::Waiting;
use laggard_answer::{KnownCauses, Load, Run, Trust};
use laggard_made::overview;
use laggard_model::{
    Activation, Batch, Cpu, CpuList, Line, LineId, LoadLabel, Nanos, ProbePlan, Route, STAGES,
    Service, Stage, State, UsagePattern,
};
use laggard_view::doc::{self, Detail, terminal};
use laggard_view::overview::{document, documents};
use laggard_view::text::Look;
use laggard_view::{forecast, qos, sched};
use proptest::prelude::*;
use unicode_width::UnicodeWidthStr as _;

const START: Nanos = Nanos::from_secs(1_000);
const SERVICES: [(Service, Route); 4] = [
    (Service::Softirq, Route::Direct),
    (Service::Fifo(90), Route::Direct),
    (Service::Fifo(90), Route::Deferred),
    (Service::Other, Route::Direct),
];

/// Outcome of an expiry of a line: its latency, ns, and true if it was missed.
type Row = (u64, bool);

/// Ordinary latencies and late ones of every size.
fn rows() -> impl Strategy<Value = Vec<Row>> {
    let late = prop_oneof![
        0..40_000_u64,
        0..40_000_u64,
        0..5_000_000_u64,
        0..2_000_000_000_u64,
    ];
    prop::collection::vec((late, prop::bool::weighted(0.2)), 0..120)
}

/// A recording of lines whose activations are 1 ms apart; the last one of a line
/// may still wait at its end.
fn seen(lines: &[(Vec<Row>, bool)]) -> Load {
    let named: Vec<Line> = (0..)
        .zip(lines)
        .map(|(number, _)| {
            let (service, route) = SERVICES[number as usize % SERVICES.len()];
            Line::new(Cpu(number / 2), service, route)
        })
        .collect();
    let mut batch = Batch::default();
    let mut waiting = Vec::new();
    for (number, (line, (rows, waits))) in (0..).zip(named.iter().zip(lines)) {
        for (seq, &(late, missed)) in (0..).zip(rows) {
            let is_last = seq + 1 == rows.len() as u64;
            let mut activation = Activation {
                line: LineId(number),
                seq,
                expiry: START + Nanos::from_ms(seq),
                missed: missed || (is_last && *waits),
                censored: is_last && *waits,
                steps: [None; STAGES.len()],
            };
            activation.steps[Stage::User.index()] = Some(Nanos::from_ns(late));
            batch.push(&activation);
            if activation.censored {
                waiting.push(Waiting {
                    service: line.service,
                    route: line.route,
                    cpu: line.cpu,
                    served: rows.iter().filter(|row| !row.1).count() as u64,
                    still_waiting: 1,
                    at_least_ns: Nanos::from_ns(late),
                });
            }
        }
    }
    let mut fold = Fold::new(named.len(), Split::Whole);
    fold.add(&batch);
    let mut late = Collector::new(named.len(), Nanos::from_ms(2));
    late.add(&batch);
    let longest = lines.iter().map(|(rows, _)| rows.len()).max();
    Load::new(
        LoadLabel::none(),
        vec![Run {
            dir: "r.laggard".into(),
            path: "r.laggard".into(),
            load: None,
            start: START,
            duration: Nanos::from_ms(longest.unwrap_or_default() as u64 + 1),
            plan: ProbePlan::default(),
            groups: fold.groups(&named, false),
            streams: late.streams(&named),
            own_cpus: 0.02,
            waiting,
            doubts: Vec::new(),
            trust: Trust::Good,
        }],
    )
}

fn load() -> impl Strategy<Value = Load> {
    prop::collection::vec((rows(), prop::bool::weighted(0.1)), 1..5)
        .prop_filter("a recording of nothing is refused", |lines| {
            lines.iter().any(|(rows, _)| !rows.is_empty())
        })
        .prop_map(|lines| seen(&lines))
}

/// Texts contain no invalid number, no negative time except in differences, no share of zero, no
/// missing name, and no time in a unit that is too small.
fn assert_clean(text: &str, has_differences: bool) {
    assert!(!text.trim().is_empty());
    assert!(
        text.chars()
            .all(|symbol| symbol == '\n' || !symbol.is_control()),
        "{text:?}"
    );
    for part in ["NaN", "0 of 0", "``", "()", "( ", " :\n", "of : "] {
        assert!(!text.contains(part), "`{part}` in\n{text}");
    }
    let words: Vec<&str> = text.split_whitespace().collect();
    let bare = |word: &str| {
        word.trim_matches(['[', ']', '(', ')', ',', ';', ':'])
            .to_owned()
    };
    for (index, word) in words.iter().enumerate() {
        let word = bare(word);
        let is_number = |text: &str| text.starts_with(|first: char| first.is_ascii_digit());
        assert!(
            !["inf", "-inf", "infinity"].contains(&word.as_str()),
            "{text}"
        );
        let below = word.strip_prefix('-').is_some_and(is_number);
        assert!(!below || has_differences, "{word} in\n{text}");
        let unit = words.get(index + 1).map(|next| bare(next));
        if let (Ok(value), Some("ns" | "us" | "ms")) = (word.parse::<f64>(), unit.as_deref()) {
            assert!(value < 1_000.0, "{value} {unit:?} in\n{text}");
        }
    }
}

/// Terminals of any width.
fn look() -> impl Strategy<Value = Look> {
    (40..130_usize).prop_map(|columns| Look {
        columns,
        ..Look::default()
    })
}

fn assert_fits(text: &str, look: Look) {
    for line in text.lines() {
        assert!(line.width() <= look.columns, "{}: {line}", look.columns);
    }
}

fn application(buffers: u32, buffer: u64, part: u64) -> Application {
    let compute = buffer * part / 100;
    let tolerance = buffer * u64::from(buffers - 1);
    Application {
        name: "a".into(),
        buffers,
        buffer_ns: Nanos::from_ns(buffer),
        compute_ns: Nanos::from_ns(compute),
        tolerance_ns: Nanos::from_ns(tolerance),
        slack_ns: Nanos::from_ns(tolerance - compute),
        source: "made".into(),
        service: None,
        policy: MissPolicy::Late,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn buffers_are_answered_in_words_and_numbers(
        load in load(),
        (buffers, buffer, part) in (2..20_u32, 1_000_000..1_000_000_000_u64, 1..100_u64),
        look in look(),
    ) {
        let application = application(buffers, buffer, part);
        let assessed = match assess(&load, &application, None) {
            Err(QosError::TooShort { .. }) => return Ok(()),
            assessed => assessed.unwrap(),
        };
        for service in &assessed.services {
            for figures in service.curve.iter().map(|point| &point.figures).chain([&service.outlook]) {
                prop_assert!(figures.mttf_low_ns > 0.0, "{figures:?}");
                prop_assert!(figures.mttf_ns.is_none_or(|mttf| mttf.is_finite() && mttf > 0.0));
                prop_assert!(figures.mttf_high_ns.is_none_or(|high| high >= figures.mttf_low_ns));
                prop_assert!(figures.late_per_hour.is_finite() && figures.late_per_hour >= 0.0);
            }
            prop_assert!(service.curve.is_sorted_by_key(|point| point.total_ns));
        }
        let report = QosReport { schema: QOS_SCHEMA, application, loads: vec![assessed] };
        prop_assert!(!serde_json::to_string(&report).unwrap().contains("NaN"));
        let outlooks = assess_profiles(&load, &profiles().unwrap(), &other_profiles().unwrap(), None);
        for document in [
            qos::document(&report, Detail::Short),
            qos::document(&report, Detail::Full),
            qos::profiles(&Vec::from_iter(outlooks)),
        ] {
            let text = doc::terminal(&document, look).plain();
            assert_clean(&text, false);
            assert_fits(&text, look);
        }
    }

    #[test]
    fn a_task_set_is_answered_with_the_verdict_of_the_json(
        load in load(),
        (buffers, period, part) in (2..20_u32, 1_000_000..1_000_000_000_u64, 1..100_u64),
        look in look(),
    ) {
        let (service, _) = SERVICES[1];
        let tasks = ["t", "u"].map(|name| TaskAsked {
            name: name.into(),
            compute_ns: Nanos::from_ns((period * part / 200).max(1)),
            period_ns: Nanos::from_ns(period),
            deadline_ns: Nanos::from_ns(period),
            blocking_ns: Nanos::ZERO,
            service,
            cpu: None,
            buffers: (name == "t").then_some(buffers),
            rank: TaskRank::default(),
        });
        let question = SchedQuestion {
            tasks: tasks.into(),
            overhead: Nanos::ZERO,
            permitted: Nanos::from_secs(3_600),
            cpus: CpuList::default(),
            remarks: Vec::new(),
        };
        if !load.lines().iter().any(|line| line.0 == service) {
            return Ok(());
        }
        let schedule = analyse(&load, &question).unwrap();
        let text = |detail, look| doc::terminal(&sched::document(&schedule, detail), look).plain();
        for detail in [Detail::Short, Detail::Full] {
            let text = text(detail, look);
            assert_clean(&text, true);
            assert_fits(&text, look);
        }
        let text = text(Detail::Full, Look { columns: 200, ..look });
        for task in &schedule.tasks {
            let name = format!("{} ", task.task.name);
            let row = text.lines().rfind(|line| line.starts_with(&name));
            let printed = row.and_then(|row| row.split_whitespace().last());
            let wanted = match task.verdict {
                Verdict::Meets => "meets",
                Verdict::Misses => "MISSES",
                Verdict::Unknown => "UNKNOWN",
            };
            prop_assert_eq!(printed, Some(wanted), "{}", text);
            let is_unknown = task.verdict == Verdict::Unknown;
            prop_assert_eq!(is_unknown, !task.doubts.is_empty(), "{}", text);
        }
    }

    #[test]
    fn a_forecast_is_answered_in_words_and_numbers(
        load in load(),
        (compression, hours) in (0.1..1_000.0_f64, 0.1..24.0_f64),
        look in look(),
    ) {
        let usage = UsagePattern { compression, hours_per_day: hours, days_per_week: 5.0 };
        let known_causes = KnownCauses::default();
        let forecast_of_load = predict(&load, &known_causes, (usage, UsageSource::Given), &Horizon::ALL).unwrap();
        let report = ForecastReport { schema: FORECAST_SCHEMA, loads: vec![forecast_of_load] };
        prop_assert!(!serde_json::to_string(&report).unwrap().contains("NaN"));
        for detail in [Detail::Short, Detail::Full] {
            let text = doc::terminal(&forecast::document(&report, detail), look).plain();
            assert_clean(&text, false);
            assert_fits(&text, look);
        }
    }
}

/// Names of letters that are wide, or control a terminal.
fn name() -> impl Strategy<Value = String> {
    let letter = prop_oneof![
        any::<char>(),
        prop::sample::select(vec!['\u{1b}', '\n', 'w', ' ', '音', '-'])
    ];
    let letters = prop::collection::vec(letter, 0..200);
    letters.prop_map(|letters| letters.into_iter().collect())
}

fn verdict() -> impl Strategy<Value = Fitness> {
    prop::sample::select(vec![Fitness::Fit, Fitness::NotFit, Fitness::Unknown])
}

prop_compose! {
    /// An answer with names and numbers of any kind.
    fn overviews()(
        names in prop::collection::vec(name(), 8),
        verdicts in prop::collection::vec((verdict(), any::<bool>()), 0..20),
        times in prop::collection::vec(0_u64..u64::MAX / 2_000, 8),
        chance in 0.0..=1.0_f64,
        few in 0..4_usize,
        is_spoilt in any::<bool>(),
        is_running in any::<bool>(),
    ) -> Overview {
        let mut overview = if is_spoilt { overview::spoilt() } else { overview::made() };
        overview.path.clone_from(&names[0]);
        overview.conditions.load = LoadLabel::named(&names[1]);
        overview.conditions.kernel.clone_from(&names[2]);
        overview.conditions.hypervisor = Some(names[3].clone());
        if is_running {
            overview.conditions.state = State::Running;
        }
        for (index, row) in overview.services.iter_mut().enumerate() {
            row.median.ns = Some(Nanos::from_ns(times[index]));
            row.p999.is_at_least = true;
            row.max_ns = Some(Nanos::from_ns(times[index + 1]));
            row.samples = times[index];
        }
        let first = overview.services.clone();
        for _ in 0..few {
            overview.services.extend(first.clone());
        }
        overview.fits = verdicts
            .iter()
            .map(|(verdict, is_coarse)| Fit {
                verdict: *verdict,
                resolution: if *is_coarse {
                    Resolution::TailOnly { sample_interval_ns: times[1] as f64 }
                } else {
                    Resolution::Full
                },
                application: Application { name: names[5].clone(), ..overview::application("jack-128") },
                ..overview::fit(
                    "jack-128",
                    *verdict,
                    overview::figures(chance * 9.0, [chance, chance / 2.0, 1e6]),
                )
            })
            .collect();
        let late = overview.late.as_mut().unwrap();
        late.causes[0].cause.who = Some(names[6].clone());
        late.causes[1].cause.who = Some(names[6].clone());
        late.causes[1].wakeups = u64::MAX;
        late.causes[2].largest_ns = Nanos::from_ns(times[7]);
        overview.first.as_mut().unwrap().cause.cause.who = Some(names[7].clone());
        overview
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn first_screen_prints_no_control_character(
        answer in overviews(),
        columns in 40..160_usize,
    ) {
        let look = Look { columns, ..Look::default() };
        for document in [
            document(&answer, Detail::Short),
            document(&answer, Detail::Full),
            documents(&[answer.clone(), overview::made()]),
        ] {
            for line in terminal(&document, look).plain().lines() {
                prop_assert!(!line.chars().any(char::is_control), "{line:?}");
            }
        }
    }
}
