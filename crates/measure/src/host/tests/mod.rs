//! Other machines, as trees of the kernel's files. A `.txt` file describes one machine: a line
//! `== path` is followed by the text of that file.

mod audio;

use std::fs;
use std::io::Write as _;

use flate2::Compression;
use flate2::write::GzEncoder;
use laggard_model::CaveatKind::{
    Autogroup, Clocksource, CpuIsolated, CpuOffline, CpuQuota, Cpuset, DebugKernel, Governor,
    HugePages, IdleStates, IrqBalance, Lockdown, MemoryLock, Mitigations, NoBtf, NoPmu, NotRoot,
    Preemption, Priority, RtGroup, RtThrottling, Siblings, Swap, TickRate, Tickless,
    TimerMigration, Turbo, VirtualMachine, Watchdog,
};
use laggard_model::{Caveat, CaveatKind, CpuList, Host, Nanos, Service};
use tempfile::TempDir;

use super::{Files, Rights, caveats, counters_are_nmi, free_memory, identify};

const LAPTOP: &str = include_str!("laptop.txt");
const BOARD: &str = include_str!("board.txt");
const SERVER: &str = include_str!("server.txt");
const GUEST: &str = include_str!("guest.txt");

/// Files of a machine in a temporary directory.
struct Machine {
    _folder: TempDir,
    files: Files,
}

impl Machine {
    fn new(text: &str) -> Self {
        let folder = TempDir::new().unwrap();
        for entry in text.split("== ").skip(1) {
            let (path, content) = entry.split_once('\n').unwrap();
            let full = folder.path().join(path);
            fs::create_dir_all(full.parent().unwrap()).unwrap();
            if path.ends_with(".gz") {
                let file = fs::File::create(full).unwrap();
                let mut gzip = GzEncoder::new(file, Compression::fast());
                gzip.write_all(content.as_bytes()).unwrap();
                gzip.finish().unwrap();
            } else {
                fs::write(full, content).unwrap();
            }
        }
        Self {
            files: Files::below(folder.path()),
            _folder: folder,
        }
    }

    fn host(&self) -> Host {
        identify(&self.files)
    }

    fn caveats(&self, cpus: &str, services: &[Service]) -> Vec<Caveat> {
        caveats(
            &self.host(),
            &Rights::read(&self.files),
            &cpus.parse().unwrap(),
            services,
        )
    }

    fn free_memory(&self) -> Option<u64> {
        free_memory(&self.files)
    }

    fn kinds(&self, cpus: &str, services: &[Service]) -> Vec<CaveatKind> {
        let caveats = self.caveats(cpus, services);
        caveats.iter().map(|caveat| caveat.kind).collect()
    }
}

fn cpus(text: &str) -> CpuList {
    text.parse().unwrap()
}

#[test]
fn laptop_is_identified() {
    let host = Machine::new(LAPTOP).host();

    assert_eq!(host.node, "carrel");
    assert_eq!(host.distribution.as_deref(), Some("Ubuntu 24.04.2 LTS"));
    assert_eq!(host.kernel, "6.8.0-55-generic");
    assert_eq!(host.architecture, "x86_64");
    assert_eq!(host.preemption.as_deref(), Some("voluntary"));
    assert_eq!(host.hz, Some(1000));
    assert_eq!(
        host.config,
        [
            "CONFIG_PREEMPT_VOLUNTARY=y",
            "CONFIG_PREEMPT_DYNAMIC=y",
            "CONFIG_HZ=1000",
            "CONFIG_NO_HZ_FULL=y",
        ]
    );
    assert_eq!(host.processor.microcode.as_deref(), Some("0xf6"));
    assert_eq!(host.processor.sockets, 1);
    assert_eq!(host.processor.cores, 2);
    assert_eq!(host.processor.threads, 4);
    assert_eq!(host.processor.siblings, [cpus("0,2"), cpus("1,3")]);
    assert_eq!(host.memory_bytes, 16_281_672 * 1024);
    assert_eq!(host.turbo, Some(true));
    assert_eq!(host.idle_driver.as_deref(), Some("intel_idle/menu"));
    assert_eq!(host.isolation.nohz_full, CpuList::default());
    assert_eq!(host.huge_pages.as_deref(), Some("always"));
    assert_eq!(host.hypervisor, None);
    assert_eq!(host.lockdown.as_deref(), Some("integrity"));
    assert_eq!(host.settings.stolen_ns, Some(Nanos::ZERO));
    assert!(host.settings.irqbalance);
}

