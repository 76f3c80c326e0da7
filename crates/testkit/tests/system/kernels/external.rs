//! Interrupt of a device, raised at a known time.

use laggard_model::{Activation, Stage, State};
use laggard_testkit::host::{KernelName, Mode, TestHost};

use super::{on_each_kernel, table};
use crate::hosts::{DEADLINE, activations, fetch, laggard, manifest_of, run, served, show};

#[test]
#[ignore = "boots kernels"]
fn edu_device_is_a_uio_device_on_every_kernel() {
    let outcomes = on_each_kernel(|host| {
        host.edu()
            .command("test -c /dev/uio0 && cat /sys/class/uio/uio0/name")
    });
    for (name, outcome) in outcomes {
        assert_eq!(outcome.output, "uio_pci_generic\n", "{name}");
    }
}

/// Stages that an interrupt of a device must pass.
const EXTERNAL_STAGES: [Stage; 4] = [Stage::Irq, Stage::Waking, Stage::Running, Stage::User];

/// Returns whether the handlers of a UIO device run in threads: on `PREEMPT_RT` all do, and `uio`
/// has one since 6.9.
fn has_interrupt_threads(name: KernelName) -> bool {
    name.series() != "6.1" || name.is_rt()
}

#[test]
#[ignore = "boots kernels"]
fn interrupt_raised_on_time_passes_every_stage_on_every_kernel() {
    let Some(laggard) = laggard() else { return };
    let outcomes = on_each_kernel(|host| {
        host.edu().program(&laggard).deadline(DEADLINE).command(
            "laggard record -q --source uio:/dev/uio0 --duration 4s --period 2ms \
             -o /result/r.laggard",
        )
    });
    for (name, outcome) in outcomes {
        // 3: the overhead of the measurement may be too high in the guest. `show` reports it below.
        let status = outcome.status;
        assert!([0, 3].contains(&status), "{name}: {}", outcome.output);
        let served = served(&outcome, "r.laggard");
        // 2000 in 4 s, dithered.
        assert!(served.len() > 1900, "{name}: {}", served.len());
        let threads = has_interrupt_threads(name).then_some(Stage::IrqThread);
        for activation in &served {
            let passed = |stage: &Stage| activation.steps[stage.index()].is_some();
            let is_whole = EXTERNAL_STAGES.iter().chain(&threads).all(passed);
            assert!(is_whole, "{name}: {activation:?}");
            let is_threaded = passed(&Stage::IrqThread);
            assert_eq!(is_threaded, threads.is_some(), "{name}: {activation:?}");
        }
        let shown = show(&outcome);
        eprintln!("{name}\n{}{}", table(&shown), stage_table(&shown));
        for line in shown.lines().filter(|line| line.contains("its handler")) {
            eprintln!("{line}");
        }
    }
}

/// The handler of the device runs in a thread since 6.9. Its default priority is 50.
const BESIDE_BUSY: &str = "\
    record() { \
        laggard record -q --source uio:/dev/uio0 --services fifo:50 --period 14ms --load busy:4 \
            --episodes off --duration 12s -o /result/$1.laggard || [ $? = 3 ] || exit 1; \
    }; \
    record boosted; \
    (sleep 3; for one in /proc/[0-9]*; do read -r name <$one/comm; case $name in \
        irq/*uio*) chrt -o -p 0 ${one#/proc/};; esac; done) & \
    record normal";

/// Another of Heubaum's contexts: among busy processes, an interrupt's thread runs at once if its
/// priority is higher, and waits for its turn if it is equal.
#[test]
#[ignore = "boots a kernel"]
fn an_interrupt_s_thread_waits_for_busy_processes_only_where_it_is_not_above_them() {
    let Some(laggard) = laggard() else { return };
    let Some(kernel) = fetch("6.12") else { return };
    let host = TestHost::new(kernel)
        .edu()
        .program(&laggard)
        .deadline(DEADLINE)
        .command(BESIDE_BUSY);
    let Some(outcome) = run(host) else { return };
    let outcome = outcome.unwrap();
    assert_eq!(outcome.status, 0, "{}", outcome.output);
    // From the raise to the first instruction of the handler's thread.
    let latencies = |name: &str| -> Vec<u64> {
        let activations = served(&outcome, name);
        let steps = |activation: &Activation| {
            let step = |stage: Stage| Some(activation.steps[stage.index()]?.ns());
            Some(step(Stage::Irq)? + step(Stage::IrqThread)?)
        };
        activations.iter().filter_map(steps).collect()
    };
    let (boosted, normal) = (latencies("boosted.laggard"), latencies("normal.laggard"));
    let mean = |activations: &[u64]| activations.iter().sum::<u64>() / activations.len() as u64;
    let largest = |activations: &[u64]| activations.iter().copied().max().unwrap();

    assert!(boosted.len() > 700 && normal.len() > 700, "{boosted:?}");
    eprintln!(
        "an interrupt's thread next to 4 others: fifo:50 {} ns, at most {}; normal {} ns, at most {}",
        mean(&boosted),
        largest(&boosted),
        mean(&normal),
        largest(&normal)
    );
    assert!(largest(&boosted) < 200_000, "{}", largest(&boosted));
    assert!(largest(&normal) > 1_000_000, "{}", largest(&normal));
    assert!(mean(&boosted) < mean(&normal));
}

