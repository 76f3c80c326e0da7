use laggard_answer::live::{LateActivation, LatePart};
use laggard_model::{
    Activation, Batch, CauseClass, Caveat, CaveatKind, Cpu, Host, LineId, Losses, Manifest,
    NamedCause, Nanos, OwnCost, Processor, STAGES, Stage,
};

use super::*;
use crate::top::look::KeptRecording;
use crate::top::made::{self, LINES, START, screen};

/// Returns a measurement on a machine with a name and a warning.
fn manifest() -> Manifest {
    Manifest {
        host: Host {
            node: "robot".into(),
            kernel: "6.12.9-rt".into(),
            preemption: Some("rt".into()),
            processor: Processor {
                model: "Some Processor".into(),
                ..Processor::default()
            },
            ..Host::default()
        },
        caveats: vec![Caveat::new(
            CaveatKind::Governor,
            "the governor of CPU 0 is powersave",
            "write performance to scaling_governor",
        )],
        ..made::manifest()
    }
}

/// Returns a latency that depends on the number, with some late ones.
fn latency(line: u16, second: u64, number: u64) -> Nanos {
    let ordinary = 12_000 + u64::from(line) * 4_000 + (number * 37 % 100) * 60;
    let late = match (line, second % 12, number) {
        (0, 3, 50) => 7_000_000,
        (1, 7, 20) => 24_000_000,
        (3, _, 90) => 300_000,
        _ => 0,
    };
    Nanos::from_ns(ordinary + late)
}

/// Returns a run of `seconds` with 100 wakeups per second and series.
fn state(seconds: u64) -> Live {
    let mut state = Live::new(&manifest(), Nanos::from_secs(1));
    for second in 0..seconds {
        let mut batch = Batch::default();
        for line in 0..LINES {
            for number in 0..100 {
                let mut steps = [None; STAGES.len()];
                steps[Stage::Irq.index()] = Some(Nanos::from_us(7));
                steps[Stage::User.index()] = Some(latency(line, second, number));
                batch.push(&Activation::new(
                    LineId(line),
                    second * 100 + number,
                    START + Nanos::from_ms(second * 1_000 + number * 10),
                    steps,
                ));
            }
        }
        let late = (second % 12 == 7).then(|| LateActivation {
            at: Nanos::from_ms(second * 1_000 + 200),
            line: made::manifest().lines[1],
            name: "SCHED_FIFO 90".into(),
            cpu: Cpu(1),
            latency: Nanos::from_us(24_024),
            censored: false,
            stages: Vec::new(),
            number: Some(second / 12 + 1),
            causes: vec![
                LatePart {
                    time: Nanos::from_us(21_000),
                    cause: NamedCause::new(CauseClass::Stolen, None),
                    without_place: NamedCause::new(CauseClass::Stolen, None),
                },
                LatePart {
                    time: Nanos::from_us(3_024),
                    cause: NamedCause::new(CauseClass::Softirq, Some("NET_RX")),
                    without_place: NamedCause::new(CauseClass::Softirq, Some("NET_RX")),
                },
            ],
        });
        let losses = Losses {
            irq_shared: second,
            ..Losses::default()
        };
        let now = START + Nanos::from_secs(second + 1);
        state.observe(&batch, late.into_iter().collect(), losses, (START, now));
    }
    state.cost = Some(OwnCost {
        wall_ns: Nanos::from_secs(10),
        measuring_cpu_ns: Nanos::from_ms(300),
        ..OwnCost::default()
    });
    state
}

#[test]
fn a_small_terminal_shows_the_table_and_one_panel() {
    insta::assert_snapshot!(screen((80, 24), &state(70), &LiveLook::new(None)));
}

#[test]
fn a_large_terminal_shows_three_panels_and_more_figures() {
    let mut look = LiveLook::new(Some(KeptRecording {
        dir: "robot.laggard".into(),
        from: Nanos::ZERO,
    }));
    look.selected = 1;
    insta::assert_snapshot!(screen((140, 40), &state(70), &look));
}

#[test]
fn a_wakeup_that_is_still_waiting_has_a_lower_bound() {
    let mut state = state(5);
    let mut steps = [None; STAGES.len()];
    steps[Stage::User.index()] = Some(Nanos::from_ms(1_300));
    let mut batch = Batch::default();
    batch.push(&Activation {
        line: LineId(1),
        seq: 500,
        expiry: START + Nanos::from_ms(4_700),
        missed: true,
        censored: true,
        steps,
    });
    let now = START + Nanos::from_secs(6);
    state.observe(&batch, Vec::new(), Losses::default(), (START, now));

    for (size, largest) in [((80, 24), "≥1.3s"), ((140, 40), "≥1.30 s")] {
        let text = screen(size, &state, &LiveLook::new(None));
        let rows: Vec<&str> = text.lines().filter(|line| line.contains('≥')).collect();
        assert!(
            rows.iter().any(|row| row.contains("SCHED_FIFO 90")),
            "{text}"
        );
        assert!(
            rows.iter().all(|row| !row.contains("SCHED_OTHER")),
            "{text}"
        );
        assert!(rows.iter().any(|row| row.contains(largest)), "{text}");
    }
    assert!(made::summary(&state).contains(" >= 1.30 s "));
}

