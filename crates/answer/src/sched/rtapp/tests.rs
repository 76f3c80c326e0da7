//! Task sets of rt-app, as they are read.

use super::*;

fn question_of(text: &str) -> SchedQuestion {
    parse(text).unwrap_or_else(|error| panic!("{error} in {text}"))
}

/// The error of a file with this task.
fn error(task: &str) -> String {
    error_of_file(&format!("{{ \"tasks\" : {{\n\"a\" : {{ {task} }}\n}} }}"))
}

fn error_of_file(text: &str) -> String {
    match parse(text) {
        Err(error) => error.to_string(),
        Ok(question) => panic!("{:?} from {text}", question.tasks),
    }
}

/// Name, service, work, period and deadline of every task, in us.
fn tasks(text: &str) -> Vec<(String, String, u64, u64, u64)> {
    let us = |time: Nanos| time.ns() / 1_000;
    let tasks = question_of(text).tasks.into_iter().map(|task| {
        (
            task.name,
            task.service.to_string(),
            us(task.compute_ns),
            us(task.period_ns),
            us(task.deadline_ns),
        )
    });
    tasks.collect()
}

/// The only task, as `service work period deadline`.
fn task(text: &str) -> String {
    let parsed = tasks(&format!("{{ \"tasks\" : {{ \"a\" : {{ {text} }} }} }}"));
    assert_eq!(parsed.len(), 1, "{parsed:?}");
    let (_, service, work, period, deadline) = &parsed[0];
    format!("{service} {work} {period} {deadline}")
}

/// The share of the group is in no recording.
#[test]
fn taskgroup_of_a_task_or_phase_is_a_remark() {
    let timer = "\"run\" : 500, \"timer\" : { \"ref\" : \"unique\", \"period\" : 9000 }";
    for keys in [
        format!("\"taskgroup\" : \"/a\", {timer}"),
        format!("\"phases\" : {{ \"p\" : {{ \"taskgroup\" : \"/a\", {timer} }} }}"),
    ] {
        let file = format!("{{ \"tasks\" : {{ \"t\" : {{ {keys} }} }} }}");

        let remark = TaskRemark::Taskgroup {
            task: "t".into(),
            group: "/a".into(),
        };
        assert_eq!(question_of(&file).remarks, [remark]);
    }
    assert_eq!(
        question_of(&format!("{{ \"tasks\" : {{ \"t\" : {{ {timer} }} }} }}")).remarks,
        []
    );
}

#[test]
fn policies_and_priorities_have_the_defaults_of_rt_app() {
    let timer = "\"run\" : 500, \"timer\" : { \"ref\" : \"unique\", \"period\" : 9000 }";
    for (keys, service) in [
        ("", "other"),
        ("\"policy\" : \"SCHED_OTHER\",", "other"),
        ("\"priority\" : -19,", "nice:-19"),
        ("\"priority\" : 19,", "nice:19"),
        ("\"dl-runtime\" : 3000,", "slice:3ms"),
        ("\"dl-runtime\" : 300000,", "slice:100ms"),
        ("\"policy\" : \"SCHED_FIFO\",", "fifo:10"),
        ("\"policy\" : \"SCHED_FIFO\", \"priority\" : 50,", "fifo:50"),
        ("\"policy\" : \"SCHED_RR\", \"priority\" : 99,", "fifo:99"),
        ("\"taskgroup\" : \"/a\",", "other"),
    ] {
        assert_eq!(
            task(&format!("{keys} {timer}")),
            format!("{service} 500 9000 9000")
        );
    }
    let text = format!(
        "{{ \"global\" : {{ \"default_policy\" : \"SCHED_RR\" }}, \"tasks\" : {{ \"a\" : {{ {timer} }} }} }}"
    );
    assert_eq!(tasks(&text)[0].1, "fifo:10");
    for (keys, expected) in [
        (
            "\"policy\" : \"SCHED_IDLE\",",
            "the policy `SCHED_IDLE` is not supported",
        ),
        (
            "\"policy\" : \"SCHED_BATCH\",",
            "the policy `SCHED_BATCH` is not supported",
        ),
        (
            "\"policy\" : \"SCHED_NONE\",",
            "`SCHED_NONE` is not one that rt-app has",
        ),
        (
            "\"priority\" : 20,",
            "`priority` is 20; rt-app takes -20 to 19",
        ),
        (
            "\"policy\" : \"SCHED_FIFO\", \"priority\" : 0,",
            "takes 1 to 99",
        ),
        ("\"priority\" : \"5\",", "`priority` is not an integer"),
        (
            "\"priority\" : 1, \"priority\" : 2,",
            "`priority` occurs twice",
        ),
        (
            "\"priority\" : 1, \"dl-runtime\" : 3000,",
            "asks for a slice",
        ),
        ("\"util_min\" : 1025,", "`util_min` is 1025"),
        ("\"taskgroup\" : \"a\",", "does not start with `/`"),
        (
            "\"policy\" : \"SCHED_RR\", \"taskgroup\" : \"/a\",",
            "rt-app takes it with SCHED_OTHER",
        ),
    ] {
        let message = error(&format!("{keys} {timer}"));
        assert!(
            message.starts_with("line 2: task `a`: ") && message.contains(expected),
            "{message}"
        );
    }
}

