use super::*;

const NORMAL: i16 = 120;

/// Returns an episode: a normal thread with the TID of `fifo:90` waits while `runs` has the CPU.
fn waiting(runs: u32) -> Episode {
    let mut scene = late_thread(2_000)
        .switch(-500, runs, "other", NORMAL)
        .during(10, 15, TIMER)
        .sample(900, runs, &[])
        .switch(2_000, OURS, "app", NORMAL);
    scene.episode.thread = Some(Tid(OURS));
    scene.episode
}

fn level(group: &str, setting: &str, weight: u64) -> SchedEntity {
    SchedEntity {
        group: group.into(),
        setting: setting.into(),
        weight,
    }
}

fn nice(nice: i64, weight: u64) -> SchedEntity {
    level("", &format!("nice {nice}"), weight)
}

/// Returns the first cause of a thread in these groups that competes with a thread in
/// others.
fn first(own: &[SchedEntity], other: &[SchedEntity]) -> Cause {
    let symbols = Symbols {
        entities: [(Tid(OURS), own.to_vec()), (Tid(7), other.to_vec())].into(),
        ..Symbols::default()
    };
    let explained = explain_named(&waiting(7), Service::Other, Route::Direct, &symbols);
    explained.causes[0].clone()
}

#[test]
fn group_weight_below_the_common_parent_decides() {
    let parent = level("/p", "cpu.weight 100", 1024);
    let light = level("/p/a", "cpu.weight 1", 10);
    let heavy = level("/p/b", "cpu.weight 10000", 102_400);
    let own = [parent.clone(), light, nice(-20, 88_761)];
    for (other, words) in [
        (
            vec![parent.clone(), heavy, nice(19, 15)],
            "other (/p/b, cpu.weight 10000)",
        ),
        (vec![parent, nice(0, 1024)], "other (nice 0)"),
    ] {
        let cause = first(&own, &other);

        assert_eq!(cause.class, CauseClass::GroupWeight);
        assert_eq!(cause.culprit.weight, named("/p/a, cpu.weight 1"));
        assert_eq!(cause.culprit.contender, named(words));
        assert_eq!(cause.time_ns, Nanos::from_us(1_985));
    }
}

/// The weight of a group is a cause only if the group is lighter. Nice values count
/// within a group only.
#[test]
fn groups_of_equal_or_larger_weight_are_no_cause() {
    for (own, other) in [
        ("autogroup, nice 0", 1024),
        ("cpu.weight 100", 1024),
        ("cpu.weight 200", 512),
    ]
    .map(|(setting, other)| (level("/a", setting, 1024), level("/b", setting, other)))
    {
        let cause = |own_nice, other_nice| {
            let cause = first(&[own.clone(), own_nice], &[other.clone(), other_nice]);
            assert_eq!(cause.class, CauseClass::Equal);
            assert_eq!(cause.culprit.thread, named("other"));
            assert_eq!(cause.culprit.weight, None);
            cause.culprit.because
        };

        let levelled = cause(nice(-20, 88_761), nice(0, 1024));
        assert_eq!(levelled, Some(Because::NiceInGroup));
        assert_eq!(cause(nice(0, 1024), nice(0, 1024)), None);
        assert_eq!(cause(nice(5, 335), nice(0, 1024)), None);
    }
}

/// Nice values and `SCHED_IDLE` divide the CPU within a group.
#[test]
fn threads_of_one_group_share_by_their_weights() {
    let group = level("/a", "cpu.weight 1", 10);
    for (own, other, because) in [
        (nice(10, 110), nice(0, 1024), Some(Because::MoreWeight)),
        (
            level("", "SCHED_IDLE", 3),
            nice(0, 1024),
            Some(Because::MoreWeight),
        ),
        (nice(-5, 3121), nice(0, 1024), Some(Because::LessWeight)),
        (nice(0, 1024), nice(0, 1024), None),
    ] {
        for groups in [&[group.clone()][..], &[]] {
            let levels = |thread: &SchedEntity| [groups, std::slice::from_ref(thread)].concat();

            let cause = first(&levels(&own), &levels(&other));

            assert_eq!(cause.class, CauseClass::Equal);
            assert_eq!(cause.culprit.thread, named("other"));
            assert_eq!(cause.culprit.because, because);
        }
    }
}