#[test]
fn board_firmware_file_system_and_devices_are_identified() {
    let text = "== sys/class/dmi/id/board_vendor\nASRock\n== sys/class/dmi/id/board_name\nB650M
== sys/class/dmi/id/bios_version\n3.08
== proc/self/mounts\nrootfs / rootfs rw 0 0\n/dev/nvme0n1p2 / ext4 rw 0 0\n/dev/sda1 /srv xfs rw 0 0
== sys/block/loop0/device/model\nnone
== sys/block/nvme0n1/device/model\nSamsung SSD 980
== sys/block/nvme0n1/queue/scheduler\n[none] mq-deadline
== sys/block/vda/device/uevent\nDRIVER=virtio_blk\nMODALIAS=virtio:d2
== sys/class/drm/card0/device/uevent\nDRIVER=amdgpu
== sys/class/drm/card0-DP-1/device/uevent\nDRIVER=none
== sys/class/sound/card0/device/uevent\nDRIVER=snd_hda_intel
== sys/class/sound/card1/device/uevent\nDRIVER=snd_hda_intel
== sys/class/net/lo/uevent\nINTERFACE=lo
== sys/class/net/enp1s0/device/uevent\nDRIVER=igc\n";

    let hardware = Machine::new(text).host().hardware;

    assert_eq!(hardware.board.as_deref(), Some("ASRock B650M"));
    assert_eq!(hardware.firmware.as_deref(), Some("3.08"));
    assert_eq!(hardware.file_system.as_deref(), Some("ext4"));
    assert_eq!(hardware.disks, ["virtio_blk", "Samsung SSD 980 (none)"]);
    assert_eq!(hardware.graphics, ["amdgpu"]);
    assert_eq!(hardware.audio, ["snd_hda_intel"]);
    assert_eq!(hardware.network, ["igc"]);
}

#[test]
fn frequency_policies_with_the_same_governor_are_one_group() {
    let host = Machine::new(LAPTOP).host();

    assert_eq!(host.frequency.len(), 1);
    assert_eq!(host.frequency[0].cpus, cpus("0-3"));
    assert_eq!(host.frequency[0].driver.as_deref(), Some("intel_pstate"));
}

#[test]
fn idle_state_disabled_on_one_cpu_only_counts_as_enabled() {
    let host = Machine::new(LAPTOP).host();

    let deepest = host.idle.last().unwrap();
    assert_eq!(deepest.name, "C10");
    assert_eq!(deepest.exit_ns, Nanos::from_us(890));
    assert!(!deepest.disabled);
}

#[test]
fn only_real_vulnerabilities_are_listed() {
    let host = Machine::new(LAPTOP).host();

    assert_eq!(
        host.mitigations,
        ["srbds: Mitigation: Microcode", "meltdown: Mitigation: PTI"]
    );
}

#[test]
fn laptop_has_every_caveat_the_worst_first() {
    let caveats = Machine::new(LAPTOP).kinds("0", &[Service::Fifo(90), Service::Other]);

    assert_eq!(
        caveats,
        [
            NotRoot,
            Priority, // spoil
            RtThrottling,
            Siblings,
            Preemption,
            Clocksource,
            IdleStates,
            Governor,
            Swap, // matter
            Lockdown,
            Mitigations,
            Turbo,
            HugePages,
            Watchdog,
            IrqBalance,
            TimerMigration,
            Autogroup,
        ]
    );
}

#[test]
fn caveats_name_the_chosen_cpus_and_a_command() {
    let caveats = Machine::new(LAPTOP).caveats("0", &[Service::Fifo(90)]);

    let governor = caveats
        .iter()
        .find(|caveat| caveat.kind == Governor)
        .unwrap();
    assert_eq!(
        governor.what,
        "the frequency of CPU 0 follows the load (governor powersave)"
    );
    assert_eq!(governor.advice, "`cpupower frequency-set -g performance`");
    let throttling = caveats
        .iter()
        .find(|caveat| caveat.kind == RtThrottling)
        .unwrap();
    assert_eq!(
        throttling.what,
        "real-time throttling: after 950 ms of 1.00 s, real-time threads are stopped for 50.0 ms"
    );
}

/// Debian's kernels ignore the boot option, because they are built without it.
#[test]
fn counters_of_arm64_are_nmi_only_if_kernel_and_boot_option_allow_it() {
    let are_nmi = |command_line: &str, options: &[&str]| {
        counters_are_nmi("aarch64", command_line, || {
            options.iter().map(|&row| row.to_owned()).collect()
        })
    };
    let boot_option = "quiet irqchip.gicv3_pseudo_nmi=1";
    let (built_in, other) = ("CONFIG_ARM64_PSEUDO_NMI=y", "CONFIG_HZ=250");

    assert!(are_nmi(boot_option, &[other, built_in]));
    assert!(are_nmi(boot_option, &[]), "unknown options");
    assert!(!are_nmi(boot_option, &[other]));
    assert!(!are_nmi("irqchip.gicv3_pseudo_nmi=0", &[built_in]));
    assert!(!are_nmi("quiet", &[built_in]));
}