#[test]
fn deadline_tasks_have_their_deadline_and_keep_their_budget() {
    let deadline = "\"policy\" : \"SCHED_DEADLINE\",";
    let work = "\"run\" : 500,";
    let policy = format!("{deadline} {work}");
    for (keys, expected) in [
        (
            "\"dl-runtime\" : 600, \"dl-period\" : 5000, \"dl-deadline\" : 2000, \"yield\" : \"\"",
            "deadline 500 5000 2000",
        ),
        (
            "\"dl-runtime\" : 600, \"dl-period\" : 5000, \"timer\" : { \"ref\" : \"unique\", \"period\" : 8000 }",
            "deadline 500 8000 5000",
        ),
        // The keys of earlier versions; `runtime` is work, too.
        (
            "\"runtime\" : 600, \"period\" : 5000, \"deadline\" : 2000, \"run\" : 0, \"yield\" : \"\"",
            "deadline 600 5000 2000",
        ),
        (
            "\"runtime\" : 600, \"period\" : 5000, \"phases\" : { \"p\" : { \"run\" : 500, \"yield\" } }",
            "deadline 500 5000 5000",
        ),
        (
            "\"dl-runtime\" : 700, \"period\" : 5000, \"yield\"",
            "deadline 500 700 700",
        ),
        (
            "\"runtime\" : 0, \"dl-runtime\" : 700, \"yield\"",
            "deadline 500 700 700",
        ),
    ] {
        let has_work = keys.contains("\"run\"");
        let task = task(&format!(
            "{deadline} {} {keys}",
            if has_work { "" } else { work }
        ));
        assert_eq!(task, expected, "for {keys}");
    }
    for (keys, expected) in [
        ("\"yield\" : \"\"", "these are 0, 0 and 0 us"),
        (
            "\"dl-runtime\" : 400, \"dl-period\" : 5000, \"yield\" : \"\"",
            "budget `dl-runtime` of 400 us",
        ),
        (
            "\"dl-runtime\" : 600, \"dl-period\" : 5000, \"timer\" : { \"ref\" : \"unique\", \"period\" : 800 }",
            "a timer of 800 us is shorter than `dl-period`",
        ),
        (
            "\"dl-runtime\" : 600, \"dl-period\" : 5000, \"yield\" : \"\", \"timer\" : { \"period\" : 8000 }",
            "in addition to its timer",
        ),
        (
            "\"dl-runtime\" : 600, \"dl-period\" : 5000",
            "no `timer` with a period",
        ),
    ] {
        let message = error(&format!("{policy} {keys}"));
        assert!(message.contains(expected), "{message}");
    }
}

