//! Interrupts of the HPET, a timer on the board (IA-PC HPET specification 1.0a), through
//! `/dev/hpet`. They do not depend on the kernel's clock.

use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd as _;

use laggard_model::{Absence, Cpu, CpuList, Lacks, Nanos, Tid};

use super::trial::refused;
use laggard_measure::linux::{handler_threads, reason_of};

const PATH: &str = "/dev/hpet";
/// Time between two interrupts by default: about that of the interrupts from another CPU, and not
/// a multiple of a tick.
pub(super) const PERIOD: Nanos = Nanos::from_ns(200_040);

/// `linux/hpet.h`: `HPET_IE_ON`, `HPET_INFO`, `HPET_EPI`, `HPET_IRQFREQ`
/// (`asm-generic/ioctl.h`).
const INTERRUPTS_ON: u32 = 0x6801;
const INFO: u32 = 0x8018_6803;
const PERIODIC: u32 = 0x6804;
const SET_RATE: u32 = 0x4008_6806;
const OTHERWISE: &str = "omit --source hpet to use another CPU";

/// `HPET_INFO_PERIODIC`: the timer repeats by itself.
const IS_PERIODIC: libc::c_ulong = 0x10;

/// `struct hpet_info`.
#[derive(Default)]
#[repr(C)]
struct Info {
    rate_hz: libc::c_ulong,
    flags: libc::c_ulong,
    block: libc::c_ushort,
    timer: libc::c_ushort,
}

/// Timer of the HPET that interrupts until it is dropped.
#[derive(Debug)]
pub(super) struct Hpet {
    _device: File,
    /// Interrupt number.
    pub(super) irq: u32,
    /// Time between two interrupts.
    pub(super) period: Nanos,
}

impl Hpet {
    /// Returns the thread that runs the handler and its real-time priority; `None` if the handler
    /// runs in the interrupt.
    pub(super) fn thread(&self) -> Option<(Tid, u8)> {
        let (thread, _) = handler_threads(self.irq).into_iter().next()?;
        let stat = fs::read_to_string(format!("/proc/{}/stat", thread.0)).ok()?;
        let (_, fields) = stat.rsplit_once(')')?;
        // Field 40 of proc_pid_stat(5); the first of these is field 3.
        let priority = fields.split_ascii_whitespace().nth(40 - 3)?;
        Some((thread, priority.parse().ok()?))
    }

    /// Starts to interrupt `cpu` every `period`.
    ///
    /// # Errors
    ///
    /// Returns an error if no timer is free, if its interrupt goes to another CPU or is shared
    /// with another device, or if this user may not request this rate.
    pub(super) fn start(cpu: Cpu, period: Nanos) -> Result<Self, Absence> {
        let rate_hz = (1_000_000_000 / period.ns().max(1)).max(1);
        let device = File::open(PATH).map_err(|err| {
            if err.kind() != io::ErrorKind::NotFound {
                return refused(PATH, &err);
            }
            Absence::new(
                format!("no {PATH}: this machine has no HPET, or its kernel has no driver for it"),
                OTHERWISE,
                Lacks::Machine,
            )
        })?;
        let fd = device.as_raw_fd();
        let mut info = Info::default();
        // SAFETY: `info` has the layout that the kernel writes for this request.
        check(unsafe { libc::ioctl(fd, INFO as libc::Ioctl, &raw mut info) })
            .map_err(|err| refused(PATH, &err))?;
        // SAFETY: takes a number.
        check(unsafe { libc::ioctl(fd, SET_RATE as libc::Ioctl, rate_hz) })
            .map_err(|err| refused(&format!("{rate_hz} interrupts a second of {PATH}"), &err))?;
        if info.flags & IS_PERIODIC != 0 {
            // SAFETY: the arguments are integers. Without this call, each handler requests the next
            //         interrupt.
            check(unsafe { libc::ioctl(fd, PERIODIC as libc::Ioctl, 0) })
                .map_err(|err| refused(PATH, &err))?;
        }
        // SAFETY: the arguments are integers.
        check(unsafe { libc::ioctl(fd, INTERRUPTS_ON as libc::Ioctl, 0) })
            .map_err(|err| refused(PATH, &err))?;
        let irq =
            irq_of(info.timer).map_err(|reason| Absence::new(reason, OTHERWISE, Lacks::Machine))?;
        match target_cpus(irq) {
            Some(targets) if !targets.contains(cpu) => Err(Absence::new(
                format!("interrupt {irq} of {PATH} goes to CPU {targets}, not to CPU {cpu}"),
                format!(
                    "test that CPU (--cpu), or `echo {cpu} > /proc/irq/{irq}/smp_affinity_list`"
                ),
                Lacks::Machine,
            )),
            _ => Ok(Self {
                _device: device,
                irq,
                period: Nanos::from_ns(1_000_000_000 / rate_hz),
            }),
        }
    }
}

fn check(result: libc::c_int) -> io::Result<()> {
    match result {
        0.. => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Returns the number of the interrupt of this timer, if no other device shares it.
fn irq_of(timer: u16) -> Result<u32, String> {
    let path = "/proc/interrupts";
    let list = fs::read_to_string(path).map_err(|err| format!("{path}: {}", reason_of(&err)))?;
    irq_in(&list, timer)
}

fn irq_in(list: &str, timer: u16) -> Result<u32, String> {
    let name = format!("hpet{timer}");
    for line in list.lines() {
        let Some((number, rest)) = line.split_once(':') else {
            continue;
        };
        let mut names = rest
            .rsplit_once("  ")
            .map_or(rest, |parts| parts.1)
            .split(", ");
        if !names.any(|entry| entry.trim() == name) {
            continue;
        }
        if rest.contains(", ") {
            return Err(format!(
                "interrupt {} is shared with another device: {}",
                number.trim(),
                rest.rsplit_once("  ").map_or(rest, |parts| parts.1).trim()
            ));
        }
        let number = number.trim();
        return number
            .parse()
            .map_err(|_| format!("`{number}` is not an interrupt number"));
    }
    Err(format!("/proc/interrupts has no {name}"))
}

/// Returns the CPUs that an interrupt goes to; `None` if this is unknown.
fn target_cpus(irq: u32) -> Option<CpuList> {
    let files = ["effective_affinity_list", "smp_affinity_list"];
    files.iter().find_map(|file| {
        let list = fs::read_to_string(format!("/proc/irq/{irq}/{file}")).ok()?;
        list.trim().parse().ok()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIST: &str = "           CPU0
  0:        322   IO-APIC   2-edge      timer
 16:         66   IO-APIC  16-fasteoi   hpet2
 17:          9   IO-APIC  17-fasteoi   ehci_hcd:usb1, hpet3
LOC:       1617   Local timer interrupts
";

    #[test]
    fn irq_of_a_timer_is_returned_unless_it_is_shared() {
        assert_eq!(irq_in(LIST, 2), Ok(16));
        assert_eq!(
            irq_in(LIST, 3).unwrap_err(),
            "interrupt 17 is shared with another device: ehci_hcd:usb1, hpet3"
        );
        let reason = irq_in(LIST, 4).unwrap_err();
        assert_eq!(reason, "/proc/interrupts has no hpet4");
    }
}