/// Linux 6.12 no longer stops real-time threads for `sched_rt_runtime_us`, whatever its value.
#[test]
fn throttling_caveat_follows_the_kernel_version() {
    let limits = "== proc/sys/kernel/sched_rt_period_us\n1000000\n\
                  == proc/sys/kernel/sched_rt_runtime_us\n950000\n";
    let throttling = |release: &str, config: &str, files: &str| {
        let text = format!(
            "== proc/sys/kernel/osrelease\n{release}\n== boot/config-{release}\n{config}\n{limits}{files}"
        );
        let caveats = Machine::new(&text).caveats("0", &[Service::Fifo(90)]);
        let caveats = caveats
            .into_iter()
            .find(|caveat| caveat.kind == RtThrottling);
        caveats.map(|caveat| (caveat.what, caveat.advice))
    };
    let server = |runtime: &str| {
        let directory = "sys/kernel/debug/sched/fair_server/cpu0";
        format!("== {directory}/period\n1000000000\n== {directory}/runtime\n{runtime}\n")
    };

    // Also with real-time groups, and with a hidden setting.
    let groups = "CONFIG_RT_GROUP_SCHED=y";
    for (config, files, source) in [
        ("", server("50000000"), ""),
        (groups, server("50000000"), ""),
        ("", String::new(), " by default (its setting is hidden)"),
        (groups, String::new(), " by default (its setting is hidden)"),
    ] {
        let (what, advice) = throttling("6.12.9-rt1", config, &files).unwrap();
        let expected = format!("for 50.0 ms per 1.00 s{source} if SCHED_OTHER threads wait");
        assert!(what.contains(&expected), "{what}");
        assert!(advice.contains("fair_server/cpu*/runtime"), "{advice}");
    }
    assert_eq!(throttling("6.12.9-rt1", "", &server("0")), None);
    for (release, config, files) in [("6.11.3", "", ""), ("6.18.2", groups, &*server("0"))] {
        let (what, advice) = throttling(release, config, files).unwrap();
        assert!(what.contains("are stopped for 50.0 ms"), "{what}");
        assert!(advice.contains("sched_rt_runtime_us"), "{advice}");
    }
}

#[test]
fn settings_of_real_time_threads_affect_only_them() {
    let kinds = Machine::new(BOARD).kinds("0-2", &[Service::Irq, Service::Other]);

    assert!(!kinds.contains(&RtGroup), "{kinds:?}");
    assert!(!kinds.contains(&RtThrottling), "{kinds:?}");
}

#[test]
fn board_is_identified() {
    let host = Machine::new(BOARD).host();

    assert_eq!(
        host.processor.model,
        "Raspberry Pi 4 Model B Rev 1.4 (core 0x41:0xd08)"
    );
    assert_eq!(host.processor.cores, 3);
    assert_eq!(host.processor.siblings, []);
    assert_eq!(host.isolation.offline, cpus("3"));
    assert_eq!(host.preemption.as_deref(), Some("full"));
    assert_eq!(host.hz, Some(100));
    assert_eq!(host.hypervisor, None);
    assert!(host.settings.pmu);
    assert_eq!(host.idle, []);
}

#[test]
fn board_has_its_caveats() {
    let machine = Machine::new(BOARD);

    assert_eq!(
        machine.kinds("0-3", &[Service::Fifo(90)]),
        [
            NoBtf,
            RtGroup,
            CpuOffline, // spoil
            RtThrottling,
            Preemption,
            Governor,
            Swap, // matter
            TickRate,
            NoPmu, // its counters are not NMIs
            TimerMigration,
        ]
    );
}

#[test]
fn isolated_real_time_server_is_identified() {
    let host = Machine::new(SERVER).host();

    assert_eq!(host.preemption.as_deref(), Some("rt"));
    assert_eq!(host.processor.sockets, 2);
    assert_eq!(host.throttling.unwrap().runtime_ns, None);
    assert_eq!(host.isolation.isolated, cpus("2-7"));
    assert_eq!(host.hz, Some(1000));
}

#[test]
fn rented_physical_machine_is_not_virtual() {
    assert_eq!(Machine::new(SERVER).host().hypervisor, None);
}

