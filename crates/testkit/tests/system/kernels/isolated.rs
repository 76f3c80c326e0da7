//! Isolated CPUs (`nohz_full`): the kernel queues their threads' timers on another CPU.

use laggard_model::{CaveatKind, Manifest, Stage};
use laggard_testkit::host::{Mode, TestHost};

use crate::hosts::{DEADLINE, cycles, fetch, laggard, manifest_of, run, served};

/// The second recording is of timers that stay.
const COMMAND: &str = "\
    record() { \
        laggard record -q --cpus 1 --services softirq,fifo:90,other --period 20ms --episodes off \
            --duration 6s -o /result/$1 || [ $? = 3 ] || exit 1; \
    }; \
    record moved; sysctl -w kernel.timer_migration=0; record kept";

fn says_elsewhere(manifest: &Manifest) -> bool {
    let mut kinds = manifest.caveats.iter().map(|caveat| caveat.kind);
    kinds.any(|kind| kind == CaveatKind::TimerElsewhere)
}

/// Boots one stock and one `PREEMPT_RT` kernel.
#[test]
#[ignore = "boots kernels"]
fn a_timer_that_expires_on_another_cpu_is_reported() {
    let Some(laggard) = laggard() else { return };
    for name in ["6.12", "6.12-rt"] {
        let Some(kernel) = fetch(name) else { return };
        let host = TestHost::new(kernel)
            .mode(Mode::Smp)
            .kernel_arguments("nohz_full=1 isolcpus=1")
            .program(&laggard)
            .deadline(DEADLINE)
            .command(COMMAND);
        let Some(outcome) = run(host) else { return };
        let outcome = outcome.unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(outcome.status, 0, "{name}: {}", outcome.output);
        for (recording, moves) in [("moved", true), ("kept", false)] {
            let manifest = manifest_of(&outcome, recording);
            let rows = served(&outcome, recording);
            assert!(rows.len() > 100, "{name} {recording}: {}", rows.len());
            let has = |stage: Stage| {
                let rows = rows.iter();
                rows.filter(|row| row.steps[stage.index()].is_some())
                    .count()
            };

            let losses = manifest.losses;
            // A timer whose time has passed is not queued.
            let unseen = losses.expire_unseen * 20;
            assert!(unseen < rows.len() as u64, "{name} {recording}: {losses:?}");
            assert_eq!(has(Stage::IrqElsewhere) > 0, moves, "{name} {recording}");
            assert_eq!(says_elsewhere(&manifest), moves, "{name} {recording}");
            let both = rows.iter().find(|row| {
                let has = |stage: Stage| row.steps[stage.index()].is_some();
                has(Stage::Irq) && has(Stage::IrqElsewhere)
            });
            assert_eq!(both, None, "{name} {recording}");
            eprintln!(
                "{name} {recording}: {} served, interrupt here {}, elsewhere {}, callback not seen {}",
                rows.len(),
                has(Stage::Irq),
                has(Stage::IrqElsewhere),
                losses.expire_unseen
            );
        }
    }
}

/// Timers of a thread there expire on another CPU or on its own. In both cases each cycle is
/// reported, with at most the latency that cyclictest prints, which reads its clock after it ran.
#[test]
#[ignore = "boots kernels"]
fn attach_reports_each_cycle_on_an_isolated_cpu() {
    let Some(laggard) = laggard() else { return };
    for name in ["6.12", "6.12-rt"] {
        for migration in ["1", "0"] {
            let Some(kernel) = fetch(name) else { return };
            let command = format!(
                "sysctl -w kernel.timer_migration={migration}; \
                 laggard attach --json --activations /result/activations -- \
                     cyclictest -m -p 80 -t 1 -a 1 -i 10000 -l 300 -v -N >/result/cycles"
            );
            let host = TestHost::new(kernel)
                .mode(Mode::Smp)
                .kernel_arguments("nohz_full=1 isolcpus=1")
                .program(&laggard)
                .deadline(DEADLINE)
                .command(&command);
            let Some(outcome) = run(host) else { return };
            let outcome = outcome.unwrap_or_else(|error| panic!("{name}: {error}"));
            assert_eq!(outcome.status, 0, "{name}: {}", outcome.output);

            let (ours, own) = cycles(&outcome);

            // It may end before it has printed the last cycle.
            assert!((299..=300).contains(&own.len()), "{name}: {}", own.len());
            // cyclictest ends during the last cycle.
            assert_eq!(ours.len(), 299, "{name}");
            let later = ours
                .iter()
                .zip(&own)
                .position(|(measured, own)| *measured > Some(*own));
            assert_eq!(later, None, "{name}: {ours:?} {own:?}");
            eprintln!("{name}, timer_migration {migration}: {} cycles", ours.len());
        }
    }
}
