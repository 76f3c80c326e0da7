//! Answers from recordings with known wakeups.

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use laggard_analyze::compare::RoundLooks;
use laggard_answer::check::{
    CheckLook, CheckQuestion, CheckReport, CheckedRow, TestVerdict, Undecided, check,
    read_requirements,
};
use laggard_answer::compare::{Question, TrialEnd, TrialLook, compare};
use laggard_answer::forecast::{
    ForecastLimit, Horizon, LevelReason, Outcome, UsageSource, forecasts,
};
use laggard_answer::qos::{Goal, assess, by_name};
use laggard_answer::show::intervals;
use laggard_answer::{Ask, Load, loads, open};
use laggard_made::{Made, line};
use laggard_model::{LoadRun, Nanos, Route, Service, Stage, UsagePattern};
use tempfile::TempDir;

pub(crate) const URGENT: Service = Service::Fifo(90);
const LESS_URGENT: Service = Service::Fifo(50);
pub(crate) const EARLY: [(Stage, u64); 2] = [(Stage::Irq, 9_000), (Stage::User, 7_000)];
pub(crate) const LATE: [(Stage, u64); 2] = [(Stage::Irq, 4_993_000), (Stage::User, 7_000)];

/// Recording of at most a minute. Each of its lines is 16 us late, and 5 ms in one of `of` wakeups.
pub(crate) struct Minute<'a> {
    name: &'a str,
    load: &'a str,
    lines: &'a [(Service, u64)],
    seconds: u64,
    usage: Option<UsagePattern>,
    /// Waiting time of its first line at the end.
    waited: Option<Nanos>,
    /// Kernel of its machine.
    kernel: &'a str,
}

impl Default for Minute<'_> {
    fn default() -> Self {
        Self {
            name: "a",
            load: "draw",
            lines: &[(URGENT, 1_000)],
            seconds: 60,
            usage: None,
            waited: None,
            kernel: "6.12.9",
        }
    }
}

impl Minute<'_> {
    pub(crate) fn record(&self, dir: &Path) -> PathBuf {
        let lines: Vec<_> = self
            .lines
            .iter()
            .map(|recorded| line(recorded.0, 0))
            .collect();
        let mut made = Made::new(&lines);
        for (number, (_, every)) in (0..).zip(self.lines) {
            for _ in 0..self.seconds * 1_000 / every {
                made = made
                    .served(number, every - 1, &EARLY)
                    .served(number, 1, &LATE);
            }
        }
        if let Some(waited) = self.waited {
            made = made.waiting(0, 1, waited);
        }
        made.manifest.host.kernel = self.kernel.into();
        made.manifest.load = Some(LoadRun {
            name: self.load.into(),
            usage: self.usage,
            ..LoadRun::default()
        });
        // No two recordings share it.
        made.manifest.plan.seed = self.name.bytes().map(u64::from).sum();
        let path = dir.join(self.name);
        made.record(&path);
        path
    }
}

pub(crate) fn read(recordings: &[PathBuf]) -> Vec<Load> {
    loads(&Ask::of(recordings)).unwrap()
}

fn checked(dir: &Path, recordings: &[PathBuf], look: Option<CheckLook>, text: &str) -> CheckReport {
    let file = dir.join("r.toml");
    std::fs::write(&file, text).unwrap();
    check(&CheckQuestion {
        recordings: recordings.to_vec(),
        baseline: Vec::new(),
        requirements: read_requirements(&file).unwrap(),
        look,
        threads: NonZeroUsize::MIN,
    })
    .unwrap()
}

/// Number of events beyond the limit, interval and limit of a row, with two digits.
fn figure(row: &CheckedRow) -> String {
    let Some(figure) = &row.figure else {
        return "none".into();
    };
    let high = figure.high.unwrap_or(f64::INFINITY);
    format!(
        "{} beyond, {:.1e} to {high:.1e}, limit {:e}",
        figure.seen, figure.low, figure.limit
    )
}

