//! Extreme values.

use laggard_analyze::forecast::{
    FIT_LEVELS, RateUncertainty, Tail, anderson_darling, anderson_darling_quantile, decluster,
    empirical_level, fit_likelihood, fit_quasi_bayes, forward_stop, kpss, ljung_box,
    profile_interval,
};

use super::vector::{Vector, every_case};

#[test]
fn extreme_values_agree_with_the_reference() {
    every_case(
        include_str!("evt.json"),
        13,
        |function, case| match function {
            "gpd_fit" => pareto(case),
            "forward_stop" => {
                let rejected = forward_stop(&case.numbers("p"), case.number("alpha")).unwrap();
                assert_eq!(rejected, case.index("rejected"));
            }
            "rl_empirical" => {
                let (exposure, horizon) = (case.number("T"), case.number("H"));
                let peaks = case.numbers("peaks");
                let level = empirical_level(&peaks, exposure, horizon, 0.95).unwrap();
                case.expect_some("point", level.value, case.rtol());
                case.expect_some("lo", level.low, case.rtol());
                case.expect_some("hi", level.high, case.rtol());
            }
            "runs_decluster" => clusters(case),
            "iid_tests" => stationarity(case),
            "ad_table" => fit_table(case),
            other => panic!("no test for {other}"),
        },
    );
}

fn pareto(case: &Vector) {
    let x = case.numbers("x");
    let likely = fit_likelihood(&x).unwrap();
    let expected = case.at("mle");
    let rtol = case.number("rtol_mle");
    expected.expect("sigma", likely.pareto.scale, rtol);
    expected.expect("xi", likely.pareto.shape, rtol);
    expected.expect("nll", likely.loss, rtol);
    let (fit, rtol) = (fit_quasi_bayes(&x).unwrap(), case.number("rtol_zs"));
    case.at("zs").expect("sigma", fit.scale, rtol);
    case.at("zs").expect("xi", fit.shape, rtol);
    let rtol = case.number("rtol_ad");
    case.expect("ad", anderson_darling(&x, likely.pareto).unwrap(), rtol);
    for level in case.at("return_level").rows() {
        let (threshold, exposure) = (level.number("u"), level.number("T"));
        let (horizon, rtol) = (level.number("H"), level.rtol());
        let tail = Tail {
            threshold,
            rate: x.len() as f64 / exposure,
            excess: likely.pareto,
        };
        level.expect("rl", tail.return_level(horizon).unwrap(), rtol);
        for (low, high, uncertainty) in [
            ("lo_fixed_rate", "hi_fixed_rate", RateUncertainty::Ignored),
            ("lo_with_rate", "hi_with_rate", RateUncertainty::Included),
        ] {
            let interval =
                profile_interval(&x, threshold, exposure, horizon, 0.95, uncertainty).unwrap();
            level.expect(low, interval.low, rtol);
            level.expect(high, interval.high, rtol);
        }
    }
}

fn clusters(case: &Vector) {
    let (times, values) = (case.numbers("t"), case.numbers("x"));
    let (threshold, run) = (case.number("u"), case.number("r"));
    let clusters = decluster(&times, &times, &values, threshold, run).unwrap();
    let expected = case.at("clusters").rows();
    assert_eq!(clusters.len(), expected.len());
    for (cluster, row) in clusters.iter().zip(expected) {
        let row: Vec<f64> = row.rows().iter().map(Vector::value).collect();
        let size = cluster.size as f64;
        let figures = [
            cluster.time,
            cluster.peak,
            size,
            cluster.first,
            cluster.last,
        ];
        assert_eq!(figures[..], row);
    }
}

fn stationarity(case: &Vector) {
    let x = case.numbers("x");
    let correlation = ljung_box(&x, 10).unwrap();
    case.expect("ljung_box_Q10", correlation.value, case.rtol());
    case.expect("ljung_box_p", correlation.p, case.rtol());
    let eta = kpss(&x).unwrap();
    case.expect("kpss_eta", eta, case.rtol());
    assert_eq!(eta > 0.463, case.flag("kpss_reject5"));
}

/// The table in the code comes from samples of 200; samples of 50 agree within their
/// Monte-Carlo error.
fn fit_table(case: &Vector) {
    assert_eq!(case.numbers("levels"), FIT_LEVELS);
    for row in case.at("rows").rows() {
        let quantiles = anderson_darling_quantile(row.number("xi"));
        let tolerance = if row.count("n") == 200 { 1e-12 } else { 0.08 };
        for (quantile, expected) in quantiles.iter().zip(row.numbers("A2")) {
            assert!(
                (quantile / expected - 1.0).abs() <= tolerance,
                "{quantile} {expected}"
            );
        }
    }
}
