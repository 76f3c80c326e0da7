//! Every planned expiry is served, missed or lost exactly once, for any lines, stalls, start and
//! end.

use std::collections::BTreeSet;
use std::time::Duration;

use laggard_measure::fake::{FakeProbe, Script, ScriptLine, ScriptedSpan};
use laggard_measure::{Probe, Timeline};
use laggard_model::{Account, Activation, Batch, Nanos, Route, Service, Stage};
use proptest::prelude::*;

/// Time that the end waits for a service.
const END_WAIT: Nanos = Nanos::from_secs(3);

/// Script of a run, and the times when it is read.
#[derive(Clone, Debug)]
struct Scenario {
    script: Script,
    /// Time between two passes in ms. Rings overflow in long ones.
    pauses_ms: Vec<u64>,
    /// Pass before which the recording restarts, as in `top`.
    anew_at: Option<usize>,
}

fn line() -> impl Strategy<Value = ScriptLine> {
    // A step longer than the period makes every second expiry missed.
    let step = prop_oneof![4 => 1_000_u64..90_000, 1 => 1_000_u64..3_000_000];
    let starved = prop_oneof![2 => Just(None), 1 => (0_u64..3_000_000_000).prop_map(Some)];
    (prop::collection::vec(step, 1..5), starved).prop_map(|(steps, starved_from_ns)| ScriptLine {
        service: Service::Fifo(90),
        route: Route::Direct,
        steps: steps
            .into_iter()
            .map(|ns| vec![(Stage::Irq, ns / 2), (Stage::User, ns - ns / 2)])
            .collect(),
        starved_from_ns,
    })
}

fn span(max_ns: u64) -> impl Strategy<Value = ScriptedSpan> {
    (0_u64..3_000_000_000, 1..max_ns)
        .prop_map(|(at_ns, length_ns)| ScriptedSpan { at_ns, length_ns })
}

fn run() -> impl Strategy<Value = Scenario> {
    let script = (
        150_000_u64..2_000_000,
        any::<bool>(),
        any::<u64>(),
        prop::collection::vec(line(), 1..4),
        prop::collection::vec(span(8_000_000_000), 0..3),
        prop::collection::vec(span(20_000_000), 0..2),
    );
    let script = script.prop_map(
        |(period_ns, dither, seed, lines, stalls, clock_steps)| Script {
            period_ns,
            dither,
            seed,
            lines,
            stalls,
            clock_steps,
        },
    );
    let pauses = prop::collection::vec(1_u64..400, 1..7);
    (script, pauses, prop::option::of(0_usize..8)).prop_map(|(script, pauses_ms, anew_at)| {
        Scenario {
            script,
            pauses_ms,
            anew_at,
        }
    })
}

/// Result of a run: its start and end, the rows and the accounts.
struct RunResult {
    begin: Nanos,
    end: Nanos,
    rows: Vec<Activation>,
    accounts: Vec<Account>,
}

fn play(run: &Scenario) -> (Nanos, RunResult) {
    let mut probe = FakeProbe::new(run.script.clone()).unwrap();
    let start = probe.start().unwrap();
    let (mut begin, mut rows) = (start, Batch::default());
    for (look, &pause_ms) in run.pauses_ms.iter().enumerate() {
        if run.anew_at == Some(look) {
            begin = probe.begin_anew();
            rows.clear();
        }
        probe.pause(Duration::from_millis(pause_ms));
        probe.drain(&mut rows);
    }
    let end = probe.stop();
    probe.drain(&mut rows);
    let outcome = RunResult {
        begin,
        end,
        rows: rows.iter().collect(),
        accounts: probe.accounts(),
    };
    (start, outcome)
}

/// Returns the expiries of line `place` from `begin` to `end`.
fn planned(script: &Script, place: usize, start: Nanos, span: (Nanos, Nanos)) -> BTreeSet<Nanos> {
    let number = |count: usize| u32::try_from(count).unwrap();
    let period = Nanos::from_ns(script.period_ns);
    let places = number(script.lines.len());
    let (seed, dither) = (script.seed, script.dither);
    let mut timeline = Timeline::new(seed, period, dither, number(place), places, start);
    let mut expiries = BTreeSet::new();
    while timeline.expiry() < span.1 {
        if timeline.expiry() >= span.0 {
            expiries.insert(timeline.expiry());
        }
        timeline.advance();
    }
    expiries
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn served_missed_and_lost_add_up_to_the_plan_and_given_up_expiries_were_unserved(run in run()) {
        let (start, outcome) = play(&run);

        for (place, account) in outcome.accounts.iter().enumerate() {
            let own = outcome.rows.iter().filter(|row| usize::from(row.line.0) == place);
            let own: Vec<&Activation> = own.collect();
            let planned = planned(&run.script, place, start, (outcome.begin, outcome.end));
            prop_assert_eq!(account.planned, Some(planned.len() as u64));
            prop_assert_eq!(own.len() as u64 + account.lost, planned.len() as u64);
            let expiries: BTreeSet<Nanos> = own.iter().map(|row| row.expiry).collect();
            prop_assert_eq!(expiries.len(), own.len(), "an expiry came twice");
            prop_assert!(expiries.is_subset(&planned));
            prop_assert!(own.windows(2).all(|two| two[0].seq < two[1].seq));
            // A gap in the numbers is a loss.
            let numbers = own.last().map_or(0, |row| row.seq + 1);
            prop_assert!(numbers - own.len() as u64 <= account.lost);
        }

        // An expiry that was given up had not been served by then.
        let end_of = |row: &Activation| row.expiry + row.latency();
        for row in outcome.rows.iter().filter(|row| row.censored) {
            let line = &run.script.lines[usize::from(row.line.0)];
            prop_assert!(row.missed);
            prop_assert_eq!(end_of(row), outcome.end + END_WAIT);
            // The line is starved, or a stall lasts beyond the end.
            let lasts = run.script.stalls.iter().any(|stall| stall.length_ns > END_WAIT.ns());
            prop_assert!(line.starved_from_ns.is_some() || lasts);
            let served = outcome.rows.iter().filter(|activation| activation.line == row.line && !activation.censored);
            prop_assert!(served.map(end_of).all(|end| end < row.expiry));
        }
    }
}
