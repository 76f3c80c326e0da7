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

/// Without stack samples, time in the kernel may be page faults.
#[test]
fn only_a_named_system_call_is_to_be_moved() {
    for (who, fix) in [(None, Fix::ReduceWork), (Some("mmap"), Fix::MoveWait)] {
        let cause = RecordedCause {
            class: CauseClass::SystemCall,
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
