//! Configurations that this machine may not have: control groups of both versions, and other
//! numbers of CPUs.

use std::collections::BTreeSet;
use std::fs;

use laggard_model::{CaveatKind, Cpu, Manifest, Stage};
use laggard_testkit::host::{Architecture, Mode, TestHost};
use serde_json::Value;

use crate::hosts::{
    DEADLINE, architecture, fetch, is_available, laggard, manifest, manifest_of, run, served, skip,
};

/// Mounts and files of a group `limited` with 40 ms of CPU time per 100 ms, for each version.
const GROUPS: [(&str, &str, &str); 2] = [
    (
        "cpu.max",
        "echo +cpu >/sys/fs/cgroup/cgroup.subtree_control",
        "echo '40000 100000' >cpu.max",
    ),
    (
        "cpu.cfs_quota_us",
        "echo -cpu >/sys/fs/cgroup/cgroup.subtree_control; umount /sys/fs/cgroup && \
         mount -t tmpfs none /sys/fs/cgroup && mkdir /sys/fs/cgroup/cpu && \
         mount -t cgroup -o cpu none /sys/fs/cgroup/cpu",
        "echo 40000 >cpu.cfs_quota_us",
    ),
];

/// A busy process uses up the quota of laggard's control group.
#[test]
#[ignore = "boots a kernel"]
fn exhausted_quota_is_the_largest_cause_with_control_groups_of_each_version() {
    let Some(laggard) = laggard() else { return };
    let Some(kernel) = fetch("6.12") else { return };
    let command: String = GROUPS
        .iter()
        .map(|(file, mount, limit)| {
            format!(
                "{mount} || exit 2\n\
                 group=/sys/fs/cgroup/limited; [ {file} = cpu.max ] || group=/sys/fs/cgroup/cpu/limited\n\
                 mkdir $group && cd $group && {limit} || exit 3\n\
                 sh -c 'echo $$ >cgroup.procs; while :; do :; done' & busy=$!\n\
                 sh -c 'echo $$ >cgroup.procs; exec laggard record -q --services other \
                     --period 5ms --threshold 1ms --duration 4s -o /result/{file}.laggard' \
                     || [ $? = 3 ] || exit 4\n\
                 kill $busy; wait $busy; cd /; rmdir $group || exit 5\n\
                 laggard why --json /result/{file}.laggard >/result/{file} || exit 6\n"
            )
        })
        .collect();
    let host = TestHost::new(kernel)
        .program(&laggard)
        .deadline(DEADLINE)
        .command(&command);
    let Some(outcome) = run(host) else { return };
    let outcome = outcome.unwrap();
    assert_eq!(outcome.status, 0, "{}", outcome.output);

    for (file, _, _) in GROUPS {
        let recording = manifest_of(&outcome, &format!("{file}.laggard"));
        let quota = recording
            .caveats
            .iter()
            .find(|caveat| caveat.kind == CaveatKind::CpuQuota)
            .unwrap_or_else(|| panic!("{file}: {:?}", recording.caveats));
        assert!(
            quota.what.contains("40ms of CPU time per 100ms"),
            "{quota:?}"
        );
        let text = fs::read(outcome.files.join(file)).unwrap();
        let report: Value = serde_json::from_slice(&text).unwrap();
        let cause = &report["series"][0]["causes"][0];
        assert_eq!(cause["class"], "throttled", "{file}: {cause:#}");
        let who = cause["who"].as_str().unwrap_or_default();
        assert!(who.contains("/limited") && who.contains(file), "{cause:#}");
        println!("{file}: {who}");
    }
}

/// Defines `$user`, which runs laggard as an ordinary user.
const USER: &str = "chmod 777 /result; echo user:x:65534:65534::/tmp:/bin/sh >>/etc/passwd\n\
    user='start-stop-daemon -q -S -c user -x /usr/bin/laggard --'\n";

/// Debian's kernels allow an ordinary user no performance event at level 3, which is their default.
#[test]
#[ignore = "boots a kernel"]
fn user_without_rights_gets_what_the_level_of_perf_events_allows() {
    const LEVELS: [(&str, bool); 2] = [("3", false), ("2", true)];
    let Some(laggard) = laggard() else { return };
    let Some(kernel) = fetch("6.12") else { return };
    let command: String = LEVELS
        .iter()
        .map(|(level, _)| {
            format!(
                "echo {level} >/proc/sys/kernel/perf_event_paranoid || exit 2\n\
                 $user doctor --json >/result/doctor-{level}\n\
                 $user record -q --duration 2s -o /result/{level}.laggard \
                     || [ $? = 3 ] || exit 3\n"
            )
        })
        .collect();
    let host = TestHost::new(kernel)
        .program(&laggard)
        .deadline(DEADLINE)
        .command(&format!("{USER}{command}"));
    let Some(outcome) = run(host) else { return };
    let outcome = outcome.unwrap();
    assert_eq!(outcome.status, 0, "{}", outcome.output);

    for (level, may_record_switches) in LEVELS {
        let doctor = fs::read_to_string(outcome.files.join(format!("doctor-{level}"))).unwrap();
        assert_eq!(
            is_available(&doctor, "context switches"),
            may_record_switches,
            "{level}"
        );
        let name = format!("{level}.laggard");
        let manifest = manifest_of(&outcome, &name);
        let wakeups = served(&outcome, &name);
        assert!(wakeups.len() > 100, "{level}: {}", wakeups.len());
        let mut running = wakeups.iter().map(|row| row.steps[Stage::Running.index()]);
        assert_eq!(
            running.any(|step| step.is_some()),
            may_record_switches,
            "{level}"
        );
        let delays = manifest.counts.iter().filter_map(|count| count.run_delay);
        let switch_ins: u64 = delays.map(|delay| delay.switch_ins).sum();
        assert_eq!(
            switch_ins == 0,
            may_record_switches,
            "{level}: {switch_ins}"
        );
    }
}

