//! Task sets compared with recordings of known wakeups.

use std::path::Path;

use laggard_answer::sched::{
    LargestPart, SchedQuestion, SchedReport, TaskAsked, TaskDoubt, TaskRank, TaskVerdict, Verdict,
    analysed, read_tasks,
};
use laggard_answer::{AnswerError, Load};
use laggard_made::{Made, line};
use laggard_model::{CpuList, Nanos};
use tempfile::TempDir;

use crate::recorded::{EARLY, LATE, Minute, URGENT, read};

/// Analyses the tasks of a file, `tasks.toml` or in the format of rt-app `tasks.json`.
fn sched(load: &Load, dir: &TempDir, name: &str, text: &str) -> Result<SchedReport, AnswerError> {
    let file = dir.path().join(name);
    std::fs::write(&file, text).unwrap();
    analysed(load, &read_tasks(&file).unwrap())
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
        let text = format!(r#"{{ "tasks" : {{ {}, {} }} }}"#, task(0), task(1));
        let report = sched(&loaded[0], &dir, "tasks.json", &text).unwrap();
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
    let verdicts = |tasks: &[String]| {
        let text = format!("permitted = \"5s\"\n{}", tasks.concat());
        let report = sched(&loaded[0], &dir, "tasks.toml", &text).unwrap();
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
    let rt_app = |cpus: &str| {
        let text = format!(
            r#"{{ "tasks" : {{ "a" : {{ "cpus" : {cpus}, "policy" : "SCHED_FIFO", "priority" : 95,
            "run" : 1000, "timer" : {{ "ref" : "tick", "period" : 40000 }} }} }} }}"#
        );
        sched(&loaded[0], &dir, "tasks.json", &text)
    };

    for (error, cpus) in [
        (
            sched(&loaded[0], &dir, "tasks.toml", &task_on("a", "cpu = 2")),
            "2",
        ),
        (rt_app("[ 3 ]"), "3"),
        (rt_app("[ 2, 3 ]"), "2-3"),
    ] {
        let error = error.unwrap_err().to_string();
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
    let task =
        r#""cpus" : [0], "policy" : "SCHED_FIFO", "priority" : 95, "instance" : 2, "run" : 22000"#;
    let limits = |timer: &str| {
        let text = format!(
            r#"{{ "tasks" : {{ "a" : {{ {task}, "timer" : {{ "ref" : "{timer}", "period" : 40000 }} }} }} }}"#
        );
        let report = sched(&loaded[0], &dir, "tasks.json", &text).unwrap();
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
    let task = |name: &str, instances: usize, priority: u8, run: u32| {
        format!(
            r#""{name}" : {{ "cpus" : [0], "policy" : "SCHED_FIFO", "priority" : {priority}, "instance" : {instances},
            "run" : {run}, "timer" : {{ "ref" : "unique", "period" : 1000000 }} }},"#
        )
    };
    let analysed = |tasks: String| {
        let text = format!(r#"{{ "tasks" : {{ {tasks} }} }}"#);
        sched(&loaded[0], &dir, "tasks.json", &text).unwrap()
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
