//! Counts of handlers on the running kernel.

use std::thread::sleep;
use std::time::Duration;

use laggard_measure::linux::{HandlerCounter, online_cpus};
use laggard_model::{Activity, Nanos, Vector};

#[test]
fn timer_and_softirq_are_counted_and_timed() {
    let mut counter = match HandlerCounter::new(&online_cpus(), &[]) {
        Ok(counter) => counter,
        Err(refused) => {
            println!("skipped: {refused}");
            return;
        }
    };
    counter.start().unwrap();
    // Wakes this CPU repeatedly by its timer.
    for _ in 0..50 {
        sleep(Duration::from_millis(2));
    }
    let first = counter.read().unwrap();
    sleep(Duration::from_millis(50));
    let counts = counter.read().unwrap();

    for handler in &counts.handlers {
        println!(
            "{:?} {} {} {}",
            handler.activity, handler.count, handler.total_ns, handler.longest_ns
        );
    }
    println!("{:?}", counts.missing);
    assert!(counts.to_ns > counts.from_ns + Nanos::from_ms(150));
    let find = |activity: Activity| {
        counts
            .handlers
            .iter()
            .find(|handler| handler.activity == activity)
    };
    let is_timer = |activity: Activity| matches!(activity, Activity::Hrtimer(_));
    let timers = counts
        .handlers
        .iter()
        .filter(|handler| is_timer(handler.activity));
    let timers: u64 = timers.map(|handler| handler.count).sum();
    assert!(timers >= 50, "{timers}");
    let timer = find(Activity::Vector(Vector::LocalTimer)).unwrap();
    assert!(timer.count >= 50, "{timer:?}");
    // A timer's function runs within it.
    assert!(timer.total_ns > Nanos::ZERO);
    for handler in &counts.handlers {
        let times: u64 = handler.times.iter().map(|times| times.count).sum();
        assert_eq!(times, handler.count, "{handler:?}");
        assert!(handler.longest_own_ns <= handler.longest_ns, "{handler:?}");
        assert!(handler.longest_ns <= handler.total_ns, "{handler:?}");
        assert!(
            handler.quantile(1.0).unwrap() >= handler.longest_ns,
            "{handler:?}"
        );
        let before = first
            .handlers
            .iter()
            .find(|old| old.activity == handler.activity);
        assert!(
            before.is_none_or(|old| old.count <= handler.count),
            "{handler:?}"
        );
    }
}