#[test]
fn errors_of_deadline_tasks_name_the_keys_of_the_file() {
    let timer = "\"timer\" : { \"ref\" : \"unique\", \"period\" : 800 }";
    for (keys, expected) in [
        (
            "\"runtime\" : 600, \"period\" : 500, \"yield\"",
            "0 < `runtime` <= `dl-deadline` <= `period`; these are 600, 500 and 500 us",
        ),
        (
            "\"runtime\" : 600, \"period\" : 5000, \"deadline\" : 6000, \"yield\"",
            "0 < `runtime` <= `deadline` <= `period`;",
        ),
        (
            "\"dl-runtime\" : 600, \"dl-period\" : 500, \"yield\"",
            "0 < `dl-runtime` <= `dl-deadline` <= `dl-period`;",
        ),
        // `period` is ignored next to `dl-runtime`.
        (
            "\"dl-runtime\" : 600, \"period\" : 500, \"dl-deadline\" : 5, \"yield\"",
            "0 < `dl-runtime` <= `dl-deadline` <= `dl-period`;",
        ),
        (
            "\"runtime\" : 400, \"period\" : 5000, \"run\" : 100, \"yield\"",
            "a job of 500 us is longer than its budget `runtime` of 400 us",
        ),
        (
            &format!("\"runtime\" : 600, \"period\" : 5000, \"run\" : 0, {timer}"),
            "a timer of 800 us is shorter than `period` (5000 us)",
        ),
    ] {
        let message = error(&format!("\"policy\" : \"SCHED_DEADLINE\", {keys}"));
        assert!(message.contains(expected), "{message}, not {expected}");
    }
}

#[test]
fn work_is_between_two_waits_for_the_timer() {
    let unique = |period| format!("{{ \"ref\" : \"unique\", \"period\" : {period} }}");
    let timer = |period| format!("\"timer\" : {}", unique(period));
    for (text, expected) in [
        (
            format!(
                "\"run\" : 100, \"runtime1\" : 150, \"sleep\" : 0, {}",
                timer(1_000)
            ),
            "other 250 1000 1000",
        ),
        // As workgen reads a key that occurs again.
        (
            format!("\"run\" : 100, \"run\" : 150, {}", timer(1_000)),
            "other 250 1000 1000",
        ),
        // Two jobs in a loop, the second with the rest before the first.
        (
            format!(
                "\"run0\" : 10, \"timer0\" : {0}, \"run1\" : 30, \"timer1\" : {0}, \"run2\" : 25",
                unique(500)
            ),
            "other 35 500 500",
        ),
        (
            format!(
                "\"loop\" : 1, \"phases\" : {{ \"p\" : {{ \"loop\" : 9, \"run\" : 20, {} }} }}",
                timer(400)
            ),
            "other 20 400 400",
        ),
        // A phase without a timer adds its work to the next job, once per loop.
        (
            format!(
                "\"phases\" : {{ \"p\" : {{ \"loop\" : 3, \"run\" : 20 }}, \"q\" : {{ {} }} }}",
                timer(400)
            ),
            "other 60 400 400",
        ),
        (
            format!(
                "\"phases\" : {{ \"light\" : {{ \"run\" : 20, {0} }}, \"heavy\" : {{ \"run\" : 70, {0} }} }}",
                timer(400)
            ),
            "other 70 400 400",
        ),
        // What follows an endless phase never runs.
        (
            format!(
                "\"phases\" : {{ \"p\" : {{ \"loop\" : -1, \"run\" : 20, {} }}, \"q\" : {{ \"run\" : 900 }} }}",
                timer(400)
            ),
            "other 20 400 400",
        ),
        (
            format!(
                "\"lock\" : \"m\", \"run\" : 5, \"unlock\" : \"m\", \"resume\" : \"b\", \"sem_post\" : \"s\", \"signal\" : \"c\", \"broad\" : \"c\", \"yield\", {}",
                timer(40)
            ),
            "other 5 40 40",
        ),
    ] {
        assert_eq!(task(&text), expected, "for {text}");
    }
}