#[test]
fn tuned_server_has_caveats_only_about_its_isolated_cpus() {
    let machine = Machine::new(SERVER);

    assert_eq!(machine.kinds("0-1", &[Service::Fifo(90)]), []);
    assert_eq!(
        machine.kinds("1-2", &[Service::Fifo(90)]),
        [CpuIsolated, Tickless]
    );
}

#[test]
fn guest_caveat_names_the_hypervisor_and_the_steal_time() {
    let machine = Machine::new(GUEST);
    let caveats = machine.caveats("0-1", &[Service::Fifo(90)]);

    assert_eq!(machine.host().hypervisor.as_deref(), Some("kvm"));
    assert_eq!(
        caveats.iter().map(|caveat| caveat.kind).collect::<Vec<_>>(),
        [DebugKernel, Preemption, VirtualMachine, Lockdown, NoPmu]
    );
    assert_eq!(
        caveats[2].what,
        "this is a virtual machine (kvm), so its hypervisor can stop any CPU; steal time since boot: 3.21 s"
    );
}

#[test]
fn lockdown_level_from_the_boot_option_is_a_minimum() {
    let host = Machine::new(GUEST).host();

    assert_eq!(host.lockdown.as_deref(), Some("at least confidentiality"));
}

/// CPUs with a gap in the middle, and numbers above 64 and 128.
const SPARSE: &str = "\
== sys/devices/system/cpu/online
0-1,64-129,191
== sys/devices/system/cpu/offline
2-63,130-190,192-255
== sys/devices/system/cpu/possible
0-255
== proc/cpuinfo
model name : Many Cores
";

#[test]
fn machine_with_gaps_among_more_than_64_cpus_is_counted_correctly() {
    let machine = Machine::new(SPARSE);

    let host = machine.host();

    assert_eq!(host.processor.threads, 2 + 66 + 1);
    assert_eq!(host.isolation.offline.len(), 62 + 61 + 64);
    let caveats = machine.caveats("62-65,191", &[Service::Irq]);
    let offline = caveats
        .iter()
        .find(|caveat| caveat.kind == CpuOffline)
        .unwrap();
    assert_eq!(
        offline.what,
        "CPUs 62-63 are offline and cannot be measured"
    );
    assert_eq!(
        offline.advice,
        "`echo 1 > /sys/devices/system/cpu/cpu62/online`"
    );
}

#[test]
fn cpus_outside_the_cpuset_are_named() {
    let machine = Machine::new(SPARSE);
    let rights = Rights {
        forbidden: cpus("64-129,191"),
        ..Rights::read(&machine.files)
    };

    let caveats = caveats(&machine.host(), &rights, &cpus("0-1"), &[Service::Irq]);

    let outside = caveats.iter().find(|caveat| caveat.kind == Cpuset).unwrap();
    assert!(
        outside
            .what
            .starts_with("CPUs 64-129,191 are online, but outside the cpuset of this process"),
        "{outside:?}"
    );
}

#[test]
fn tightest_limit_on_cpu_time_of_any_group_is_named() {
    let v2 = "== proc/self/cgroup\n0::/a/b\n== sys/fs/cgroup/a/b/cpu.max\nmax 100000\n";
    let parent = "== sys/fs/cgroup/a/cpu.max\n150000 100000\n";
    let v1 = "== proc/self/cgroup\n4:cpu,cpuacct:/a\n3:memory:/\n\
        == sys/fs/cgroup/cpu,cpuacct/a/cpu.cfs_quota_us\n20000\n\
        == sys/fs/cgroup/cpu,cpuacct/a/cpu.cfs_period_us\n100000\n";
    let container = "== proc/self/cgroup\n0::/\n== sys/fs/cgroup/cpu.max\n50000 100000\n";
    for (files, expected) in [
        (v2.to_owned(), None),
        (format!("{v2}{parent}"), Some("150ms of CPU time per 100ms")),
        (v1.to_owned(), Some("20ms of CPU time per 100ms")),
        (v1.replace("20000", "-1"), None),
        (container.to_owned(), Some("50ms of CPU time per 100ms")),
    ] {
        let caveats = Machine::new(&files).caveats("0", &[Service::Other]);

        let quota = caveats.iter().find(|caveat| caveat.kind == CpuQuota);
        assert_eq!(quota.is_some(), expected.is_some(), "{files}");
        if let (Some(quota), Some(expected)) = (quota, expected) {
            assert!(quota.what.contains(expected), "{quota:?}");
        }
    }
}

