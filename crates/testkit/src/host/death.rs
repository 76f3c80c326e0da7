//! Cause of a test host's death: the last messages of its kernel, or QEMU's exit status.

use std::os::unix::process::ExitStatusExt as _;
use std::process::ExitStatus;

use nix::sys::signal::Signal;

/// Prefixes of kernel messages about a failure, the most informative first: `Kernel panic`
/// follows each of the others.
const CAUSES: [&str; 9] = [
    "int3: ",
    "BUG: ",
    "Oops: ",
    "general protection fault",
    "invalid opcode: ",
    "divide error: ",
    "Internal error: ",
    "Unable to mount root fs",
    "Kernel panic - not syncing: ",
];

/// Returns the kernel's message about a failure, if there is one: the first line of its last
/// messages, without the time.
pub(super) fn cause(console: &str) -> Option<&str> {
    let find = |mark: &&str| {
        console
            .lines()
            .find_map(|line| line.find(*mark).map(|start| line[start..].trim_end()))
    };
    CAUSES.iter().find_map(find)
}

/// Returns whether a kernel died of a breakpoint that it had put into its own code and removed
/// again.
///
/// A kernel replaces an instruction that other CPUs may be executing by means of a breakpoint
/// (`text_poke_bp`). QEMU's CPUs are threads that translate code separately, and one may still
/// execute the breakpoint after the kernel has removed its record. Hardware does not do this, so
/// another attempt is more informative than this death.
pub(super) fn is_forgotten_breakpoint(console: &str) -> bool {
    cause(console).is_some_and(|cause| cause.starts_with("int3: "))
}

/// Returns QEMU's exit status as text.
pub(super) fn ending(status: ExitStatus) -> String {
    match status.signal() {
        Some(number) => {
            let name = Signal::try_from(number).map_or("unknown", Signal::as_str);
            format!("killed by signal {number} ({name})")
        }
        None => status.to_string(),
    }
}

/// Returns whether QEMU itself failed, as opposed to a refused request or a kill.
pub(super) fn is_own_fault(status: ExitStatus) -> bool {
    let faults = [
        Signal::SIGSEGV,
        Signal::SIGBUS,
        Signal::SIGILL,
        Signal::SIGFPE,
        Signal::SIGABRT,
    ];
    let signal = status.signal().map(Signal::try_from);
    matches!(signal, Some(Ok(signal)) if faults.contains(&signal))
}

#[cfg(test)]
mod tests {
    use super::*;

    const INT3: &str = "\
testhost: command begins
[   31.166234] int3: 0000 [#1] PREEMPT SMP NOPTI
[   31.166301] CPU: 1 UID: 0 PID: 160 Comm: laggard Not tainted 6.12.95+deb12-amd64 #1
[   31.166412] RIP: 0010:bpf_trace_run1+0x1/0x90
[   31.167001] Kernel panic - not syncing: Fatal exception in interrupt
";

    #[test]
    fn first_of_the_last_messages_is_the_cause() {
        let sysrq = "[ 7.1] sysrq: Trigger a crash\n\
                     [ 7.2] Kernel panic - not syncing: sysrq triggered crash\n";
        let pointer = "[ 7.1] BUG: kernel NULL pointer dereference, address: 0000000000000008\n\
                       [ 7.2] Oops: Oops: 0000 [#1] SMP\n\
                       [ 7.3] Kernel panic - not syncing: Fatal exception\n";
        for (console, expected) in [
            (INT3, Some("int3: 0000 [#1] PREEMPT SMP NOPTI")),
            (
                sysrq,
                Some("Kernel panic - not syncing: sysrq triggered crash"),
            ),
            (
                pointer,
                Some("BUG: kernel NULL pointer dereference, address: 0000000000000008"),
            ),
            ("testhost: command begins\n", None),
        ] {
            assert_eq!(cause(console), expected);
        }
    }

    #[test]
    fn only_a_breakpoint_is_the_race_of_the_emulator() {
        assert!(is_forgotten_breakpoint(INT3));
        assert!(!is_forgotten_breakpoint(
            "[ 7.2] Kernel panic - not syncing: Attempted to kill init! exitcode=0x0000000b\n"
        ));
    }

    #[test]
    fn faults_of_the_emulator_are_distinguished_from_a_refusal_and_a_kill() {
        for (raw, words, is_fault) in [
            (11, "killed by signal 11 (SIGSEGV)", true),
            (6, "killed by signal 6 (SIGABRT)", true),
            (9, "killed by signal 9 (SIGKILL)", false),
            (1 << 8, "exit status: 1", false),
        ] {
            let status = ExitStatus::from_raw(raw);

            assert_eq!(ending(status), words);
            assert_eq!(is_own_fault(status), is_fault, "{words}");
        }
    }
}
