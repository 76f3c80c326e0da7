//! Poisson counts and their ratios.

use laggard_analyze::counts::{
    dispersion_index, effective_ratio, expected_events_for, mean_time_interval, rate_interval,
    rate_upper_limit,
};

use super::vector::{Vector, every_case};

#[test]
fn counts_agree_with_the_reference() {
    every_case(
        include_str!("counts.json"),
        19,
        |function, case| match function {
            "poisson_rate_ci" => poisson_rate(case),
            "rate_ratio_ci" => ratio(case),
            "min_events" => {
                let (rho, power, alpha) = (
                    case.number("rho"),
                    case.number("power"),
                    case.number("alpha"),
                );
                let events = expected_events_for(rho, power, alpha, 1.0).unwrap();
                case.expect("expected_events_reference_arm", events, case.rtol());
            }
            "dispersion_index" => {
                let dispersion = dispersion_index(&case.numbers("counts")).unwrap();
                case.expect("D", dispersion.index, case.rtol());
                case.expect("p", dispersion.p, case.rtol());
            }
            other => panic!("no test for {other}"),
        },
    );
}

fn poisson_rate(case: &Vector) {
    let (k, exposure, confidence) = (case.number("k"), case.number("T"), case.number("conf"));
    let rate = rate_interval(k, exposure, confidence).unwrap();
    let time = mean_time_interval(k, exposure, confidence).unwrap();
    let upper = rate_upper_limit(k, exposure, confidence).unwrap();
    case.expect("rate_lo", rate.low, case.rtol());
    case.expect("rate_hi", rate.high, case.rtol());
    case.expect("rate_upper_one_sided", upper, case.rtol());
    case.expect("mttf_lo", time.low, case.rtol());
    case.expect("mttf_hi", time.high, case.rtol());
    case.expect("mttf_lower_one_sided", 1.0 / upper, case.rtol());
}

fn ratio(case: &Vector) {
    let first = (case.number("k1"), case.number("T1"));
    let second = (case.number("k2"), case.number("T2"));
    let ratio = effective_ratio(first, second, 0.95).unwrap();
    case.expect_some("ratio", ratio.ratio, case.rtol());
    case.expect("lo", ratio.interval.low, case.rtol());
    case.expect("hi", ratio.interval.high, case.rtol());
    case.expect("p", ratio.p, case.rtol());
}
