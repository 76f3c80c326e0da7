//! Comparison of two systems.

use laggard_analyze::compare::{
    ComparisonVerdict, Magnitude, RecordingCount, compare_recordings, holm,
};

use super::vector::{Vector, every_case};

#[test]
fn comparisons_agree_with_the_reference() {
    every_case(
        include_str!("compare.json"),
        5,
        |function, case| match function {
            "verdict" => verdict(case),
            "holm" => {
                let adjusted = holm(&case.numbers("p")).unwrap();
                case.expect_list("adj", &adjusted, case.rtol());
            }
            other => panic!("no test for {other}"),
        },
    );
}

fn verdict(case: &Vector) {
    let side = |events, exposure| RecordingCount {
        events: case.number(events),
        dispersion: 1.0,
        exposure: case.number(exposure),
    };
    let (first, second) = (side("kA", "TA"), side("kB", "TB"));
    let sets = compare_recordings(&[first], &[second], case.number("margin"), 0.95).unwrap();
    let result = sets.comparison;
    case.expect_some("ratio", result.ratio.ratio, case.rtol());
    case.expect("lo", result.ratio.interval.low, case.rtol());
    case.expect("hi", result.ratio.interval.high, case.rtol());
    case.expect("p", result.ratio.p, case.rtol());
    let verdict = match result.verdict {
        ComparisonVerdict::Worse => "B worse",
        ComparisonVerdict::Better => "B better",
        ComparisonVerdict::Equivalent => "equivalent",
        ComparisonVerdict::Inconclusive => "inconclusive",
    };
    assert_eq!(verdict, case.text("verdict"));
    let magnitude = match result.magnitude {
        Magnitude::TenTimesWorse => "at least 10x worse",
        Magnitude::TenTimesBetter => "at least 10x better",
        Magnitude::Compatible => "compatible with 10x",
        Magnitude::Less => "not 10x",
    };
    assert_eq!(magnitude, case.text("order_of_magnitude"));
}
