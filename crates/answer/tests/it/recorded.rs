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
use laggard_answer::sched::{
    LargestPart, SchedQuestion, TaskAsked, TaskDoubt, TaskRank, TaskVerdict, Verdict, analysed,
    read_tasks,
};
use laggard_answer::show::intervals;
use laggard_answer::{Ask, Load, loads, open};
use laggard_made::{Made, line};
use laggard_model::{CpuList, LoadRun, Nanos, Route, Service, Stage, UsagePattern};
use tempfile::TempDir;

const URGENT: Service = Service::Fifo(90);
const LESS_URGENT: Service = Service::Fifo(50);
const EARLY: [(Stage, u64); 2] = [(Stage::Irq, 9_000), (Stage::User, 7_000)];
const LATE: [(Stage, u64); 2] = [(Stage::Irq, 4_993_000), (Stage::User, 7_000)];

/// Recording of at most a minute. Each of its lines is 16 us late, and 5 ms in one of `of` wakeups.
struct Minute<'a> {
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
    fn record(&self, dir: &Path) -> PathBuf {
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
            command: Vec::new(),
            usage: self.usage,
            ended: None,
            begun_ns: None,
            throughput: None,
        });
        // No two recordings share it.
        made.manifest.plan.seed = self.name.bytes().map(u64::from).sum();
        let path = dir.join(self.name);
        made.record(&path);
        path
    }
}

fn read(recordings: &[PathBuf]) -> Vec<Load> {
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
fn the_response_with_jitter_has_the_largest_interrupt_latency_in_it() {
    let dir = TempDir::new().unwrap();
    let loaded = read(&[Minute::default().record(dir.path())]);
    let task = |name: &str, compute_ms, period_ms| TaskAsked {
        name: name.into(),
        compute_ns: Nanos::from_ms(compute_ms),
        period_ns: Nanos::from_ms(period_ms),
        deadline_ns: Nanos::from_ms(period_ms),
        blocking_ns: Nanos::ZERO,
        service: URGENT,
        cpu: None,
        buffers: None,
        rank: TaskRank::default(),
    };
    let question = SchedQuestion {
        tasks: vec![task("short", 2, 10), task("long", 7, 40)],
        overhead: Nanos::ZERO,
        permitted: Nanos::from_secs(3_600),
        cpus: CpuList::default(),
        remarks: Vec::new(),
    };

    let report = analysed(&loaded[0], &question).unwrap();

    let doubts = report
        .tasks
        .iter()
        .map(|task| (task.ideal_ns, task.jitter_ns));
    // The shorter task is due twice in 9 ms of the longer one. If it is 5 ms later than it should
    // be, a timer is due twice in 11 ms, and the longer one also starts 5 ms late.
    assert_eq!(
        doubts.collect::<Vec<_>>(),
        [(Some(2e6), Some(7e6)), (Some(9e6), Some(16e6))]
    );
}

/// Work of 44 ms in 40 ms is too much for a single CPU, and not for two.
#[test]
fn tasks_that_may_run_on_several_cpus_are_not_shown_to_miss() {
    let dir = TempDir::new().unwrap();
    let loaded = read(&[Minute::default().record(dir.path())]);
    let verdicts = |cpus: [&str; 2], priorities: [u8; 2]| {
        let task = |index: usize| {
            format!(
                r#""t{index}" : {{ {} "policy" : "SCHED_FIFO", "priority" : {}, "run" : 22000,
                "timer" : {{ "ref" : "unique", "period" : 40000 }} }}"#,
                cpus[index], priorities[index]
            )
        };
        let file = dir.path().join("tasks.json");
        let text = format!(r#"{{ "tasks" : {{ {}, {} }} }}"#, task(0), task(1));
        std::fs::write(&file, text).unwrap();
        let report = analysed(&loaded[0], &read_tasks(&file).unwrap()).unwrap();
        let tasks = report.tasks.into_iter();
        tasks
            .map(|task| {
                let largest = task.limit.largest;
                (task.verdict, task.doubts, report.set.edf_ideal, largest)
            })
            .collect::<Vec<_>>()
    };
    let cpu_line = r#""cpus" : [0],"#;
    let several = r#""cpus" : [0, 1],"#;

    let pinned = verdicts([cpu_line, cpu_line], [95, 92]);
    assert_eq!((pinned[1].0, pinned[1].2), (Verdict::Misses, Some(false)));
    assert_eq!(pinned[1].3, LargestPart::Overload);
    for cpus in [
        [several, several],
        [cpu_line, several],
        [several, cpu_line],
        ["", ""],
    ] {
        for priorities in [[95, 92], [95, 95]] {
            let result = verdicts(cpus, priorities);
            let (verdict, doubts, edf, largest) = &result[1];
            assert_eq!((*verdict, *edf), (Verdict::Unknown, None), "{cpus:?}");
            let is_told = |doubt: &TaskDoubt| matches!(doubt, TaskDoubt::SeveralCpus { .. });
            assert!(doubts.iter().any(is_told), "{cpus:?}: {doubts:?}");
            assert_eq!(*largest, LargestPart::Work { time_ns: 22e6 }, "{cpus:?}");
        }
    }
}