#[test]
fn every_panel_fits_a_small_terminal() {
    let state = state(30);
    let mut look = LiveLook::new(None);
    look.cpu = Some(Cpu(1));
    for (panel, words) in [
        (Panel::Late, "late wakeups"),
        (
            Panel::Histogram,
            "SCHED_FIFO 90, CPU 1, since start: histogram",
        ),
        (Panel::Heat, "max of each second, per CPU"),
        (Panel::Info, "Warning: the governor of CPU 0 is powersave"),
    ] {
        look.panel = panel;
        look.selected = 1;
        let text = screen((80, 24), &state, &look);

        assert!(text.contains(words), "{words} is not in\n{text}");
        assert!(text.contains("q quit"), "{text}");
    }
}

#[test]
fn the_map_marks_the_seconds_that_were_late() {
    let state = state(30);
    let mut look = LiveLook::new(None);
    (look.panel, look.selected) = (Panel::Heat, 1);

    let text = screen((80, 24), &state, &look);

    let row = |name: &str| text.lines().find(|line| line.contains(name)).unwrap();
    let count = |name, sign| row(name).matches(sign).count();
    // Seconds 3, 15 and 27 on CPU 0: 7 ms; 7 and 19 on CPU 1: 24 ms.
    assert_eq!(count("CPU 0", '▓'), 3, "{text}");
    assert_eq!(count("CPU 1", '█'), 2, "{text}");
}

#[test]
fn the_map_has_one_row_for_each_cpu() {
    let mut look = LiveLook::new(None);
    (look.panel, look.selected) = (Panel::Heat, 1);

    let text = screen((140, 40), &state(30), &look);

    for cpu in ["CPU 0 ", "CPU 1 "] {
        assert_eq!(text.matches(cpu).count(), 1, "{cpu} in\n{text}");
    }
}

#[test]
fn the_last_minute_has_its_length_until_a_minute_has_passed() {
    for (seconds, words) in [(12, "last 12 s"), (59, "last 59 s"), (60, "last minute")] {
        let text = screen((80, 24), &state(seconds), &LiveLook::new(None));

        assert!(text.contains(words), "{words} is not in\n{text}");
    }
    let mut reset = state(70);
    reset.reset();
    let text = screen((80, 24), &reset, &LiveLook::new(None));
    assert!(!text.contains("last minute"), "{text}");
    assert!(text.contains("since reset"), "{text}");
}

#[test]
fn the_first_line_has_a_mark_for_a_recording() {
    let dir = "/home/somebody/with/a/long/name/top-2026-01-01T00-00-00.laggard";
    let mut look = LiveLook::new(Some(KeptRecording {
        dir: dir.into(),
        from: Nanos::from_secs(3),
    }));
    look.is_paused = true;
    let first = |text: &str| text.lines().next().unwrap().to_owned();

    let line = first(&screen((80, 24), &state(70), &look));
    for part in ["1:10", "2 CPUs", "every 1ms", "eBPF", "PAUSED", "REC"] {
        assert!(line.contains(part), "{part} is not in {line}");
    }
    let narrow = first(&screen((60, 24), &state(70), &look));
    assert!(
        narrow.contains("eBPF  ") && narrow.contains("PAUSED REC"),
        "{narrow}"
    );
    look.panel = Panel::Info;
    let text = screen((120, 30), &state(70), &look);
    assert!(text.contains(&format!("from 0:03, to {dir}")), "{text}");
}

#[test]
fn a_small_terminal_shows_the_minimum_size() {
    let text = screen((40, 10), &state(1), &LiveLook::new(None));

    assert!(text.contains("needs 60 columns and 18"), "{text}");
    assert!(text.contains("has 40 and 10"), "{text}");
}

#[test]
fn a_screen_without_samples_is_drawn_at_any_size() {
    let state = Live::new(&manifest(), Nanos::from_secs(1));
    for size in [(1, 1), (60, 18), (80, 24), (110, 30), (300, 100)] {
        for panel in [Panel::Late, Panel::Histogram, Panel::Heat, Panel::Info] {
            let mut look = LiveLook::new(None);
            (look.panel, look.shows_help) = (panel, true);
            let text = screen(size, &state, &look);

            assert!(!text.is_empty(), "for {size:?}");
        }
    }
}

#[test]
fn the_help_names_every_key() {
    let mut look = LiveLook::new(None);
    look.shows_help = true;

    let text = screen((80, 24), &state(2), &look);

    for (key, _) in KEYS {
        assert!(text.contains(key), "{key} is not in\n{text}");
    }
}