#[test]
fn requirements_are_compared_with_recordings_under_their_load() {
    let dir = TempDir::new().unwrap();
    let dir = dir.path();
    let once_a_second = Minute::default().record(dir);
    let once = Minute {
        name: "b",
        load: "fileio",
        lines: &[(URGENT, 60_000)],
        ..Minute::default()
    };
    let recordings = [once_a_second, once.record(dir)];
    let share = |share: &str, load: &str| {
        format!(
            "[[require]]\nservice = \"fifo:90\"\nat_most = \"1ms\"\nshare = {share}\nload = \"{load}\"\n"
        )
    };
    let text = share("1e-2", "draw")
        + &share("1e-4", "draw")
        + &share("1e-5", "fileio")
        + "[[require]]\nlevel = \"2ms\"\nper = \"hour\"\nservice = \"fifo:90\"\nload = \"draw\"\n\
           [[require]]\nlongest_softirq = \"100us\"\nload = \"draw\"\n";

    let report = checked(dir, &recordings, None, &text);

    use TestVerdict::{Fail, Unknown};
    let rows = report.rows.iter();
    let rows: Vec<(TestVerdict, Option<Undecided>, String)> = rows
        .map(|row| (row.verdict, row.why.clone(), figure(row)))
        .collect();
    assert_eq!(
        rows,
        [
            (
                Unknown,
                Some(Undecided::LongStalls),
                "60 beyond, 8.0e-4 to 5.2e-2, limit 1e-2".into()
            ),
            (Fail, None, "60 beyond, 8.0e-4 to 5.2e-2, limit 1e-4".into()),
            (
                Unknown,
                Some(Undecided::TooShort),
                "1 beyond, 2.4e-7 to 5.0e-2, limit 1e-5".into()
            ),
            (Fail, None, "60 beyond, 8.1e8 to 1.3e9, limit 3.6e12".into()),
            (Unknown, Some(Undecided::NotWatched), "none".into()),
        ]
    );
    let samples = report.rows[0]
        .figure
        .as_ref()
        .and_then(|figure| figure.samples);
    assert_eq!(samples, Some(60_000.0));
    let stall = |ns: Option<f64>| (ns.unwrap() / 1e6).round();
    assert_eq!(stall(report.rows[0].holds_to_ns), 164.0);
    assert_eq!(stall(report.rows[0].needed_ns), 367_266.0);
    assert_eq!(report.verdict, Fail);
    assert!(report.file.ends_with("r.toml"), "{}", report.file);
}

#[test]
fn report_names_the_system_of_its_recordings() {
    let dir = TempDir::new().unwrap();
    let is_windows = |kernel| {
        let minute = Minute {
            name: kernel,
            kernel,
            ..Minute::default()
        };
        let text = "[[require]]\nservice = \"fifo:90\"\nat_most = \"1ms\"\nshare = 1e-5\n";
        checked(dir.path(), &[minute.record(dir.path())], None, text).is_windows
    };

    assert!(!is_windows("6.12.9"));
    assert!(is_windows("Windows 10.0.19045"));
}

#[test]
fn verdict_on_an_application_uses_the_replay() {
    let dir = TempDir::new().unwrap();
    let dir = dir.path();
    let once_a_second = [Minute::default().record(dir)];
    let answer = |mttf: &str| {
        let text = format!("[[require]]\napp = \"jack-128\"\nmttf = \"{mttf}\"\n");
        let report = checked(dir, &once_a_second, None, &text);
        (report.rows[0].verdict, figure(&report.rows[0]))
    };

    let hour = answer("1h");
    let second = answer("1s");

    assert_eq!(
        hour,
        (
            TestVerdict::Fail,
            "0 beyond, 7.4e8 to 1.4e9, limit 3.6e12".into()
        )
    );
    assert_eq!(second.0, TestVerdict::Unknown, "{}", second.1);
}

#[test]
fn every_evaluation_has_a_share_of_the_permitted_error() {
    let dir = TempDir::new().unwrap();
    let recordings = [Minute::default().record(dir.path())];
    let text = "[[require]]\nservice = \"fifo:90\"\nat_most = \"1ms\"\nshare = 1e-2\n";
    let look = CheckLook {
        number: 2,
        of: 5,
        at_most: Nanos::from_secs(600),
        is_interrupted: false,
    };

    let report = checked(dir.path(), &recordings, Some(look), text);

    let until = report.until_decided.unwrap();
    assert_eq!((until.look, until.looks, until.ended), (2, 5, None));
    // Boole's inequality alone gives 99 %.
    assert!((until.confidence_of_each - 0.986).abs() < 1e-9);
    assert!((until.pass_confidence_of_each - 0.9864).abs() < 1e-9);
}

