//! Public names: names in the kernel, laggard, hardware and common software.
//!
//! Any program can name a thread `kworker/payroll`. So a name is recognised as a whole,
//! not by its prefix.

/// Threads of the kernel. `#` stands for digits, `?` for a lower-case letter.
const KERNEL_THREADS: [&str; 52] = [
    "backlog_napi/#",
    "cpuhp/#",
    "edac-poller",
    "hwrng",
    "idle_inject/#",
    "irq_work/#",
    "jbd2/dm-#-#",
    "jbd2/md#-#",
    "jbd2/mmcblk#p#-#",
    "jbd2/nvme#n#p#-#",
    "jbd2/nvme#n#p#-",
    "jbd2/sd?#-#",
    "jbd2/vd?#-#",
    "jbd2/vd?-#",
    "kauditd",
    "kcompactd#",
    "kdevtmpfs",
    "khugepaged",
    "khungtaskd",
    "ksmd",
    "ksoftirqd/#",
    "kswapd#",
    "kthreadd",
    "kthrotld",
    "ktimers/#",
    "kworker/#:#",
    "kworker/#:#H",
    "kworker/u#:#",
    "kworker/u#:#H",
    "migration/#",
    "oom_reaper",
    "osnoise/#",
    "posixcputmr/#",
    "pr/legacy",
    "pr/ttyS#",
    "psimon",
    "rcu_bh",
    "rcu_exp_gp_kthr",
    "rcu_exp_par_gp_",
    "rcu_preempt",
    "rcu_sched",
    "rcu_tasks_kthre",
    "rcu_tasks_rude_",
    "rcu_tasks_trace",
    "rcub/#",
    "rcuc/#",
    "rcuog/#",
    "rcuop/#",
    "rcuos/#",
    "scsi_eh_#",
    "swapper/#",
    "timerlat/#",
];

/// Threads of laggard, of its faults and of its loads.
const OWN_THREADS: [&str; 35] = [
    "lag/#/f#",
    "lag/#/f#b",
    "lag/#/f#d",
    "lag/#/fifo:#",
    "lag/#/fifo:#b",
    "lag/#/fifo:#d",
    "lag/#/other",
    "lag/#/otherb",
    "lag/#/otherd",
    "lag/beside",
    "lag/irq",
    "lag/irqs-off",
    "lag/lock",
    "lag/lock-pi",
    "lag/net",
    "lag/page-fault",
    "lag/preempt-off",
    "lag/queue",
    "lag/rt-throttle",
    "lag/softirq",
    "lag/steal",
    "lag/thread",
    "lag/throttle",
    "lag/tick",
    "lag/witness",
    "laggard",
    "laggard/episode",
    "laggard/screen",
    "laggard/writer",
    "load-busy",
    "load-draw",
    "load-fileio",
    "load-fp",
    "load-idle",
    "load-start",
];

/// Common libraries.
const SYSTEM_LIBRARIES: [&str; 13] = [
    "[vdso]",
    "ld-linux-aarch#.so.#",
    "ld-linux-x#-#.so.#",
    "ld-musl-aarch#.so.#",
    "ld-musl-x#_#.so.#",
    "libc-#.#.so",
    "libc.musl-x#_#.so.#",
    "libc.so.#",
    "libdl.so.#",
    "libgcc_s.so.#",
    "libm.so.#",
    "libpthread.so.#",
    "librt.so.#",
];

/// Words in drivers' names of interrupts.
const DEVICES: &str = "a acpi aer ahci amd amdgpu arch ata ath audio b block bnx bnxt brcm bwctrl c \
    card cascade cmd comp config control d default designware dma dmar dpc drm dw e edac ehci en ena eno \
    enp ens eth event f floppy generic genirq gic gpio gve hcd hda hpet hv i ice ide igb igc input intel \
    iommu ish iwlwifi ixgbe k keyboard kvm local lpss me megasas mei mgmnt mlx mmc mmio mouse mpt msi mt \
    netvsc notify nouveau ntfy nvidia nvme o ohci output p pages pci pciehp pcie pdrv pinctrl pit pl pme \
    pmu q queue r radeon req requests rtc rtw rx s sas scsi sdhci serial snd storvsc therm thermal \
    thunderbolt timer ttys tx txrx uart uhci uio usb vfio vi virtio vmbus watchdog wl wlan wlp x xhci";

