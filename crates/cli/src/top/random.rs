//! The live view with random measurements.

use laggard_answer::live::Live;
use laggard_model::{Activation, Batch, Cpu, LineId, Losses, Nanos, OwnCost, STAGES, Stage};
use proptest::prelude::*;

use super::look::{LiveLook, Panel};
use super::made::{LINES, START, manifest, screen, summary};

/// Outcome of an expiry.
#[derive(Clone, Copy, Debug)]
enum Fate {
    Served,
    Missed,
    StillWaiting,
    Lost,
}

/// An expiry of a line: how late it was, ns.
type Expiry = (u16, u64, Fate);

fn expiries() -> impl Strategy<Value = Vec<Expiry>> {
    let late = prop_oneof![0..40_000_u64, 0..40_000_000_000_u64];
    let fate = prop_oneof![
        8 => Just(Fate::Served),
        2 => Just(Fate::Missed),
        1 => Just(Fate::StillWaiting),
        1 => Just(Fate::Lost),
    ];
    prop::collection::vec((0..LINES, late, fate), 0..60)
}

/// Runs one look per entry, with the expiries since the previous look.
fn live(looks: &[Vec<Expiry>], cost: OwnCost) -> Live {
    let mut state = Live::new(&manifest(), Nanos::from_secs(1));
    let mut seqs = [0_u64; LINES as usize];
    let mut losses = Losses::default();
    for (look, expiries) in (1..).zip(looks) {
        let mut batch = Batch::default();
        for &(line, late, fate) in expiries {
            let seq = &mut seqs[usize::from(line)];
            *seq += 1;
            if matches!(fate, Fate::Lost) {
                losses.ring_full += 1;
                continue;
            }
            let mut steps = [None; STAGES.len()];
            let irq = matches!(fate, Fate::Served).then(|| Nanos::from_ns(late / 2));
            steps[Stage::Irq.index()] = irq;
            steps[Stage::User.index()] = Some(Nanos::from_ns(late - late / 2));
            batch.push(&Activation {
                line: LineId(line),
                seq: *seq - 1,
                expiry: START + Nanos::from_ms(look * 400),
                missed: !matches!(fate, Fate::Served),
                censored: matches!(fate, Fate::StillWaiting),
                steps,
            });
        }
        let now = START + Nanos::from_ms(look * 400);
        state.observe(&batch, Vec::new(), losses, (START, now));
    }
    state.end(&[], losses, cost);
    state
}

fn assert_clean(text: &str) {
    assert!(
        text.chars().all(|char| char == '\n' || !char.is_control()),
        "{text:?}"
    );
    for part in ["NaN", "0 of 0", "``", "()"] {
        assert!(!text.contains(part), "`{part}` in\n{text}");
    }
    for word in
        text.split(|letter: char| !(letter.is_ascii_alphanumeric() || "-.".contains(letter)))
    {
        let below = word.strip_prefix('-').unwrap_or_default();
        let is_below = below.starts_with(|first: char| first.is_ascii_digit());
        // The axis of the map is the age.
        let ago = below.strip_suffix('s').map(str::parse::<u32>);
        let is_ago = matches!(ago, Some(Ok(ago)) if ago % 10 == 0);
        assert!(word != "inf" && (is_ago || !is_below), "{word} in\n{text}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn the_live_view_is_drawn_in_numbers(
        looks in prop::collection::vec(expiries(), 0..8),
        (wall, busy) in (0..10_000_000_000_u64, 0..20_000_000_000_u64),
        cpu in prop::option::of((0..2_u32).prop_map(Cpu)),
    ) {
        let cost = OwnCost {
            wall_ns: Nanos::from_ns(wall),
            measuring_cpu_ns: Nanos::from_ns(busy),
            ..OwnCost::default()
        };
        let state = live(&looks, cost);

        for row in state.rows(cpu) {
            for figures in row.windows {
                // Quantiles round up, by 1.09 % at most.
                let most = figures.max.map(|max| Nanos::from_ns(max.ns() + max.ns() / 50 + 16));
                prop_assert!(figures.p50.is_none() || figures.p50 <= figures.p99.or(figures.p50));
                prop_assert!(figures.p99.is_none() || figures.p99 <= most, "{figures:?}");
                prop_assert_eq!(figures.count == 0, figures.max.is_none());
            }
            prop_assert!(row.still_waiting <= row.missed);
        }
        state.judge();
        let mut look = LiveLook::new(None);
        look.cpu = cpu;
        for panel in [Panel::Late, Panel::Histogram, Panel::Heat, Panel::Info] {
            look.panel = panel;
            for size in [(80, 24), (140, 40)] {
                assert_clean(&screen(size, &state, &look));
            }
        }
        assert_clean(&summary(&state));
    }
}