/// The limit is that of `rtprio` and `memlock` in /etc/security/limits.conf.
#[test]
#[ignore = "boots a kernel"]
fn user_with_a_limit_of_real_time_priority_measures_threads_up_to_it() {
    let Some(laggard) = laggard() else { return };
    let Some(kernel) = fetch("6.12") else { return };
    let host = TestHost::new(kernel)
        .program(&laggard)
        .deadline(DEADLINE)
        .command(&format!(
            "{USER}ulimit -r 80 && ulimit -l unlimited || exit 2\n\
             $user record -q --services fifo:80 --duration 2s -o /result/r.laggard \
                 || [ $? = 3 ] || exit 3\n\
             $user record -q --services fifo:81 --duration 2s -o /result/none.laggard"
        ));
    let Some(outcome) = run(host) else { return };
    let outcome = outcome.unwrap();

    assert_eq!(outcome.status, 1, "{}", outcome.output);
    let limit = "cannot measure `fifo:81`: this user may use real-time priorities up to 80";
    assert!(outcome.output.contains(limit), "{}", outcome.output);
    let wakeups = served(&outcome, "r.laggard");
    assert!(wakeups.len() > 100, "{}", wakeups.len());
}

/// A kernel without the timer of the local APIC uses the HPET. Under Hyper-V (WSL2) and Xen it is
/// the hypervisor's timer.
#[test]
#[ignore = "boots a kernel"]
fn timer_without_tracepoint_is_named_and_the_other_stages_are_measured() {
    if architecture() == Architecture::Arm64 {
        return skip("only x86 has the local APIC's timer");
    }
    let Some(laggard) = laggard() else { return };
    let Some(kernel) = fetch("6.12") else { return };
    let host = TestHost::new(kernel)
        .kernel_arguments("noapictimer")
        .program(&laggard)
        .deadline(DEADLINE)
        .command(
            "laggard doctor --json >/result/doctor; \
             laggard record -q --duration 3s --period 5ms -o /result/r.laggard || [ $? = 3 ]",
        );
    let Some(outcome) = run(host) else { return };
    let outcome = outcome.unwrap();
    assert_eq!(outcome.status, 0, "{}", outcome.output);

    let doctor = fs::read_to_string(outcome.files.join("doctor")).unwrap();
    assert!(!is_available(&doctor, "BPF object irq"), "{doctor}");
    assert!(
        doctor.contains("timer `hpet` have no tracepoint"),
        "{doctor}"
    );
    let wakeups = served(&outcome, "r.laggard");
    let has = |stage: Stage| wakeups.iter().any(|row| row.steps[stage.index()].is_some());
    assert!(!has(Stage::Irq) && has(Stage::Expire) && has(Stage::Running));
}

/// Returns the CPUs of the series that have samples.
fn measured(manifest: &Manifest) -> BTreeSet<u32> {
    let series = manifest.lines.iter().zip(&manifest.counts);
    series
        .filter(|(_, count)| count.served > 0)
        .map(|(line, _)| {
            let Cpu(cpu) = line.cpu;
            cpu
        })
        .collect()
}

#[test]
#[ignore = "boots a kernel"]
fn cpu_numbers_with_gaps_are_measured_and_an_offline_cpu_is_named() {
    let Some(laggard) = laggard() else { return };
    let Some(kernel) = fetch("6.12") else { return };
    let host = TestHost::new(kernel)
        .mode(Mode::Smp)
        .cpus(4)
        .program(&laggard)
        .deadline(DEADLINE)
        .command(
            "for cpu in 1 2; do echo 0 >/sys/devices/system/cpu/cpu$cpu/online || exit 2; done\n\
             laggard record -q --services fifo:90,other --period 20ms --duration 3s \
                 -o /result/r.laggard || [ $? = 3 ] || exit 3\n\
             laggard record -q --cpus 1 --duration 1s -o /result/none.laggard",
        );
    let Some(outcome) = run(host) else { return };
    let outcome = outcome.unwrap();

    assert_eq!(outcome.status, 2, "{}", outcome.output);
    assert!(
        outcome.output.contains("CPU 1 is not online"),
        "{}",
        outcome.output
    );
    let manifest = manifest(&outcome);
    assert_eq!(measured(&manifest), BTreeSet::from([0, 3]));
    let offline = manifest.host.isolation.offline.to_string();
    assert_eq!(offline, "1-2");
}