/// Drivers that come with Windows, and the importer's names of unknown drivers.
const WINDOWS_DRIVERS: &str = "unknown acpi.sys afd.sys ataport.sys cdrom.sys classpnp.sys clfs.sys \
    disk.sys dxgkrnl.sys dxgmms1.sys dxgmms2.sys fltmgr.sys hal.dll hdaudbus.sys hdaudio.sys \
    hidclass.sys hidusb.sys http.sys i8042prt.sys intelppm.sys amdppm.sys kbdclass.sys ks.sys \
    mouclass.sys msrpc.sys ndis.sys netio.sys ntfs.sys ntkrnlpa.exe ntoskrnl.exe pci.sys pciidex.sys \
    portcls.sys rdbss.sys serial.sys srv2.sys storahci.sys stornvme.sys storport.sys tcpip.sys \
    ucx01000.sys usbaudio.sys usbaudio2.sys usbehci.sys usbhub.sys usbhub3.sys usbport.sys \
    usbxhci.sys vmbus.sys vmbusr.sys volmgr.sys volsnap.sys wdf01000.sys win32k.sys \
    win32kbase.sys win32kfull.sys";

/// Words in common kernel versions.
const RELEASES: &str = "amd arch aarch arm aws azure bpo cloud common cos deb debian default el fc \
    gcp generic gke hwe ibm ky kvm lowlatency lts mainline microsoft mod next oracle ppa pve raspi \
    rc realtime riscv rpi rpt rt standard tegra tumbleweed ubuntu v vanilla virt wsl x xanmod zen \
    smp preempt dynamic lazy mon tue wed thu fri sat sun jan feb mar apr may jun jul aug sep oct nov dec \
    utc gmt";

/// Words in the names of distributions.
const DISTRIBUTIONS: &str = "alma almalinux alpine amazon arch astra bookworm bullseye buster buildroot \
    centos cloud container core debian desktop edition endeavouros enterprise fedora forky gentoo gnu hat \
    jammy kali leap linux lts manjaro mint nixos noble oracle os poky pop popos raspbian raspberry pi red \
    rhel rocky rolling server sles slackware stream suse opensuse trixie tumbleweed ubuntu void \
    workstation yocto v";

/// Kernel options that affect latency or are common.
const OPTIONS: &str = "acpi amd_pstate apparmor audit cgroup_disable clocksource \
    cpufreq.default_governor cpuidle.governor cpuidle.off debugpat earlyprintk efi hpet hugepages idle \
    init_on_alloc init_on_free intel_idle.max_cstate intel_iommu intel_pstate iommu ipv6.disable irqaffinity \
    isolcpus kthread_cpus l1tf lockdown managed_irq maxcpus mce mds mitigations nmi_watchdog no_timer_check \
    nohalt nohlt nohz nohz_full nokaslr nomodeset nomodule noreplace-smp nosmap nosmep nosmt nosoftlockup \
    nospectre_v1 nospectre_v2 nosync nowatchdog nr_cpus numa_balancing pcie_aspm panic possible_cpus \
    preempt processor.ignore_ppc processor.max_cstate psi pti quiet random.trust_cpu \
    rcu_nocb_poll rcu_nocbs rcupdate.rcu_expedited rcupdate.rcu_normal rcutree.kthread_prio \
    rcutree.rcu_normal_after_boot reboot retbleed ro rw selinux skew_tick spec_store_bypass_disable \
    spectre_v2 spectre_v2_user splash swiotlb systemd.unified_cgroup_hierarchy threadirqs \
    transparent_hugepage tsc tsx tsx_async_abort watchdog workqueue.cpu_intensive_thresh_us \
    workqueue.power_efficient";

