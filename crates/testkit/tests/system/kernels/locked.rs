//! Locked pages under memory pressure, on kernels whose page lists have more than two
//! generations, unlike possibly this machine's.

use std::fs;
use std::path::Path;

use laggard_testkit::host::{Architecture, TestHost};
use serde_json::Value;

use crate::hosts::{DEADLINE, architecture, fetch, laggard, run, skip};

/// The guest does not have a disk, and pages without a disk stay in memory.
const DISK: &str = "\
    insmod /brd.ko rd_size=16384 && insmod /minix.ko && mkfs.minix -3 /dev/ram0 >/dev/null && \
    mkdir -p /var/tmp && mount -t minix /dev/ram0 /var/tmp && \
    echo +memory >/sys/fs/cgroup/cgroup.subtree_control || exit 2; ";
/// Runs with all features of the kernel's page generations, and without.
const TRIED: &str = "\
    for generations in 7 0; do \
        echo $generations >/sys/kernel/mm/lru_gen/enabled; \
        cat /sys/kernel/mm/lru_gen/enabled; \
        laggard bench rtos --only locked --duration 20s --json >/result/$generations; \
    done; \
    ls /sys/fs/cgroup | grep laggard; true";
const MAKES_MINIX: &str = "/usr/sbin/mkfs.minix";

#[test]
#[ignore = "boots a kernel"]
fn locked_pages_stay_with_both_lru_implementations() {
    if architecture() != Architecture::Amd64 {
        return skip("mkfs.minix of this machine does not run on arm64");
    }
    let Some(laggard) = laggard() else { return };
    let Some(kernel) = fetch("6.12") else { return };
    if !Path::new(MAKES_MINIX).exists() {
        return skip("there is no mkfs.minix (Debian: util-linux)");
    }
    let modules = match kernel.modules(&["drivers/block/brd", "fs/minix/minix"]) {
        Ok(modules) => modules,
        Err(error) if error.is_missing() => {
            return skip(&format!(
                "modules of {} are not available: {error}",
                kernel.release
            ));
        }
        Err(error) => panic!("{error}"),
    };
    let host = TestHost::new(kernel)
        .program(&laggard)
        .program(MAKES_MINIX)
        .file(&modules[0], "/brd.ko")
        .file(&modules[1], "/minix.ko")
        .deadline(DEADLINE)
        .command(&format!("{DISK}{TRIED}"));
    let Some(outcome) = run(host) else { return };
    let outcome = outcome.unwrap();
    assert_eq!(outcome.status, 0, "{}", outcome.output);

    let states: Vec<&str> = outcome
        .output
        .lines()
        .filter(|line| line.starts_with("0x"))
        .collect();
    assert_eq!(states, ["0x0007", "0x0000"], "{}", outcome.output);
    // The group that it created is gone.
    assert!(
        !outcome.output.contains("laggard-rtos-"),
        "{}",
        outcome.output
    );
    for generations in ["7", "0"] {
        let text = fs::read(outcome.files.join(generations)).unwrap();
        let report: Value = serde_json::from_slice(&text).unwrap();
        let locked = &report["locked"];
        assert_eq!(report["rows"][0]["verdict"], "pass", "{report:#}");
        assert_eq!(
            locked["locked"]["resident_after"], locked["locked"]["pages"],
            "{locked:#}"
        );
        assert_eq!(locked["locked"]["major_faults"], 0, "{locked:#}");
        assert_eq!(locked["plain"]["resident_after"], 0, "{locked:#}");
    }
}