/// In four recordings per side, a service is late ten times as frequently on side B, and the
/// other with equal frequency.
#[test]
fn interim_evaluation_ends_a_trial_if_every_service_is_decided() {
    let dir = TempDir::new().unwrap();
    let side = |side: &str, lines: &[(Service, u64)]| -> Vec<PathBuf> {
        (1..=4)
            .map(|number| {
                let name = format!("{side}{number}");
                Minute {
                    name: &name,
                    lines,
                    seconds: 10,
                    ..Minute::default()
                }
                .record(dir.path())
            })
            .collect()
    };
    let before = side("before", &[(URGENT, 1_000), (LESS_URGENT, 5_000)]);
    let after = side("afterwards", &[(URGENT, 100), (LESS_URGENT, 5_000)]);
    let answer = |service| {
        compare(&Question {
            first: before.clone(),
            second: after.clone(),
            application: None,
            levels: vec![Nanos::from_ms(1)],
            service,
            equal: 1.25,
            changed: None,
            load_may_differ: false,
            threads: NonZeroUsize::MIN,
            confidence: 0.95,
            look: Some(TrialLook {
                looks: RoundLooks::planned(8, 4),
                number: 1,
                earlier: Vec::new(),
            }),
            seed: None,
        })
        .unwrap()
    };

    let both = answer(None);
    let urgent = answer(Some(URGENT));

    assert_eq!(both.undecided(), [(LESS_URGENT, Route::Direct)]);
    assert!(!both.is_decided());
    assert_eq!(both.looks.as_ref().unwrap().ended, None);
    assert!(urgent.is_decided());
    let looks = urgent.looks.as_ref().unwrap();
    assert_eq!(looks.ended, Some(TrialEnd::Decided));
    // Interim evaluations have a higher confidence than all together.
    assert!(urgent.confidence > 0.95 && urgent.confidence < 1.0);
    assert_eq!(urgent.confidence, looks.confidence_of_each[0]);
    assert_eq!((looks.after[0], looks.rounds), (4, 8));
}

#[test]
fn recordings_of_a_load_count_together_and_one_given_twice_is_refused() {
    let dir = TempDir::new().unwrap();
    let dir = dir.path();
    let first = Minute::default().record(dir);
    let second = Minute {
        name: "b",
        seconds: 30,
        ..Minute::default()
    }
    .record(dir);

    let loaded = read(&[first.clone(), second.clone()]);

    assert_eq!(loaded.len(), 1);
    assert_eq!(loaded[0].paths().len(), 2);
    let fitness = assess(&loaded[0], &by_name("jack-128").unwrap(), None).unwrap();
    let own = fitness.own().unwrap();
    assert_eq!((own.service, own.samples), (URGENT, 90_000));
    // 90 s with one late wakeup per second.
    assert_eq!(own.outlook.exposure_ns, 90e9);
    let (low, high) = (own.outlook.mttf_low_ns, own.outlook.mttf_high_ns);
    assert!(
        low < 1e9 && high.is_some_and(|high| high > 1e9),
        "{low}, {high:?}"
    );
    assert_eq!(own.hourly().unwrap().one_miss_per, Goal::Hour);
    assert_eq!(open(&[first.clone(), second]).unwrap().len(), 2);
    let twice = open(&[first.clone(), first]).unwrap_err();
    assert!(twice.to_string().contains("twice"), "{twice}");
}

#[test]
fn forecast_takes_the_usage_of_its_load_and_has_unfinished_waits() {
    let dir = TempDir::new().unwrap();
    let usage = UsagePattern {
        compression: 10.0,
        hours_per_day: 8.0,
        days_per_week: 5.0,
    };
    let recording = Minute {
        usage: Some(usage),
        waited: Some(Nanos::from_ms(2_500)),
        ..Minute::default()
    }
    .record(dir.path());

    let report = forecasts(&read(&[recording]), None, &Horizon::ALL).unwrap();

    let load = &report.loads[0];
    assert_eq!((load.usage, load.usage_from), (usage, UsageSource::Load));
    let waiting = ForecastLimit::Waiting { at_least_ns: 2.5e9 };
    assert!(load.limits.contains(&waiting), "{:?}", load.limits);
    // A day has 8 h of use. The load does the work of each hour in 6 min.
    let Outcome::Refused(refused) = &load.services[0].cells[1].outcome else {
        panic!("{:?}", load.services[0].cells[1].outcome);
    };
    let reasons: Vec<LevelReason> = refused.reasons.iter().map(|reason| reason.reason).collect();
    let [
        LevelReason::TooFar { factor, most: 30.0 },
        LevelReason::Periodic { share: 1.0 },
        LevelReason::Ties { share },
    ] = reasons[..]
    else {
        panic!("{reasons:?}");
    };
    assert!(
        (factor - 48.0).abs() < 0.05 && (share - 0.98).abs() < 0.01,
        "{reasons:?}"
    );
}

#[test]
fn a_bin_is_a_microsecond_to_a_second_wide() {
    let dir = TempDir::new().unwrap();
    let recording = &open(&[Minute::default().record(dir.path())]).unwrap()[0];
    let answer = |bin| intervals(recording, Nanos::from_ns(bin), NonZeroUsize::MIN);

    for bin in [1_000, 100_000, 1_000_000_000] {
        assert_eq!(answer(bin).map(|_| ()), Ok(()), "{bin}");
    }
    for bin in [0, 999, 1_000_000_001] {
        let message = answer(bin).unwrap_err().to_string();
        assert!(message.contains("--bins takes 1us to 1s"), "{message}");
    }
}