/// Words in laggard's sentences and in the system's error messages.
const WORDS: &str = "a about above absolute access activation activations activity add address address-space \
    addresses adds affected affinity after again all allocate allowed allows alone already \
    always-on among an and another answer any apart apply arch architecture are argument \
    arguments around as ask asked at attach attached autogroup available awake back bad \
    balancing bandwidth batch's be became because before began begin being belongs below \
    between beyond bind blk board boosted boot bounds bpf briefly broken btf buffer buffers \
    build builds built busy but by byte bytes call callback called came can cannot cap \
    capabilities cause caused causes cgroup change changed check checked checks choose \
    chosen clear clock clocks close code collector column columns command comparable compare \
    component compute connection container contains context control controller copy core \
    costs could count counted counter counters counts cpu cpu's cpus cpuset create created \
    ctrl-z cycles damaged data deadline dearer debug debugfs debugger dedicated default \
    deferred defines delay delays deleted denied depend descriptor descriptors device \
    device's devices did differ different differs directory disable disabled disables disk \
    distribution's distributions dither do doctor does done down due dumped during each \
    earlier early ebpf else elsewhere empty enable enabled enables encoded end ended ends \
    enlarge entity entry episodes error errors even events every examine examined example \
    exceed exceeded excluded exclusive exist exists exit expect expire expired expires \
    expiries expiry explained explicit extend external failed fails fair fault faults few \
    fewer figures file file's files fill filter find first flight folder follows for forces \
    format found free frequencies frequency from frozen full function function_graph \
    functions futex gap generated get give given gives governor group groups had handled \
    handler handlers hang hard hardware has have held here higher highest holds how \
    hrtimer_cancel hrtimer_expire_entry hrtimer_expire_exit hrtimer_init hrtimer_start hwlat \
    hypervisor i/o id idle idled if in index info information input input/output install \
    installed instance instead interrupt interrupted interrupts into invalid io irq \
    irq_handler_entry irq_handler_exit irq_vectors irqsoff is isolated it its itself join \
    keep kept kernel kernel's kernels killed killed: kind kinds know known knows kthread \
    lacks laggard laggard's large larger last lasts late latencies latency later layout \
    learn least leave leaves left length lengths less let level libbpf lift limit limited \
    limits line lines link links list lists little load load's loaded loads local \
    local_timer_entry local_timer_exit lock lockdown locked locked-memory lockup log long \
    longer look looked loop looping loops lost lower lowest machine made make makes \
    management manifest many map mapped maps match max maximum may meanwhile measure \
    measured measurement measures measuring memory missing mitigation mitigations module \
    monotonic more most mount move moved moves much must name named names namespace need \
    needs neither never newer next nice nmi no nobody nohz non-maskable none nop nor normal \
    not nothing now numa number object observed of off offline offset offsets on once one \
    ones online only open operation or order ordinary os osnoise other others otherwise out \
    output outside over overcommit overwritten own page pages panic panicked parameter \
    paravirt part partly parts pass path per perf performance period permission permissions \
    permitted pinned place places please pmu points policy polls power preempt preempted \
    preemption preemptirqsoff preemptoff prepare present previous priorities priority \
    privileges proc process process's processed processes processor's processors program \
    program's programs pti put query queue queues quota raise raised ran range read \
    read-only reader reading readings reads ready real-time realtime reason reboot record \
    recorded recorder recording recording's recordings records refuse refused refuses \
    regular relevant remove report reports request requested resource respond restore \
    restrict results return rights ring rings root route run runnable running runs runtime s \
    safe safety same sample sampled sampler samples sampling says sched sched_deadline \
    sched_fifo sched_migrate_task sched_other sched_process_exec sched_process_exit \
    sched_process_fork sched_process_free sched_stat_blocked sched_stat_iowait \
    sched_stat_runtime sched_stat_sleep sched_stat_wait sched_switch sched_wakeup \
    sched_wakeup_new sched_waking scheduler scheduling script second section see seen \
    segment sent separate separately series served service services session set sets setting \
    settings several share shared shares sharing shell shift shortest should show shows \
    signal signature since single size slack sleep sleeps slice slot slots slow slower slows \
    smi smp so soft softirq softirq_entry softirq_exit softirq_raise softirqs some something \
    source space spawn spinlocks split spurious stack stage stage's stages stalls start \
    started starts stat state states status stay steal step steps still stop stopped \
    stopping stops storage such sudo suitable supported surrounding suspend swap swapped \
    swappiness switch switched symbol symbolization symbols sys syscall sysctl syslog system \
    systems taken takes tasks tell text than that the their them then there these they this \
    those thread threaded threadirqs threads throttling through thunk tick tick_stop \
    tickless ticks time timer timer's timer_cancel timer_expire_entry timer_expire_exit \
    timer_init timer_start timerlat timerlat's timers times to too took trace tracefs \
    tracepoint tracepoints tracer tracer's tracing track transparent trial tried true \
    truncated trusted turbo turn type unbind under undisturbed unhandled unknown unlimited \
    unload unlocked unmapped unmaps unnamed unreadable unsupported until unused unwrap up \
    usb use used user user's uses usual usually valid value values vcpus verifier version \
    virtual vm wait waited waiting waits wakes wakeup wakeup_rt wakeups waking was watch \
    watchdog watched weight went were what when where whether which while whitespace who \
    whole whose why windows with within without work worker works would writable write \
    writer writes written wrong wrote zero";