#[test]
fn tasks_that_no_timer_wakes_are_refused_with_the_event() {
    let timer = "\"timer\" : { \"ref\" : \"unique\", \"period\" : 400 }";
    for (text, expected) in [
        (
            "\"run\" : 5, \"sleep\" : 9",
            "`sleep` makes the time between two jobs depend",
        ),
        ("\"run\" : 5", "no `timer` with a period above 0"),
        (
            "\"run\" : 5, \"timer\" : { \"ref\" : \"unique\" }",
            "no `timer` with a period above 0",
        ),
        (
            "\"suspend\", \"run\" : 5",
            "`suspend` waits for another thread",
        ),
        (
            "\"wait1\" : { \"ref\" : \"q\", \"mutex\" : \"m\" }",
            "`wait1` waits for another thread",
        ),
        (
            "\"sync\" : { \"ref\" : \"q\", \"mutex\" : \"m\" }",
            "`sync` waits for another thread",
        ),
        ("\"barrier\" : \"b\"", "`barrier` waits for another thread"),
        (
            "\"sem_wait\" : \"s\"",
            "`sem_wait` waits for another thread",
        ),
        ("\"fork\" : \"b\"", "`fork` starts another thread"),
        ("\"mem\" : 5", "`mem` gives an amount of data"),
        ("\"iorun\" : 5", "`iorun` gives an amount of data"),
        (
            "\"memrun\" : { \"type\" : \"read\" }",
            "`memrun` gives an amount of data",
        ),
        (
            "\"exec\" : 5, \"period\" : 9",
            "`exec` is of the grammar that rt-app had",
        ),
        (
            "\"exec\" : 5, \"lock_order\" : [\"m\"]",
            "`lock_order` is of the grammar",
        ),
        ("\"priority\" : 5", "no event"),
        (timer, "no `run` or `runtime` above 0"),
        ("\"run\" : 5.5", "`run` is not an integer"),
        ("\"run\" : -5", "`run` is -5; rt-app takes 0 to 2147483647"),
        ("\"run\"", "`run` is not an integer"),
        ("\"run\" : 5, \"timer\" : 9", "`timer` is not an object"),
        (
            "\"phases\" : { \"p\" : { \"run\" : 1, \"timer\" : { \"ref\" : \"uniqueA\", \"period\" : 9 } }, \"q\" : { \"timer\" : { \"ref\" : \"uniqueB\", \"period\" : 9 } } }",
            "`timer` waits for the timer `uniqueB`",
        ),
        (
            "\"phases\" : { \"p\" : { \"run\" : 1, \"timer\" : { \"ref\" : \"u\", \"period\" : 9 } }, \"q\" : { \"run\" : 50, \"timer\" : { \"ref\" : \"u\", \"period\" : 99 } } }",
            "up to 50 us of work, and as little as 9 us between two",
        ),
        (
            "\"loop\" : 1, \"phases\" : { \"p\" : { \"run\" : 1, \"timer\" : { \"period\" : 9 } }, \"q\" : { \"run\" : 50 } }",
            "ends with 50 us of work after its last `timer`",
        ),
        (
            "\"phases\" : { \"p\" : { \"priority\" : 1, \"run\" : 1, \"timer\" : { \"period\" : 9 } }, \"q\" : { \"priority\" : 2, \"run\" : 1 } }",
            "`policy`, `priority` or the times of SCHED_DEADLINE differ between phases",
        ),
        (
            "\"phases\" : { \"p\" : { \"run\" : 1, \"timer\" : { \"period\" : 9 } }, \"q\" : { \"cpus\" : [1], \"run\" : 1 } }",
            "`cpus` differ between phases",
        ),
        ("\"phases\" : { }", "no event"),
        (
            "\"instance\" : 2000, \"run\" : 5, \"timer\" : { \"period\" : 9 }",
            "2000 threads are more than the 1000",
        ),
        (
            "\"cpus\" : 3, \"run\" : 5",
            "`cpus` is not a list of CPU numbers",
        ),
    ] {
        let message = error(text);
        assert!(message.starts_with("line 2: task `a`: "), "{message}");
        assert!(message.contains(expected), "{message}, not {expected}");
    }
}