fn quota(number: u64, group: &str) -> (u64, GroupQuota) {
    let quota = GroupQuota {
        group: group.into(),
        file: "cpu.max".into(),
        ..GroupQuota::default()
    };
    (number, quota)
}

/// The thread that ran does not distinguish one quota from another.
#[test]
fn quota_is_one_cause_for_any_running_thread() {
    let mut episode = waiting(7);
    episode.evidence.throttles = vec![Throttle {
        at_ns: us(-100),
        tid: Tid(OURS),
        group: Some(5),
    }];
    let mut other = episode.clone();
    for event in &mut other.evidence.events {
        if let Happening::Switch { tid, name, .. } = &mut event.what
            && tid.0 == 7
        {
            (*tid, *name) = (Tid(8), "third".into());
        }
    }
    let symbols = Symbols {
        quotas: [quota(5, "/a")].into(),
        ..Symbols::default()
    };
    let explained: Vec<_> = [&episode, &other]
        .map(|episode| {
            (
                episode,
                explain_named(episode, Service::Other, Route::Direct, &symbols),
            )
        })
        .into();

    let ranking = rank(
        explained
            .iter()
            .map(|(episode, explanation)| (*episode, explanation)),
        |culprit| laggard_model::name::who(culprit, &symbols),
    );

    let first = &ranking.causes[0].cause;
    assert_eq!(first.class, CauseClass::Throttled);
    assert_eq!(first.who, named("CPU quota of control group /a (cpu.max)"));
    assert_eq!(ranking.causes[0].episodes, 2);
    // Without the cause, only the wakeup path remains.
    assert!(ranking.causes[0].largest_without < Nanos::from_us(50));
}

/// The throttling can be older than the trace data, which then lacks its group.
#[test]
fn throttling_without_a_group_is_attributed_to_the_only_quota_of_the_thread() {
    let mut episode = waiting(7);
    episode.evidence.throttles = vec![Throttle {
        at_ns: us(-100),
        tid: Tid(OURS),
        group: None,
    }];
    let group = |quotas: &[(u64, GroupQuota)]| {
        let levels = vec![level("/a", "", 1024), level("/a/b", "", 1024)];
        let symbols = Symbols {
            quotas: quotas.iter().cloned().collect(),
            entities: [(Tid(OURS), levels)].into(),
            ..Symbols::default()
        };
        let explained = explain_named(&episode, Service::Other, Route::Direct, &symbols);
        let cause = &explained.causes[0];
        assert_eq!(cause.class, CauseClass::Throttled);
        cause.culprit.group
    };

    assert_eq!(group(&[quota(5, "/a"), quota(6, "/c")]), Some(5));
    assert_eq!(group(&[quota(5, "/a"), quota(6, "/a/b")]), None);
    assert_eq!(group(&[]), None);
}

/// Another thread of the group used up the quota while the thread waited.
#[test]
fn quota_stops_every_thread_below_its_group() {
    let mut episode = waiting(7);
    episode.evidence.throttles = vec![Throttle {
        at_ns: us(-500),
        tid: Tid(99),
        group: Some(5),
    }];
    let cause = |own: &str, episode: &Episode| {
        let levels = vec![level("/a", "cpu.weight 100", 1024), level(own, "", 1024)];
        let symbols = Symbols {
            quotas: [quota(5, "/a/b")].into(),
            entities: [(Tid(OURS), levels)].into(),
            ..Symbols::default()
        };
        let explained = explain_named(episode, Service::Other, Route::Direct, &symbols);
        explained.causes[0].clone()
    };

    let stopped = cause("/a/b", &episode);
    assert_eq!(stopped.class, CauseClass::Throttled);
    assert_eq!(stopped.culprit.group, Some(5));
    assert_eq!(cause("/a/c", &episode).class, CauseClass::Equal);
    // A thread of the group runs again: the quota was refilled.
    let back = Happening::switch(Tid(99), "member", NORMAL);
    let switch = episode
        .evidence
        .events
        .partition_point(|event| event.at_ns <= us(15));
    episode.evidence.events.insert(
        switch,
        FlightEvent {
            at_ns: us(100),
            what: back,
        },
    );
    assert_eq!(cause("/a/b", &episode).class, CauseClass::Equal);
}
