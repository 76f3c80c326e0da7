//! Periodic sources and hidden ticks.

use laggard_analyze::period::{CombSearch, TickSearch, find_comb, find_tick};

use super::vector::{Vector, every_case};

#[test]
fn periods_agree_with_the_reference() {
    every_case(
        include_str!("period.json"),
        8,
        |function, case| match function {
            "comb_scan" => comb(case),
            "tick_search" => tick(case),
            other => panic!("no test for {other}"),
        },
    );
}

fn comb(case: &Vector) {
    let search = CombSearch {
        longest: case.number("pmax"),
        ..CombSearch::new(case.number("T"), case.number("w"), case.number("pmin"))
    };
    let result = find_comb(&case.numbers("t"), &search).unwrap();
    assert_eq!(result.is_some(), case.flag("found"));
    if let Some(comb) = result {
        case.expect("P", comb.period, case.rtol());
        case.expect("phase", comb.phase, case.rtol());
        assert_eq!(comb.hits, case.index("hits"));
        assert_eq!(comb.teeth, case.index("teeth"));
        case.expect("score", comb.score, case.rtol());
    }
}

fn tick(case: &Vector) {
    let times = case.numbers("times_us");
    let search = TickSearch {
        shortest: case.number("lo"),
        longest: case.number("hi"),
        requested: Some(case.number("p_request")),
    };
    let tick = find_tick(&times, search).unwrap();
    if !case.has("tau") {
        case.expect_within("p", tick.p, case.number("atol"));
        return;
    }
    case.expect_within("tau", tick.period, case.number("atol_tau"));
    case.expect("power", tick.power, case.rtol());
    case.expect("p", tick.p, case.rtol());
}
