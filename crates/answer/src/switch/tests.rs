use laggard_model::{HandOver, Interruption, SwitchPolicy, SwitchWatched};

use super::*;

fn run(threads: usize, stretches: &[u32]) -> SwitchRun {
    let stretch = |&ns: &u32| SwitchStretch {
        took_ns: vec![ns; 10_000],
        counted_by_kernel: 10_050,
        watched: None,
        left_out: 0,
        unkept: 0,
        alone_ns: 0,
        ..SwitchStretch::default()
    };
    SwitchRun {
        threads,
        way: SwitchWay::new(HandOver::Futex, SwitchPolicy::Other),
        absence: None,
        stretches: stretches.iter().map(stretch).collect(),
        unwatched: None,
    }
}

fn figures(run: SwitchRun) -> SwitchRun<StretchFigures> {
    run.try_map(|stretch| StretchFigures::new(&stretch))
        .unwrap()
}

fn measured(runs: Vec<SwitchRun>) -> SwitchesMeasured {
    SwitchesMeasured {
        host: Host::default(),
        cpu: Cpu(1),
        other_cpu: None,
        load: None,
        stretches: runs.iter().map(|run| run.stretches.len()).max().unwrap(),
        runs: runs.into_iter().map(figures).collect(),
        unwatched_because: None,
        caveats: Vec::new(),
    }
}

fn report(runs: Vec<SwitchRun>) -> SwitchReport {
    switches(&measured(runs)).unwrap()
}

/// With four independent intervals of 95 %, 10 % of the reports would have an interval above 1 by
/// chance.
#[test]
fn intervals_are_as_wide_as_there_are_questions() {
    let few = |via| {
        let mut run = run(2, &[1_000, 1_010, 990, 1_005]);
        run.way.via = via;
        run
    };
    let many = |via| {
        let mut run = run(64, &[1_100, 1_190, 1_090, 1_110]);
        run.way.via = via;
        run
    };
    let short = |mut run: SwitchRun| {
        for stretch in &mut run.stretches {
            stretch.took_ns.truncate(9_999);
        }
        run
    };
    let (futex, pipe) = (HandOver::Futex, HandOver::Pipe);

    let switch_report = report(vec![short(few(futex)), short(many(futex))]);
    let two = report(vec![few(futex), many(futex)]);
    let four = report(vec![few(futex), few(pipe), many(futex), many(pipe)]);

    let mean = |report: &SwitchReport| report.growth[0].mean.unwrap();
    let sure = [&switch_report, &two, &four].map(|report| mean(report).confidence);
    for (sure, wanted) in sure.into_iter().zip([0.95, 0.975, 0.9875]) {
        assert!((sure - wanted).abs() < 1e-9, "{sure}, not {wanted}");
    }
    let lows = [&switch_report, &two, &four].map(|report| mean(report).ratio_low);
    assert!(lows.is_sorted_by(|low, next| low > next), "{lows:?}");
    let counts = [&switch_report, &two, &four].map(|report| report.confidence().unwrap().1);
    assert_eq!(counts, [1, 2, 4]);
    assert_eq!(report(vec![run(2, &[1_000])]).confidence(), None);
}

/// The machine ran other threads during the whole first stretch.
#[test]
fn a_series_is_from_the_first_stretch_with_switches() {
    let mut ten = run(10, &[1_000, 1_100]);
    ten.stretches[0].took_ns.clear();
    let mut none = ten.clone();
    none.stretches.truncate(1);
    let first = |runs| {
        let series = series(&measured(runs), 10);
        series.map(|series| (series.threads, series.took_ns[0]))
    };

    assert_eq!(first(vec![run(2, &[900]), ten]), Some((10, 1_100)));
    assert_eq!(first(vec![run(2, &[900]), none.clone()]), Some((2, 900)));
    assert_eq!(first(vec![none]), None);
}

#[test]
fn a_mean_that_doubles_with_many_threads_grows() {
    let growth = &report(vec![
        run(2, &[1_000, 1_010, 990]),
        run(64, &[2_000, 2_010, 1_990]),
    ])
    .growth[0];

    let mean = growth.mean.unwrap();
    assert_eq!(mean.change, GrowthChange::Grows);
    assert!((mean.ratio - 2.0).abs() < 0.01, "{mean:?}");
    assert_eq!(growth.threads, [2, 64]);
}

#[test]
fn a_series_has_the_first_switches_in_order() {
    let mut ten = run(10, &[1_000]);
    ten.stretches[0].took_ns[..3].copy_from_slice(&[3, 1, 2]);
    let measured = measured(vec![run(2, &[700]), ten]);

    let ten = series(&measured, 10).unwrap();

    assert_eq!((ten.threads, ten.took_ns.len()), (10, MAX_SERIES));
    assert_eq!(ten.took_ns[..4], [3, 1, 2, 1_000]);
    assert_eq!(series(&measured, 64).unwrap().threads, 2);
    let none = SwitchesMeasured {
        runs: Vec::new(),
        ..measured
    };
    assert_eq!(series(&none, 10), None);
}

#[test]
fn variation_between_stretches_is_not_growth() {
    let growth = &report(vec![
        run(2, &[1_000, 1_300, 800]),
        run(8, &[1_100, 900, 1_250]),
    ])
    .growth[0];

    assert_eq!(growth.mean.unwrap().change, GrowthChange::Unknown);
}

#[test]
fn a_difference_to_the_count_of_the_kernel_counts_from_1_percent() {
    let mut row = row(&figures(run(2, &[1_000])));
    assert_eq!(row.taken_by_others(), None);

    row.counted_by_kernel = 20_000;
    assert_eq!(row.taken_by_others(), Some(0.5));
    row.unkept = 9_900;
    assert_eq!(row.taken_by_others(), None);
}

#[test]
fn gross_figures_contain_interruptions_and_net_ones_do_not() {
    let mut measured = run(2, &[1_000, 1_000]);
    for stretch in &mut measured.stretches {
        let mut between = vec![Interruption::default(); stretch.took_ns.len()];
        stretch.took_ns[7] = 3_001_000;
        between[7].taken_ns = 3_000_000;
        let sums = SwitchSums {
            others: 1,
            ..SwitchSums::default()
        };
        stretch.watched = Some(SwitchWatched { between, sums });
    }
    measured.unwatched = Some(SwitchStretch {
        took_ns: vec![900; 100],
        ..SwitchStretch::default()
    });

    let traced = row(&figures(measured));

    assert_eq!(traced.gross.unwrap().max_ns, 3_001_000.0);
    assert_eq!(traced.net.unwrap().max_ns, 1_000.0);
    assert_eq!(traced.activity.unwrap().others, 2);
    assert_eq!(traced.untraced_median_ns, Some(900.0));
    let untraced = row(&figures(run(2, &[1_000])));
    assert!(untraced.net.is_none() && untraced.activity.is_none());
}