/// Records CPU 0, on which a wakeup in 1,000 is 5 ms late, and CPU 1, on which none is.
fn two_cpus(dir: &Path) -> Vec<Load> {
    let mut made = Made::new(&[line(URGENT, 0), line(URGENT, 1)]);
    for _ in 0..60 {
        made = made
            .served(0, 999, &EARLY)
            .served(0, 1, &LATE)
            .served(1, 1_000, &EARLY);
    }
    let path = dir.join("two");
    made.record(&path);
    read(&[path])
}

/// Task of 1 ms in 10 ms, with a deadline that only a wakeup 5 ms late misses.
fn task_on(name: &str, cpu: &str) -> String {
    format!(
        "[[task]]\nname = \"{name}\"\n{cpu}\nperiod = \"10ms\"\ncompute = \"1ms\"\n\
         deadline = \"4500us\"\n"
    )
}

#[test]
fn task_on_one_cpu_has_the_stalls_and_the_other_tasks_of_that_cpu() {
    let dir = TempDir::new().unwrap();
    let loaded = two_cpus(dir.path());
    let file = dir.path().join("tasks.toml");
    let verdicts = |tasks: &[String]| {
        std::fs::write(&file, format!("permitted = \"5s\"\n{}", tasks.concat())).unwrap();
        let report = analysed(&loaded[0], &read_tasks(&file).unwrap()).unwrap();
        let tasks = report.tasks.into_iter();
        tasks
            .map(|task| (task.verdict, task.ideal_ns))
            .collect::<Vec<_>>()
    };

    let a = task_on("a", "cpu = 0");
    let b = task_on("b", "cpu = 1");
    let alone = Some(1e6);
    assert_eq!(
        verdicts(std::slice::from_ref(&a)),
        [(Verdict::Misses, alone)]
    );
    assert_eq!(
        verdicts(std::slice::from_ref(&b)),
        [(Verdict::Meets, alone)]
    );
    assert_eq!(
        verdicts(&[a, b]),
        [(Verdict::Misses, alone), (Verdict::Meets, alone)]
    );
    assert_eq!(verdicts(&[task_on("c", "")]), [(Verdict::Misses, alone)]);
}

