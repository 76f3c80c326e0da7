//! Buffers, replays and mean times to failure.

use laggard_analyze::qos::{
    Blackout, Buffering, Carry, MissPolicy, blackout_bounds, extremal_index_of_isolated_stalls,
    failures_of_isolated_stalls, paper_mean_time, replay_blackouts, replay_series,
};
use laggard_analyze::resolution::backfilled;

use crate::vector::{Vector, every_case};

#[test]
fn qos_agrees_with_the_reference() {
    every_case(
        include_str!("mttf.json"),
        27,
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
            "replay_series" => series(case),
            "replay_blackouts" => blackout_replay(case),
            "stall_rate_mttf" => {
                let buffering = buffering(case, case.number("t"), case.number("c"));
                let (rate, lengths) = (case.number("stall_rate"), case.numbers("S"));
                let failures = failures_of_isolated_stalls(rate, &lengths, buffering).unwrap();
                case.expect("episode_rate", failures.episode_rate, case.rtol());
                case.expect("miss_rate", failures.miss_rate, case.rtol());
            }
            "co_correct" => {
                let filled = backfilled(&case.numbers("lat"), case.number("interval")).unwrap();
                case.expect_list("out", &filled, case.number("atol"));
            }
            "theta_exp_excess" => {
                let (t, m) = (case.number("t"), case.number("m"));
                let theta = extremal_index_of_isolated_stalls(t, m).unwrap();
                case.expect("theta", theta, case.rtol());
            }
            "blackout_bounds" => bounds(case),
            other => panic!("no test for {other}"),
        },
    );
}

fn buffering(case: &Vector, period: f64, compute: f64) -> Buffering {
    let buffers = u32::try_from(case.count("n")).unwrap();
    Buffering::new(buffers, period, compute).unwrap()
}

fn series(case: &Vector) {
    let carry = match case.text("model") {
        "max" => Carry::Longest,
        "add" => Carry::Sum,
        other => panic!("no model {other}"),
    };
    let policy = match case.text("policy") {
        "late" => MissPolicy::Late,
        "drop" => MissPolicy::Drop,
        "reset" => MissPolicy::Reset,
        other => panic!("no policy {other}"),
    };
    let buffering = buffering(case, case.number("t"), case.number("c"));
    let replay = replay_series(&case.numbers("lat"), buffering, carry, policy).unwrap();
    assert_eq!(replay.misses, case.index("misses"));
    assert_eq!(replay.episodes, case.index("episodes"));
    case.expect_list("R", &replay.responses, case.number("atol"));
}

fn blackouts(case: &Vector, key: &str) -> Vec<Blackout> {
    let pairs = case.pairs(key).into_iter();
    pairs.map(|(start, end)| Blackout { start, end }).collect()
}

fn blackout_replay(case: &Vector) {
    let buffering = buffering(case, case.number("t"), case.number("c"));
    let (until, phase) = (case.number("T"), case.number("phase"));
    let replay =
        replay_blackouts(&blackouts(case, "blackouts"), until, buffering, phase, 0.0).unwrap();
    assert_eq!(replay.misses, case.index("misses"));
    assert_eq!(replay.episodes, case.index("episodes"));
    assert_eq!(replay.responses.len(), case.index("jobs"));
    let longest = replay.responses.iter().copied().fold(0.0, f64::max);
    case.expect_within("Rmax", longest, case.number("atol"));
    let sum = replay.responses.iter().sum();
    case.expect_within("Rsum", sum, case.number("atol"));
}

fn bounds(case: &Vector) {
    let (activations, latencies) = (case.numbers("act"), case.numbers("lat"));
    let (period, floor) = (case.number("period"), case.number("floor"));
    let bounds = blackout_bounds(&activations, &latencies, period, floor).unwrap();
    for (key, found) in [("inner", bounds.inner), ("outer", bounds.outer)] {
        let expected = blackouts(case, key);
        assert_eq!(found.len(), expected.len(), "{key}");
        for (found, expected) in found.iter().zip(expected) {
            assert!((found.start - expected.start).abs() <= case.number("atol"));
            assert!((found.end - expected.end).abs() <= case.number("atol"));
        }
    }
}