/// The interrupt goes to one of the two CPUs, and the thread waits on each CPU in turn, so once
/// on the other.
const ON_EACH_CPU: &str = "\
    cat /proc/irq/$(cat /sys/class/uio/uio0/device/irq)/effective_affinity_list; \
    for cpu in 0 1; do \
        laggard record -q --source uio:/dev/uio0 --cpus $cpu --episodes off --duration 16s \
            --period 20ms -o /result/$cpu.laggard || [ $? = 3 ] || exit 1; \
    done";

#[test]
#[ignore = "boots kernels"]
fn interrupt_reaches_a_thread_on_either_cpu_and_missing_stages_are_counted() {
    let Some(laggard) = laggard() else { return };
    let outcomes = on_each_kernel(|host| {
        host.mode(Mode::Smp)
            .edu()
            .program(&laggard)
            .deadline(DEADLINE)
            .command(ON_EACH_CPU)
    });
    for (name, outcome) in outcomes {
        assert_eq!(outcome.status, 0, "{name}: {}", outcome.output);
        for cpu in 0..2 {
            let recording = format!("{cpu}.laggard");
            let manifest = manifest_of(&outcome, &recording);
            assert_eq!(manifest.state, State::Complete, "{name}");
            assert_eq!(manifest.lines[0].cpu.0, cpu, "{name}");
            let activations = activations(&outcome, &recording);
            // 800 in 16 s, dithered; this machine may stop the raising thread.
            let due = activations.len() as u64 + manifest.losses.not_raised;
            assert!(due > 700, "{name}: {due} on CPU {cpu}");
            assert!(
                activations.len() > 100,
                "{name}: {} on CPU {cpu}",
                activations.len()
            );
            let numbers = |activations: &[Activation]| {
                Some(activations.last()?.seq - activations.first()?.seq + 1)
            };
            let gaps = numbers(&activations).unwrap() - activations.len() as u64;
            let losses = manifest.losses;
            assert!(gaps <= losses.activations(), "{name}: {gaps}, {losses:?}");
            // The raising thread is sometimes late, if this machine stops the two CPUs.
            assert_eq!(
                losses.activations(),
                losses.not_raised,
                "{name}: {losses:?}"
            );
            let lacking = |stage: Stage| {
                let served = activations.iter().filter(|activation| !activation.missed);
                served
                    .filter(|activation| activation.steps[stage.index()].is_none())
                    .count() as u64
            };
            let unseen = [
                (lacking(Stage::Irq), losses.irq_shared),
                (lacking(Stage::Waking), losses.waking_unseen),
                (lacking(Stage::Running), losses.waking_unseen),
                (lacking(Stage::User), 0),
            ];
            for (lacking, counted) in unseen {
                assert!(
                    lacking <= counted + losses.clock_back + losses.out_of_order
                        && lacking * 100 <= activations.len() as u64,
                    "{name}: {unseen:?} of {} on CPU {cpu}, {losses:?}",
                    activations.len()
                );
            }
            eprintln!(
                "{name}: {} of {} on CPU {cpu}, the interrupt on CPU {}",
                activations.len(),
                numbers(&activations).unwrap(),
                outcome.output.trim_end()
            );
        }
    }
}

/// Returns the table of stages from the output of `laggard show`.
fn stage_table(shown: &str) -> String {
    shown
        .split_once("Stages: ")
        .map(|(_, rest)| rest.lines().skip(2).take_while(|line| !line.is_empty()))
        .into_iter()
        .flatten()
        .fold(String::new(), |text, line| text + line + "\n")
}

/// Starts a second recording while the first one runs.
const TWICE: &str = "\
    laggard record -q --source uio:/dev/uio0 --episodes off --duration 3s -o /result/r.laggard & \
    sleep 2; \
    laggard record -q --source uio:/dev/uio0 --episodes off --duration 1s -o /result/second 2>&1; \
    wait $!; cat /proc/irq/$(cat /sys/class/uio/uio0/device/irq)/spurious";

#[test]
#[ignore = "boots kernels"]
fn second_recording_of_a_device_is_refused() {
    let Some(laggard) = laggard() else { return };
    let outcomes = on_each_kernel(|host| {
        host.edu()
            .program(&laggard)
            .deadline(DEADLINE)
            .command(TWICE)
    });
    for (name, outcome) in outcomes {
        let output = &outcome.output;
        assert!(
            output.contains("another recording uses /dev/uio0"),
            "{name}: {output}"
        );
        assert!(
            served(&outcome, "r.laggard").len() > 2000,
            "{name}: {output}"
        );
        assert!(output.contains("unhandled 0"), "{name}: {output}");
        assert!(!outcome.files.join("second").exists(), "{name}");
    }
}