#[test]
fn group_without_time_for_real_time_threads_is_found_in_a_container() {
    let host = "== proc/self/cgroup\n4:cpu,cpuacct:/a\n\
        == sys/fs/cgroup/cpu,cpuacct/cpu.rt_runtime_us\n950000\n\
        == sys/fs/cgroup/cpu,cpuacct/a/cpu.rt_runtime_us\n0\n";
    // It sees its group as the root, and the path of the host.
    let container = "== proc/self/cgroup\n1:cpu:/libpod_parent/libpod-1\n\
        == sys/fs/cgroup/cpu/cpu.rt_runtime_us\n0\n";
    for (files, is_without) in [
        (host.to_owned(), true),
        (host.replace("\n0\n", "\n100000\n"), false),
        (container.to_owned(), true),
        (container.replace("\n0\n", "\n-1\n"), false),
    ] {
        let caveats = Machine::new(&files).caveats("0", &[Service::Fifo(90)]);

        let mut found = caveats.iter();
        let found = found.any(|caveat| caveat.what.contains("cpu.rt_runtime_us is 0"));
        assert_eq!(found, is_without, "{files}");
    }
}

#[test]
fn free_memory_is_the_minimum_of_the_machine_and_every_group() {
    let machine = "== proc/meminfo\nMemTotal: 4000 kB\nMemAvailable: 3000 kB\n";
    let v2 = "== proc/self/cgroup\n0::/a/b\n== sys/fs/cgroup/a/b/memory.max\nmax\n";
    let parent = "== sys/fs/cgroup/a/memory.max\n2048000\n\
        == sys/fs/cgroup/a/memory.stat\nanon_thp 7\nanon 1024000\nfile 900000\n";
    let v1 = "== proc/self/cgroup\n4:memory:/a\n\
        == sys/fs/cgroup/memory/a/memory.limit_in_bytes\n2000000\n\
        == sys/fs/cgroup/memory/a/memory.stat\nrss 1\ntotal_rss 1999999\n";
    for (files, free) in [
        (machine.to_owned(), Some(3_072_000)),
        (format!("{machine}{v2}"), Some(3_072_000)),
        (format!("{machine}{v2}{parent}"), Some(1_024_000)),
        (format!("{machine}{v1}"), Some(1)),
        (
            format!("{machine}{v1}").replace("2000000", "9223372036854771712"),
            Some(3_072_000),
        ),
        (v1.replace("1999999", "2000001"), Some(0)),
        (String::new(), None),
    ] {
        assert_eq!(Machine::new(&files).free_memory(), free, "{files}");
    }
}

#[test]
fn unreadable_files_give_no_caveats() {
    let machine = Machine::new("");

    let kinds = machine.kinds("0", &[Service::Fifo(90), Service::Other]);

    assert_eq!(kinds, [NotRoot, NoBtf, Priority, MemoryLock, NoPmu]);
    assert_eq!(machine.host().preemption, None);
    assert_eq!(machine.host().throttling, None);
}

/// If the kernel's configuration is not readable, only the build text is left.
#[test]
fn build_text_shows_only_full_preemption_or_a_real_time_kernel() {
    for (build, expected) in [
        ("#1 SMP PREEMPT Fri Mar 7 12:00:00 UTC 2025", Some("full")),
        ("#1 SMP PREEMPT_DYNAMIC Fri Mar 7 12:00:00 UTC 2025", None),
        ("#1 SMP Fri Mar 7 12:00:00 UTC 2025", None),
        ("#1 SMP PREEMPT_RT Fri Mar 7 12:00:00 UTC 2025", Some("rt")),
    ] {
        let files = format!("== proc/sys/kernel/version\n{build}\n");

        let host = Machine::new(&files).host();

        assert_eq!(host.preemption.as_deref(), expected, "{build}");
    }
}

#[test]
fn every_caveat_has_a_text_and_advice() {
    for machine in [LAPTOP, BOARD, SERVER, GUEST, ""] {
        let services = [Service::Fifo(90), Service::Other];
        for caveat in Machine::new(machine).caveats("0-7", &services) {
            for text in [&caveat.what, &caveat.advice] {
                assert!(text.len() > 20 && !text.ends_with('.'), "{caveat:?}");
            }
        }
    }
}

#[test]
fn this_machine_is_identified() {
    let host = identify(&Files::default());

    let name = nix::sys::utsname::uname().unwrap();
    assert_eq!(host.kernel, name.release().to_string_lossy());
    assert_eq!(host.build, name.version().to_string_lossy());
    assert_eq!(host.architecture, name.machine().to_string_lossy());
    assert!(host.processor.threads > 0);
    assert!(host.memory_bytes > 0);
    assert!(!host.processor.model.is_empty());
    assert!(!host.clocksource.current.is_empty());
}