#[test]
fn instances_are_tasks_and_threads_of_one_timer_are_remarked() {
    let question = question_of(
        r#"{ "tasks" : {
                "a" : { "instance" : 3, "run" : 200, "cpus" : [1], "timer" : { "ref" : "tick", "period" : 1000 } },
                "forked" : { "instance" : 0, "run" : 900, "sleep" : 0 },
                "rt" : { "policy" : "SCHED_RR", "run" : 2, "run" : 3, "timer" : { "ref" : "unique1", "period" : 9000 } },
                "nice" : { "priority" : -5, "run" : 5, "timer" : { "ref" : "tick", "period" : 9000 } },
            } }"#,
    );

    let tasks: Vec<_> = question
        .tasks
        .iter()
        .map(|task| {
            (
                task.name.as_str(),
                task.cpu,
                task.rank.level,
                task.rank.is_at_most,
            )
        })
        .collect();
    let cpu_1 = Some(Cpu(1));
    assert_eq!(
        tasks,
        [
            ("rt", None, Some(10), false),
            ("nice", None, Some(0), true),
            ("a-0", cpu_1, Some(0), true),
            ("a-1", cpu_1, Some(0), true),
            ("a-2", cpu_1, Some(0), true),
        ]
    );
    let [
        TaskRemark::Repeated { key, line: 4, .. },
        TaskRemark::SharedTimer { timer, threads: 4 },
    ] = &question.remarks[..]
    else {
        panic!("{:?}", question.remarks);
    };
    assert_eq!((key.as_str(), timer.as_str()), ("run", "tick"));
}

#[test]
fn files_whose_tasks_cannot_be_analysed_together_are_refused() {
    let task = |more: &str| {
        format!(
            "{{ {more} \"run\" : 5, \"timer\" : {{ \"ref\" : \"unique\", \"period\" : 900 }} }}"
        )
    };
    let two = |first: &str, second: &str| {
        format!(
            "{{ \"tasks\" : {{ \"a\" : {},\n \"b\" : {} }} }}",
            task(first),
            task(second)
        )
    };
    for (text, expected) in [
        (
            "{}".to_owned(),
            "line 1: no `tasks`; is this a file of rt-app?",
        ),
        (
            "[]".to_owned(),
            "line 1: no `tasks`; is this a file of rt-app?",
        ),
        (
            "{ \"tasks\" : 5 }".to_owned(),
            "line 1: `tasks` is not an object",
        ),
        (
            "{ \"tasks\" : { \"a\" : 5 } }".to_owned(),
            "line 1: task `a`: `a` is not an object",
        ),
        (
            "{ \"global\" : { \"default_policy\" : \"RR\" }, \"tasks\" : {} }".to_owned(),
            "line 1: the policy `RR` is not one that rt-app has",
        ),
        (
            format!(
                "{{ \"tasks\" : {{ \"a\" : {0},\n \"a\" : {0} }} }}",
                task("")
            ),
            "line 2: task `a`: `a` occurs twice",
        ),
        (
            two("\"lock\" : \"m\",", "\"lock\" : \"m\","),
            "line 1: task `a`: `lock` takes the mutex `m`, which `task b` takes, too",
        ),
        (
            two("\"lock\" : \"m\", \"instance\" : 2,", ""),
            "line 1: task `a`: `lock` takes the mutex `m`, which `another instance` takes, too",
        ),
        (
            two("\"cpus\" : [0],", "\"cpus\" : [1, 2],"),
            "line 2: task `b`: no CPU is in its `cpus` and in those of all tasks before it",
        ),
        (
            format!(
                "{{ \"tasks\" : {{ \"a\" : {},\n \"b\" : {},\n \"c\" : {},\n \"d\" : {} }} }}",
                task("\"cpus\" : [0, 1],"),
                task("\"cpus\" : [1, 2],"),
                task(""),
                task("\"cpus\" : [0, 2],")
            ),
            "line 4: task `d`: no CPU is in its `cpus` and in those of all tasks before it",
        ),
    ] {
        let message = error_of_file(&text);
        assert!(message.starts_with(expected), "{message}, not {expected}");
    }
    assert_eq!(
        tasks(&two("\"lock\" : \"m\",", "\"lock\" : \"n\",")).len(),
        2
    );
}