#[test]
fn task_on_a_cpu_that_was_not_measured_is_refused() {
    let dir = TempDir::new().unwrap();
    let loaded = two_cpus(dir.path());
    let refused = |name: &str, text: &str| {
        let file = dir.path().join(name);
        std::fs::write(&file, text).unwrap();
        analysed(&loaded[0], &read_tasks(&file).unwrap()).map_err(|err| err.to_string())
    };
    let rt_app = |cpus: &str| {
        let text = format!(
            r#"{{ "tasks" : {{ "a" : {{ "cpus" : {cpus}, "policy" : "SCHED_FIFO", "priority" : 95,
            "run" : 1000, "timer" : {{ "ref" : "tick", "period" : 40000 }} }} }} }}"#
        );
        refused("tasks.json", &text)
    };

    for (error, cpus) in [
        (refused("tasks.toml", &task_on("a", "cpu = 2")), "2"),
        (rt_app("[ 3 ]"), "3"),
        (rt_app("[ 2, 3 ]"), "2-3"),
    ] {
        let error = error.unwrap_err();
        let expected = format!("task `a` runs on CPU {cpus}, and ");
        assert!(error.starts_with(&expected), "{error}");
        assert!(
            error.contains("measured `fifo:90` on CPU 0-1 only"),
            "{error}"
        );
    }
    assert!(rt_app("[ 1, 2 ]").is_ok());
}

/// Threads of one timer do at most the work that is analysed.
#[test]
fn work_that_is_an_upper_limit_is_not_an_overload() {
    let dir = TempDir::new().unwrap();
    let loaded = read(&[Minute::default().record(dir.path())]);
    let file = dir.path().join("tasks.json");
    let task =
        r#""cpus" : [0], "policy" : "SCHED_FIFO", "priority" : 95, "instance" : 2, "run" : 22000"#;
    let limits = |timer: &str| {
        let text = format!(
            r#"{{ "tasks" : {{ "a" : {{ {task}, "timer" : {{ "ref" : "{timer}", "period" : 40000 }} }} }} }}"#
        );
        std::fs::write(&file, text).unwrap();
        let report = analysed(&loaded[0], &read_tasks(&file).unwrap()).unwrap();
        let tasks = report.tasks.into_iter();
        tasks.map(|task| task.limit.largest).collect::<Vec<_>>()
    };

    assert_eq!(limits("unique"), [LargestPart::Overload; 2]);
    assert_eq!(limits("tick"), [LargestPart::Work { time_ns: 22e6 }; 2]);
}

/// Instances are analysed once, as one task that has their work.
#[test]
fn instances_of_a_task_have_its_verdict() {
    let dir = TempDir::new().unwrap();
    let loaded = read(&[Minute::default().record(dir.path())]);
    let file = dir.path().join("tasks.json");
    let task = |name: &str, instances: usize, priority: u8, run: u32| {
        format!(
            r#""{name}" : {{ "cpus" : [0], "policy" : "SCHED_FIFO", "priority" : {priority}, "instance" : {instances},
            "run" : {run}, "timer" : {{ "ref" : "unique", "period" : 1000000 }} }},"#
        )
    };
    let analysed = |tasks: String| {
        std::fs::write(&file, format!(r#"{{ "tasks" : {{ {tasks} }} }}"#)).unwrap();
        analysed(&loaded[0], &read_tasks(&file).unwrap()).unwrap()
    };

    let report = analysed(task("a", 999, 95, 500) + &task("b", 1, 92, 300));
    let single = analysed(task("a", 1, 95, 499_500) + &task("b", 1, 92, 300));

    assert_eq!(report.tasks.len(), 1_000);
    assert_eq!(report.tasks[998].task.name, "a-998");
    assert!((report.set.utilization - 0.4998).abs() < 1e-9);
    let (first, last) = (&report.tasks[0], &report.tasks[998]);
    assert_eq!(
        (first.least_ns, first.most_ns),
        (last.least_ns, last.most_ns)
    );
    assert_eq!(first.ideal_ns, Some(499_500_000.0));
    let responses = |task: &TaskVerdict| [task.ideal_ns, task.least_ns, task.most_ns];
    for (response, expected) in responses(&report.tasks[999])
        .into_iter()
        .zip(responses(&single.tasks[1]))
    {
        let (response, expected) = (response.unwrap(), expected.unwrap());
        assert!(
            (response - expected).abs() < 1.0,
            "{response}, not {expected}"
        );
    }
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