pub(super) fn is_kernel_thread(name: &str) -> bool {
    is_one_of(&KERNEL_THREADS, name)
}

pub(super) fn is_own_thread(name: &str) -> bool {
    is_one_of(&OWN_THREADS, name)
}

pub(super) fn is_system_library(name: &str) -> bool {
    is_one_of(&SYSTEM_LIBRARIES, name)
}

/// Splits the name of an interrupt thread into the part that identifies its interrupt
/// and the rest: the name of its device, possibly truncated.
pub(super) fn interrupt_thread(name: &str) -> Option<(&str, &str)> {
    let number = name.strip_prefix("irq/")?;
    let (number, _) = number.split_once('-')?;
    let digits = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    let begin = "irq/".len() + number.len() + 1;
    let begin = if name[begin..].starts_with("s-") {
        begin + 2
    } else {
        begin
    };
    digits.then(|| name.split_at(begin))
}

/// Returns the name of a BPF program if the function is one. Such names are private.
pub(super) fn loaded_program(function: &str) -> Option<&str> {
    if let Some(rest) = function.strip_prefix("bpf_prog_") {
        // A tag of hexadecimal digits precedes the name.
        return Some(rest.split_once('_').map_or("", |(_, name)| name));
    }
    function.strip_prefix("bpf_struct_ops_")
}

/// Returns whether a driver comes with Windows. Names of its files are
/// case-insensitive.
pub(super) fn is_windows_driver(name: &str) -> bool {
    let mut drivers = WINDOWS_DRIVERS.split_whitespace();
    drivers.any(|driver| driver.eq_ignore_ascii_case(name))
}

/// Returns whether a driver uses this name, or a prefix of it, for an interrupt.
pub(super) fn is_device(name: &str) -> bool {
    is_made_of(DEVICES, name, true)
}

/// Returns whether a part of a kernel version is common.
pub(super) fn is_release(part: &str) -> bool {
    let commit = part.strip_prefix('g').filter(|rest| rest.len() >= 7);
    let is_commit = commit.is_some_and(|rest| rest.bytes().all(|byte| byte.is_ascii_hexdigit()));
    is_commit || is_made_of(RELEASES, part, false)
}

pub(super) fn is_distribution(name: &str) -> bool {
    is_made_of(DISTRIBUTIONS, name, false)
}

/// Returns whether a word of the kernel's command line is a known option with a value
/// of the kernel's.
pub(super) fn is_kernel_option(word: &str) -> bool {
    let (name, value) = word.split_once('=').unwrap_or((word, ""));
    let is_of_value =
        |character: char| character.is_ascii_alphanumeric() || "_,.:+-".contains(character);
    OPTIONS.split_whitespace().any(|option| option == name)
        && value.len() <= 64
        && value.chars().all(is_of_value)
}

/// Returns whether a word is laggard's, or a number.
pub(super) fn is_plain_word(word: &str) -> bool {
    let is_word = |part: &str| {
        let lower = part.to_ascii_lowercase();
        WORDS.split_whitespace().any(|word| word == lower)
    };
    is_quantity(word) || word.split(':').all(is_word)
}

/// Returns whether a text is a number, or several, with units: `1.5ms`, `0-3,7`.
pub(super) fn is_quantity(text: &str) -> bool {
    let number = |part: &str| {
        let digits = part.trim_end_matches(|character: char| {
            character.is_ascii_alphabetic() || character == '%'
        });
        let unit = &part[digits.len()..];
        let is_number = digits.starts_with(|character: char| character.is_ascii_digit())
            && digits.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.')
            // More dots make an address.
            && digits.bytes().filter(|&byte| byte == b'.').count() <= 1;
        let units = [
            "", "%", "ns", "us", "ms", "s", "m", "h", "min", "Hz", "kHz", "KiB", "MiB",
        ];
        is_number && units.contains(&unit)
    };
    text.split([',', '-', ':']).all(number)
}

fn is_one_of(patterns: &[&str], name: &str) -> bool {
    let mut patterns = patterns.iter();
    patterns.any(|pattern| fits(pattern.as_bytes(), name.as_bytes()))
}

fn fits(pattern: &[u8], name: &[u8]) -> bool {
    let Some((&first, rest)) = pattern.split_first() else {
        return name.is_empty();
    };
    match (first, name.split_first()) {
        (b'#', _) => {
            let digits = name.iter().take_while(|byte| byte.is_ascii_digit()).count();
            digits > 0 && fits(rest, &name[digits..])
        }
        (b'?', Some((byte, name))) => byte.is_ascii_lowercase() && fits(rest, name),
        (first, Some((&byte, name))) => byte == first && fits(rest, name),
        (_, None) => false,
    }
}

