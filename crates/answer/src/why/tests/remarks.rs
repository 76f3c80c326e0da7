//! Remarks on what a recording does not know.

use super::*;

/// Result of a series without an episode.
fn watched(
    watch: Option<LineWatch>,
    threshold: Option<Nanos>,
    max: Option<Nanos>,
    lost: u64,
) -> WhyReport {
    let notes = EpisodeNotes {
        thresholds_ns: vec![threshold],
        lines: watch.into_iter().collect(),
        surplus: 0,
        ..notes()
    };
    let mut late = recorded_with(&[], notes);
    late.manifest = Manifest {
        losses: Losses {
            ring_full: lost,
            ..Losses::default()
        },
        ..manifest()
    };
    late.latest = max.map(maxima).into_iter().collect();
    Explained::new(&late, None).why(3)
}

fn maxima(max_ns: Nanos) -> SeriesMaxima {
    SeriesMaxima {
        service: Service::Fifo(90),
        route: Route::Direct,
        max_ns,
        in_time_max_ns: None,
    }
}

#[test]
fn no_fix_lowers_the_max_below_wakeups_that_were_in_time() {
    let mut late = recorded_with(&[episode(1)], notes());
    let in_time = Nanos::from_us(40);
    late.latest = vec![SeriesMaxima {
        in_time_max_ns: Some(in_time),
        ..maxima(Nanos::from_ms(25))
    }];

    let report = why(&late, None, 30);

    let without = report.causes.iter().map(|row| row.largest_without_ns);
    assert!(without.min().unwrap() >= in_time);
}

fn chosen(early: u64, surplus: u64) -> LineWatch {
    LineWatch {
        from_ns: Some(manifest().clock.start_ns + Nanos::from_secs(3)),
        early,
        early_largest_ns: (early > 0).then(|| Nanos::from_us(2_900)),
        surplus,
        kept: 0,
        untraced: None,
    }
}

fn remarks(report: &WhyReport) -> &[Remark] {
    let late = report.series.first().or(report.on_time.first());
    &late.unwrap().remarks
}

#[test]
fn nothing_was_late_only_if_that_is_known() {
    let threshold = Some(Nanos::from_us(100));
    let (below, above) = (Some(Nanos::from_us(90)), Some(Nanos::from_us(2_900)));

    for max in [None, below] {
        let quiet = watched(Some(chosen(0, 0)), threshold, max, 0);
        assert_eq!(remarks(&quiet), []);
        assert_eq!(quiet.on_time.len(), 1);
    }
    for watch in [None, Some(chosen(0, 7)), Some(chosen(1, 0))] {
        let unknown = watched(watch, threshold, None, 0);
        assert!(
            remarks(&unknown).contains(&Remark::NotCounted),
            "{watch:?}: {unknown:?}"
        );
        let late = watched(watch, threshold, above, 0);
        let largest_ns = Nanos::from_us(2_900);
        assert_eq!(late.series.len(), 1, "{late:?}");
        assert!(remarks(&late).contains(&Remark::MaxNotKept { largest_ns }));
    }
    let lost = watched(Some(chosen(0, 0)), threshold, below, 12);
    assert_eq!(remarks(&lost), [Remark::LostSamples { samples: 12 }]);
}

#[test]
fn wakeups_before_the_threshold_was_chosen_are_counted() {
    let early = |until_ns| Remark::EarlyNotKept {
        wakeups: 3,
        largest_ns: Nanos::from_us(2_900),
        until_ns,
    };
    let no_threshold = |kept_above_ns| Remark::NoThreshold {
        lines: 1,
        of: 1,
        kept_above_ns,
        is_attached: false,
    };

    let chosen_late = watched(Some(chosen(3, 0)), Some(Nanos::from_us(100)), None, 0);
    assert!(remarks(&chosen_late).contains(&early(Some(Nanos::from_secs(3)))));
    let undecided = LineWatch {
        from_ns: None,
        ..chosen(3, 0)
    };
    let never = watched(Some(undecided), None, Some(Nanos::from_us(2_900)), 0);
    assert!(remarks(&never).contains(&early(None)), "{never:?}");
    assert!(remarks(&never).contains(&no_threshold(Some(Nanos::from_us(50)))));
    // An earlier version kept nothing until then.
    let earlier = watched(None, None, None, 0);
    assert!(remarks(&earlier).contains(&no_threshold(None)));
}

#[test]
fn high_threshold_is_flagged_unless_it_was_set() {
    let high = Some(Nanos::from_secs(1));
    let set = LineWatch {
        from_ns: Some(Nanos::ZERO),
        ..LineWatch::default()
    };

    for (watch, is_flagged) in [(Some(chosen(0, 0)), true), (None, true), (Some(set), false)] {
        let report = watched(watch, high, Some(Nanos::from_us(90)), 0);

        let flag = Remark::HighThreshold {
            threshold_ns: Nanos::from_secs(1),
            lines: 1,
        };
        assert_eq!(remarks(&report).contains(&flag), is_flagged, "{watch:?}");
    }
}

#[test]
fn max_in_no_episode_is_flagged() {
    let mut late = recorded_with(&[episode(1)], notes());
    late.latest = vec![maxima(Nanos::from_ms(25))];

    let report = why(&late, None, 3);

    let largest_ns = Nanos::from_ms(25);
    assert!(report.remarks.contains(&Remark::MaxNotKept { largest_ns }));
    assert_eq!(report.measured_max_ns, Some(largest_ns));
}

/// Without surplus, the kept episodes are all late wakeups.
#[test]
fn kept_episodes_matter_only_if_others_were_not_kept() {
    let kept = |surplus| {
        let notes = EpisodeNotes {
            lines: vec![chosen(0, surplus)],
            ..notes()
        };
        let late = recorded_with(&[episode(2), episode(1)], notes);
        super::watched::all_kept(&Explained::new(&late, None)).kept
    };

    assert_eq!(kept(0), None);
    let expiries = [1, 2].map(|number| episode(number).expiry_ns);
    assert_eq!(kept(1).as_deref(), Some(&expiries[..]));
}
