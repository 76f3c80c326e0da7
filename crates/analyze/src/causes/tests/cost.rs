//! Cost of an explanation, which must not be quadratic in the number of records.

use super::*;

/// Maximum number of records that the searches for a slice visit, per binary
/// logarithm of the number of records.
const SEARCHES: usize = 24;

/// Returns a long wait with an interrupt, a sample and a context switch every 40 us.
/// Threads get lent priorities, are stopped with their control group, and run as
/// different threads. Switches and whole spans are lost.
fn crowded(records: u64) -> Scene {
    let turns = records / 4;
    let mut scene = late_thread(turns * 40 + 100);
    for turn in 0..turns {
        let time = i64::try_from(turn * 40).unwrap();
        let tid = 1_000 + u32::try_from(turn % 50).unwrap();
        let priority = if (turn + turn / 50).is_multiple_of(2) {
            4
        } else {
            120
        };
        scene = scene
            .switch(time, tid, &format!("task {tid}"), priority)
            .during(time + 5, time + 9, TIMER)
            .sample(time + 20, tid, &[turn % 300][..usize::from(turn % 3 > 0)]);
        if turn.is_multiple_of(7) {
            scene.episode.evidence.throttles.push(Throttle {
                at_ns: us(time),
                tid: Tid(OURS),
                group: Some(5),
            });
        }
        if turn.is_multiple_of(11) {
            let from_ns = us(time + 25);
            let to_ns = us(time + 27);
            scene.episode.evidence.gaps.push(Span::new(from_ns, to_ns));
        }
    }
    let events = &scene.episode.evidence.events;
    let switches = events.iter().filter(
        |event| matches!(event.what, Happening::Switch { priority, .. } if priority == 120),
    );
    scene.episode.evidence.served = Some(switches.map(|event| event.at_ns).collect());
    scene.episode.thread = Some(Tid(OURS));
    scene.ours(i64::try_from(turns * 40 + 90).unwrap())
}

/// Returns symbols: the waiting thread is in a group with a quota, and the others are in another
/// group.
fn groups() -> Symbols {
    let level = |group: &str, weight| SchedEntity {
        group: group.into(),
        setting: String::new(),
        weight,
    };
    let quota = GroupQuota {
        group: "/own".into(),
        ..GroupQuota::default()
    };
    Symbols {
        quotas: [(5, quota)].into(),
        entities: (1_000..1_050)
            .map(|tid| (Tid(tid), vec![level("/other", 2)]))
            .chain([(Tid(OURS), vec![level("/own", 1)])])
            .collect(),
        ..Symbols::default()
    }
}

/// Returns the number of visited records per record, and the number of parts.
fn visits(scene: &Scene) -> (usize, usize) {
    let episode = &scene.episode;
    let index = EvidenceIndex::new(&episode.evidence);
    let mut parts = parts(episode, &index, Service::Fifo(90), Route::Direct);
    fault::name_page_faults(&mut parts, &index, &Symbols::default());
    doubt::doubt_interrupts(&mut parts, &index);
    group::name_groups(&mut parts, episode, &index, &groups());
    let records = episode.evidence.events.len() + episode.evidence.samples.len();
    (index.visits() / records, parts.len())
}

/// Guards against a walk over all records per slice, which visits half of them on
/// average.
#[test]
fn searches_visit_few_of_many_records() {
    for records in [1_000, 10_000, 100_000] {
        let (visits, parts) = visits(&crowded(records));

        let bound = SEARCHES * usize::try_from(records.ilog2()).unwrap();
        assert!(visits <= bound, "{visits} of {records}");
        assert!(parts as u64 > records / 2, "{parts} of {records}");
    }
}

/// Guards against a sum over every part for every expiry.
#[test]
fn passed_shares_equal_the_sums_over_every_expiry() {
    let mut episode = crowded(2_000).episode;
    episode.passed_ns = (1..300).map(|number| Nanos::from_us(number * 61)).collect();

    let explained = explain(&episode, Service::Fifo(90), Route::Direct);

    assert!(explained.causes.len() > 2);
    for (cause, share) in explained.causes.iter().zip(&explained.passed) {
        let mut expected = PassedShare::default();
        for &after in &episode.passed_ns {
            let due = episode.expiry_ns + after;
            let times = explained.parts.iter().filter_map(|part| {
                let is_cause = (part.class, &part.culprit) == (cause.class, &cause.culprit);
                let time = part.slice.to.saturating_sub(part.slice.from.max(due));
                (is_cause && time > Nanos::ZERO).then_some(time)
            });
            let time = times.fold(Nanos::ZERO, |sum, time| sum + time);
            expected.total += time;
            expected.wakeups += u64::from(time > Nanos::ZERO);
        }
        assert_eq!(*share, expected, "{:?}", cause.class);
    }
}

#[test]
fn open_activities_are_bounded_without_recorded_ends() {
    let mut scene = late_thread(60_000).switch(-500, 7, "hog", 4);
    for time in 1_000..50_000 {
        scene = scene.event(time, Happening::Begin(Activity::Softirq(1)));
    }

    let explained = explain(
        &scene.ours(59_990).episode,
        Service::Fifo(90),
        Route::Direct,
    );

    let open = explained
        .parts
        .iter()
        .map(|part| part.slice.context.activities().len());
    assert!(open.max() <= Some(16));
    assert_eq!(explained.causes[0].class, CauseClass::Softirq);
}

/// A thread has a part for each of its records, and a name of up to 1 KiB.
#[test]
fn parts_of_one_stay_share_the_thread_name() {
    let mut scene = late_thread(2_000).switch(-500, 7, "hog", 4);
    for time in (100..1_900).step_by(20) {
        scene = scene.during(time, time + 10, TIMER);
    }

    let explained = scene.ours(2_000).explained();

    let parts = explained.parts.iter();
    let threads = parts.filter_map(|part| part.slice.context.thread.as_ref());
    let hogs: Vec<_> = threads.filter(|thread| thread.tid == Tid(7)).collect();
    assert!(hogs.len() > 100);
    assert!(
        hogs.iter()
            .all(|thread| Arc::ptr_eq(&thread.name, &hogs[0].name))
    );
    let culprits = explained.parts.iter();
    let mut culprits = culprits.filter_map(|part| part.culprit.thread.as_ref());
    assert!(culprits.all(|name| Arc::ptr_eq(name, &hogs[0].name)));
}
