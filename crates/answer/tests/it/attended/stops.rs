//! Stops and freezes.

use laggard_answer::attach::AttachRequest;
use laggard_model::{ActivationEnd, WaitSite};

use super::{
    SLEEP_UNTIL, Script, TIMER, by_thread, report, request, request_without_deadline, us, wait,
};

/// A signal stops a thread for 24 ms while it waits for a timer of 10 ms. Two cycles are late:
/// the one that it waited for, and the next.
#[test]
fn stop_in_a_wait_is_not_a_cycle() {
    let mut script = Script::new(1);
    let read = wait("read", 5, 0, 0);
    let signal = by_thread(7, "kill");
    let stopped = (ActivationEnd::Stopped, read.1);
    for number in 0..100 {
        let due = 10_000 * number;
        match number % 20 {
            7 => {
                let stop = due - 3_000;
                script.add(signal, (stop, stop + 20, stop + 40), stopped);
                script.add(signal, (stop + 24_000, stop + 24_010, stop + 24_200), read);
            }
            8 | 9 => {}
            _ => script.add_cycle(due, read),
        }
    }
    let request = AttachRequest {
        deadline: Some(us(5_000)),
        ..request()
    };

    let report = report(request, script.records);

    let [row] = &report.rows[..] else {
        panic!("{:?}", report.rows);
    };
    assert_eq!(row.stops.stopped, 5);
    assert_eq!(row.deadline.as_ref().unwrap().misses, 10);
    assert_eq!(row.response.unwrap().largest_ns, us(21_200));
}

#[test]
fn stop_is_part_of_the_cycle_and_has_a_length() {
    let mut script = Script::new(1);
    script.add_cycles(0..10, SLEEP_UNTIL);
    let stop = (ActivationEnd::Frozen, WaitSite::default());
    script.add(TIMER, (10_000, 10_010, 10_050), stop);
    let systemd = by_thread(9, "systemd");
    script.add(systemd, (10_800, 10_800, 10_850), SLEEP_UNTIL);
    script.add_cycles(11..20, SLEEP_UNTIL);

    let report = report(request(), script.records);

    let row = &report.rows[0];
    let deadline = row.deadline.as_ref().unwrap();
    assert_eq!((row.activations, deadline.misses), (20, 1));
    assert_eq!((row.stops.frozen, row.stops.frozen_ns), (1, us(750)));
}

/// A POSIX timer of 5 ms expires during a freeze of 300 ms. The end of the freeze wakes the thread,
/// which receives one signal for all expiries.
#[test]
fn timer_that_expires_in_a_frozen_group_is_late() {
    let mut script = Script::new(1);
    let signal = wait("rt_sigtimedwait", 4, 0, 0);
    let mut missed = 0;
    for number in 0..600 {
        let due = 5_000 * number;
        let phase = due % 1_000_000;
        let is_frozen = phase > 500_000 && phase < 802_000;
        let thaw = due - phase + 802_000;
        missed += u64::from(is_frozen && thaw + 100 > due + 5_000);
        if !is_frozen {
            script.add_changed(TIMER, (due, due + 10, due + 100), signal, |activation| {
                activation.timer = Some(64);
            });
        } else if due + 5_000 > thaw {
            let times = (thaw, thaw + 10, thaw + 100);
            script.add_changed(by_thread(7, "sh"), times, signal, |activation| {
                activation.was_frozen = true;
            });
        }
    }

    let report = report(request_without_deadline(None), script.records);

    let row = &report.rows[0];
    assert_eq!(row.deadline.as_ref().unwrap().misses, missed);
    assert_eq!(row.response.unwrap().largest_ns, us(297_100));
    assert_eq!((row.stops.frozen, row.stops.frozen_ns), (3, us(891_030)));
}
