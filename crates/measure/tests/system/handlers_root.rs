//! Counting handlers on the kernel that runs.

use std::thread::sleep;
use std::time::Duration;

use laggard_measure::linux::{HandlerCounter, online_cpus};
use laggard_model::{Activity, Nanos, Vector};

#[test]
fn what_a_kernel_always_runs_is_counted_and_timed() {
    let mut counter = match HandlerCounter::new(&online_cpus()) {
        Ok(counter) => counter,
        Err(refused) => {
            println!("skipped: {refused}");
            return;
        }
    };
    counter.begin().unwrap();
    // Wakes this CPU by its timer, again and again.
    for _ in 0..50 {
        sleep(Duration::from_millis(2));
    }
    let first = counter.read().unwrap();
    sleep(Duration::from_millis(50));
    let counts = counter.read().unwrap();

    for one in &counts.handlers {
        println!(
            "{:?} {} {} {}",
            one.activity, one.count, one.total_ns, one.longest_ns
        );
    }
    println!("{:?}", counts.missing);
    assert!(counts.to_ns > counts.from_ns + Nanos::from_ms(150));
    let of = |activity: Activity| counts.handlers.iter().find(|one| one.activity == activity);
    let is_timer = |activity: Activity| matches!(activity, Activity::Hrtimer(_));
    let timers = counts.handlers.iter().filter(|one| is_timer(one.activity));
    let timers: u64 = timers.map(|one| one.count).sum();
    assert!(timers >= 50, "{timers}");
    if cfg!(target_arch = "x86_64") {
        let timer = of(Activity::Vector(Vector::LocalTimer)).unwrap();
        assert!(timer.count >= 50, "{timer:?}");
        // A timer's function runs in it.
        assert!(timer.total_ns > Nanos::ZERO);
    }
    for one in &counts.handlers {
        let times: u64 = one.times.iter().map(|times| times.count).sum();
        assert_eq!(times, one.count, "{one:?}");
        assert!(one.longest_own_ns <= one.longest_ns, "{one:?}");
        assert!(one.longest_ns <= one.total_ns, "{one:?}");
        assert!(one.quantile(1.0).unwrap() >= one.longest_ns, "{one:?}");
        let before = first
            .handlers
            .iter()
            .find(|old| old.activity == one.activity);
        assert!(before.is_none_or(|old| old.count <= one.count), "{one:?}");
    }
}
