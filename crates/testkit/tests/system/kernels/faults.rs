//! Injected faults of known length and cause, in virtual time.

use std::fs;

use laggard_testkit::host::TestHost;
use serde_json::Value;

use super::kernels;
use crate::hosts::{DEADLINE, laggard, run};

/// Length of each hit, and the least part of it that `why` must attribute to its cause: wakeups
/// come up to a period of 1 ms after its start.
const HIT: &str = "5ms";
const MIN_SEEN_NS: u64 = 3_500_000;

/// Fault, class of its cause, and a part of the culprit.
const FAULTS: [(&str, &str, &str); 4] = [
    ("thread", "higher_priority", "lag/thread"),
    ("irqs-off", "interrupts_off", "lag/irqs-off"),
    ("irq", "interrupt", "local timer"),
    ("softirq", "softirq", "HRTIMER"),
];

/// The largest cause of late wakeups must be the injected fault.
#[test]
#[ignore = "boots kernels"]
fn injected_fault_is_the_largest_cause_on_every_kernel() {
    let Some(laggard) = laggard() else { return };
    for kernel in kernels() {
        let name = kernel.name;
        // PREEMPT_RT: the softirq runs in a thread.
        let faults = FAULTS
            .iter()
            .filter(|(fault, _, _)| *fault != "softirq" || !name.is_rt());
        let command: String = faults
            .clone()
            .map(|(fault, _, _)| {
                format!(
                    "laggard provoke {fault} --length {HIT} --every 300ms >/dev/null & fault=$!; \
                     laggard record -q --services fifo:90 --threshold 1ms --duration 3s \
                         -o /{fault}.laggard || [ $? = 3 ] || exit 1; \
                     kill $fault; wait $fault; \
                     laggard why --json /{fault}.laggard >/result/{fault} || exit 2; "
                )
            })
            .collect();
        let host = TestHost::new(kernel)
            .program(&laggard)
            .deadline(DEADLINE)
            .command(&command);
        let Some(outcome) = run(host) else { return };
        let outcome = outcome.unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(outcome.status, 0, "{name}: {}", outcome.output);

        for (fault, class, culprit) in faults {
            let text = fs::read(outcome.files.join(fault)).unwrap();
            let report: Value = serde_json::from_slice(&text).unwrap();
            let cause = &report["series"][0]["causes"][0];
            let largest = cause["largest_ns"].as_u64().unwrap_or_default();
            let who = cause["who"].as_str().unwrap_or_default();
            eprintln!(
                "{name}: {fault}: {} ({who}), {:.0} % of the time, max {:.2} ms",
                cause["class"],
                cause["share"].as_f64().unwrap_or_default() * 100.0,
                largest as f64 / 1e6
            );
            assert_eq!(
                cause["class"].as_str(),
                Some(*class),
                "{name}: {fault}: {cause:#}"
            );
            assert!(who.contains(culprit), "{name}: {fault}: {cause:#}");
            assert!(largest >= MIN_SEEN_NS, "{name}: {fault}: {cause:#}");
        }
    }
}
