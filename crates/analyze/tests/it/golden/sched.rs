//! Schedulability.

use laggard_analyze::exceedance::Blackout;
use laggard_analyze::sched::{
    LatencyBudget, Supply, Task, amortized_test, blackout_envelope, edf_demand, exact_test,
    hyperbolic_product, is_schedulable, response_time, response_times, utilization,
    utilization_bound,
};

use super::vector::{Vector, every_case};

#[test]
fn schedulability_agrees_with_the_reference() {
    every_case(
        include_str!("sched.json"),
        25,
        |function, case| match function {
            "rta" => responses(case),
            "rta_arbitrary" => {
                let tasks = tasks(case, "tasks_high_to_low");
                let response =
                    response_time(&tasks, case.index("task"), Supply::default()).unwrap();
                case.expect_within("R", response.time, case.number("atol"));
                assert_eq!(response.job, case.count("q_worst_zero_based"));
            }
            "edf_demand" => demand(case),
            "ll_bound" => {
                let bound = utilization_bound(case.index("n"));
                case.expect("value", bound, case.rtol());
            }
            "pseudo_worst_case" => buffered(case),
            "blackout_envelope" => {
                let pairs = case.pairs("blackouts").into_iter();
                let blackouts: Vec<Blackout> = pairs
                    .map(|(start, end)| Blackout::new(start, end))
                    .collect();
                let envelope = blackout_envelope(&blackouts, &case.numbers("deltas")).unwrap();
                case.expect_list("beta", &envelope, case.number("atol"));
            }
            other => panic!("no test for {other}"),
        },
    );
}

fn tasks(case: &Vector, key: &str) -> Vec<Task> {
    let task = |row: &Vector| {
        let plain = Task::new(row.number("C"), row.number("T"));
        let or = |key, default| {
            if row.has(key) {
                row.number(key)
            } else {
                default
            }
        };
        Task {
            deadline: or("D", plain.period),
            jitter: or("J", 0.0),
            blocking: or("B", 0.0),
            ..plain
        }
    };
    case.at(key).rows().iter().map(task).collect()
}

fn responses(case: &Vector) {
    let (tasks, atol) = (tasks(case, "tasks_high_to_low"), case.number("atol"));
    let responses = response_times(&tasks, Supply::default()).unwrap();
    let times: Vec<f64> = responses.iter().map(|response| response.time).collect();
    case.expect_list("R", &times, atol);
    case.expect_within("U", utilization(&tasks), atol);
    case.expect_within("ll_bound", utilization_bound(tasks.len()), atol);
    case.expect_within("hyperbolic_product", hyperbolic_product(&tasks), atol);
    let schedulable = is_schedulable(&tasks, Supply::default()).unwrap();
    assert_eq!(schedulable, case.flag("schedulable"));
}

fn demand(case: &Vector) {
    let (tasks, atol) = (tasks(case, "tasks"), case.number("atol"));
    let demand = edf_demand(&tasks, case.number("blocking")).unwrap();
    assert_eq!(demand.is_schedulable(), case.flag("ok"));
    case.expect_within("U", demand.utilization, atol);
    case.expect_within("Lstar", demand.horizon.unwrap(), atol);
    let points: Vec<(f64, f64)> = demand
        .points
        .iter()
        .map(|point| (point.deadline, point.demand))
        .collect();
    assert_eq!(points, case.pairs("table"));
    let violation = demand.violation.map(|point| [point.deadline, point.demand]);
    assert_eq!(violation.is_none(), case.is_null("first_violation"));
    if let Some(violation) = violation {
        case.expect_list("first_violation", &violation, atol);
    }
}

fn buffered(case: &Vector) {
    let (tasks, atol) = (tasks(case, "tasks_high_to_low"), case.number("atol"));
    let budget = LatencyBudget {
        buffers: u32::try_from(case.count("n")).unwrap(),
        rare: case.number("Lstar"),
        ordinary: case.number("mu"),
    };
    let task = case.index("task");
    case.expect_within("pwc", budget.pseudo_worst_case().unwrap(), atol);
    let amortised = amortized_test(&tasks, task, budget).unwrap();
    case.expect_within("pwc_R", amortised.response.time, atol);
    assert_eq!(amortised.passes(), case.flag("pwc_ok"));
    let exact = exact_test(&tasks, task, budget).unwrap();
    case.expect_within("exact_R", exact.response.time, atol);
    assert_eq!(exact.passes(), case.flag("exact_ok"));
}