/// Returns whether every run of letters in a text is one of `words`, and every number
/// is short. The last run may be truncated.
fn is_made_of(words: &str, text: &str, may_be_cut: bool) -> bool {
    /// Maximum length of a number; longer ones can identify a device.
    const DIGITS: usize = 6;
    let is_known = |run: &str, is_last: bool| {
        let lower = run.to_ascii_lowercase();
        let is_it = |candidate: &str| {
            candidate == lower || (is_last && may_be_cut && candidate.starts_with(lower.as_str()))
        };
        words.split_whitespace().any(is_it)
    };
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let same = |character: char| match first {
            first if first.is_ascii_alphabetic() => character.is_ascii_alphabetic(),
            first if first.is_ascii_digit() => character.is_ascii_digit(),
            _ => character == first,
        };
        let length = rest
            .find(|character| !same(character))
            .unwrap_or(rest.len());
        let (run, after) = rest.split_at(length);
        let is_good = match first {
            first if first.is_ascii_alphabetic() => is_known(run, after.is_empty()),
            first if first.is_ascii_digit() => run.len() <= DIGITS,
            first => first.is_ascii_punctuation() || first == ' ',
        };
        if !is_good {
            return false;
        }
        rest = after;
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn common_kernels_and_distributions_are_known_and_others_are_not() {
        for part in [
            "6.12.9",
            "rt4",
            "amd64",
            "0ubuntu3",
            "rc2",
            "g1a2b3c4d",
            "generic",
            "0.bpo.5",
        ] {
            assert!(is_release(part), "{part}");
        }
        for part in ["acme", "alice1", "rt4acme", "gacme", "ünï"] {
            assert!(!is_release(part), "{part}");
        }
        for name in [
            "Debian GNU/Linux 12 (bookworm)",
            "Ubuntu 24.04.2 LTS",
            "Fedora Linux 42 (Workstation Edition)",
            "Red Hat Enterprise Linux 9.4",
        ] {
            assert!(is_distribution(name), "{name}");
        }
        assert!(!is_distribution("Acme Linux 3"));
    }

    #[test]
    fn options_that_affect_latency_are_known_without_paths() {
        for word in [
            "isolcpus=domain,managed_irq,2-3",
            "quiet",
            "mitigations=auto,no_guest_host",
        ] {
            assert!(is_kernel_option(word), "{word}");
        }
        for word in [
            "root=UUID=1c2d",
            "ip=10.0.0.7",
            "lockdown=/alice",
            "acme.key=1",
            "isolcpus",
            "--",
        ] {
            assert_eq!(is_kernel_option(word), word == "isolcpus", "{word}");
        }
    }

    #[test]
    fn quantities_are_numbers_with_units() {
        for text in ["1.5ms", "0-3,7", "250", "50%", "00:01", "1000000ns"] {
            assert!(is_quantity(text), "{text}");
        }
        for text in [
            "",
            "ms",
            "3alice",
            "1alice2",
            "1.5msx",
            "10.0.0.7",
            "10.0.0.7:80",
            "1ms,alice",
            "-",
        ] {
            assert!(!is_quantity(text), "{text}");
        }
    }

    #[test]
    fn name_is_known_as_a_whole() {
        for name in [
            "kworker/0:1H",
            "jbd2/nvme0n1p2-",
            "scsi_eh_12",
            "rcu_preempt",
        ] {
            assert!(is_kernel_thread(name), "{name}");
        }
        for name in [
            "kworker/",
            "kworker/0:1H ",
            "jbd2/alice-8",
            "xrcu_preempt",
            "",
        ] {
            assert!(!is_kernel_thread(name), "{name}");
        }
        assert!(is_system_library("ld-linux-x86-64.so.2"));
        assert!(!is_system_library("libc.so.6.alice"));
        assert_eq!(
            interrupt_thread("irq/36-s-eth0"),
            Some(("irq/36-s-", "eth0"))
        );
        assert_eq!(interrupt_thread("irq/x-eth0"), None);
        assert_eq!(interrupt_thread("irq/3alice-eth0"), None);
        assert!(is_kernel_thread("jbd2/sda1-8") && !is_kernel_thread("jbd2/sdA1-8"));
        assert!(is_plain_word("sched:sched_switch") && !is_plain_word("sched:alice"));
    }
}
