//! Buffers, replays and mean times to failure.

use laggard_analyze::exceedance::Blackout;
use laggard_analyze::qos::{Buffering, late_jobs, paper_mean_time};

use super::vector::{Vector, every_case};
use crate::closed_form::failures_of_isolated_stalls;

#[test]
fn qos_agrees_with_the_reference() {
    every_case(
        include_str!("mttf.json"),
        18,
        |function, case| match function {
            "tolerance_slack" => {
                let buffering = buffering(case, case.number("t"), case.number("c"));
                case.expect("tolerance", buffering.tolerance(), case.rtol());
                case.expect("slack", buffering.slack(), case.rtol());
            }
            "paper_mttf" => {
                let buffering = buffering(case, case.number("t_ms"), 0.0);
                let mean_time = paper_mean_time(buffering, case.number("p")).unwrap();
                case.expect("mttf_ms", mean_time, case.rtol());
            }
            "replay_blackouts" => blackout_replay(case),
            "stall_rate_mttf" => {
                let buffering = buffering(case, case.number("t"), case.number("c"));
                let (rate, lengths) = (case.number("stall_rate"), case.numbers("S"));
                let failures = failures_of_isolated_stalls(rate, &lengths, buffering);
                case.expect("episode_rate", failures.episode_rate, case.rtol());
                case.expect("miss_rate", failures.miss_rate, case.rtol());
            }
            other => panic!("no test for {other}"),
        },
    );
}

fn buffering(case: &Vector, period: f64, compute: f64) -> Buffering {
    let buffers = u32::try_from(case.count("n")).unwrap();
    Buffering::new(buffers, period, compute).unwrap()
}

fn blackouts(case: &Vector, key: &str) -> Vec<Blackout> {
    let pairs = case.pairs(key).into_iter();
    pairs
        .map(|(start, end)| Blackout::new(start, end))
        .collect()
}

fn blackout_replay(case: &Vector) {
    let buffering = buffering(case, case.number("t"), case.number("c"));
    let (until, phase) = (case.number("T"), case.number("phase"));
    let late = late_jobs(&blackouts(case, "blackouts"), until, buffering, phase, 0.0).unwrap();
    assert_eq!(late.misses.len(), case.index("misses"));
    assert_eq!(late.episodes.len(), case.index("episodes"));
}
