//! What the first screen shows first: the series, and the fix.

use laggard_model::{Line, LineId, RecordedCause};

use super::*;

/// A thread of another program may have no deadline. Its largest latency is not the answer.
#[test]
fn series_without_a_threshold_is_last() {
    let second = Episode {
        line: LineId(1),
        ..episode(2)
    };
    let mut late = recorded_with(&[episode(1), second], notes());
    let line = late.manifest.lines[0];
    late.manifest.lines.push(Line {
        service: Service::Fifo(50),
        ..line
    });
    late.notes.thresholds_ns = vec![None, Some(Nanos::from_us(100))];

    let explained = Explained::new(&late, None);

    let services: Vec<Option<Service>> = explained
        .why(3)
        .series
        .iter()
        .map(|one| one.service)
        .collect();
    assert_eq!(services, [50, 90].map(|of| Some(Service::Fifo(of))));
    assert_eq!(
        explained.foremost().unwrap().service,
        Some(Service::Fifo(50))
    );
}

/// Without stack samples, time in the kernel may be page faults. A wait for another thread cannot be
/// shortened.
#[test]
fn fix_of_a_system_call_depends_on_its_name_and_of_a_wait_on_its_end() {
    use CauseClass::{SystemCall, Wait};
    for (class, who, fix) in [
        (SystemCall, None, Fix::ReduceWork),
        (SystemCall, Some("mmap"), Fix::MoveWait),
        (Wait, Some("read(), pipe, woken by X"), Fix::MoveWait),
        (Wait, Some("poll(), timeout"), Fix::ShortenSleep),
        (Wait, Some("clock_nanosleep()"), Fix::ShortenSleep),
    ] {
        let cause = RecordedCause {
            class,
            who: who.map(Into::into),
            because: None,
            contender: None,
            time_ns: Nanos::from_us(2_002),
        };
        let late = Episode {
            causes: vec![cause],
            ..episode(1)
        };

        assert_eq!(report(&[late], None).causes[0].fix, Some(fix));
    }
}
