//! Comparison of two systems; resolution and observer effects.

use laggard_analyze::compare::{ComparisonVerdict, Magnitude, compare_ranks, compare_rates, holm};
use laggard_analyze::resolution::{
    exceedance_band, tail_inflation_triangular, tail_inflation_uniform,
};

use crate::vector::{Vector, every_case};

#[test]
fn comparisons_agree_with_the_reference() {
    every_case(
        include_str!("ab_resolution.json"),
        11,
        |function, case| match function {
            "verdict" => verdict(case),
            "mann_whitney" => {
                let test = compare_ranks(&case.numbers("a"), &case.numbers("b")).unwrap();
                case.expect("A", test.second_larger, case.rtol());
                case.expect("p", test.p, case.rtol());
            }
            "holm" => {
                let adjusted = holm(&case.numbers("p")).unwrap();
                case.expect_list("adj", &adjusted, case.rtol());
            }
            "tail_bias" => {
                let (error, scale) = (case.number("delta"), case.number("m"));
                let uniform = tail_inflation_uniform(error, scale).unwrap();
                case.expect("uniform", uniform, case.rtol());
                let triangular = tail_inflation_triangular(error, scale).unwrap();
                case.expect("triangular", triangular, case.rtol());
            }
            "exceed_band" => {
                let (latencies, level) = (case.numbers("lat"), case.number("x"));
                let band = exceedance_band(&latencies, level, case.number("delta")).unwrap();
                let found = [band.at_least, band.measured, band.at_most].map(|count| count as f64);
                case.expect_list("out", &found, 0.0);
            }
            other => panic!("no test for {other}"),
        },
    );
}

fn verdict(case: &Vector) {
    let first = (case.count("kA"), case.number("TA"));
    let second = (case.count("kB"), case.number("TB"));
    let found = compare_rates(first, second, case.number("margin"), 0.95).unwrap();
    case.expect_some("ratio", found.ratio.ratio, case.rtol());
    case.expect("lo", found.ratio.interval.low, case.rtol());
    case.expect("hi", found.ratio.interval.high, case.rtol());
    case.expect("p", found.ratio.p, case.rtol());
    let verdict = match found.verdict {
        ComparisonVerdict::Worse => "B worse",
        ComparisonVerdict::Better => "B better",
        ComparisonVerdict::Equivalent => "equivalent",
        ComparisonVerdict::Inconclusive => "inconclusive",
    };
    assert_eq!(verdict, case.text("verdict"));
    let magnitude = match found.magnitude {
        Magnitude::TenTimesWorse => "at least 10x worse",
        Magnitude::TenTimesBetter => "at least 10x better",
        Magnitude::Compatible => "compatible with 10x",
        Magnitude::Less => "not 10x",
    };
    assert_eq!(magnitude, case.text("order_of_magnitude"));
}
