//! CPUs that this process may use, and pinning. On a machine with more than 64 CPUs these are the
//! CPUs of one group.

use std::io;

use laggard_model::{Cpu, CpuList};
use windows_sys::Win32::System::Threading::{
    GetActiveProcessorGroupCount, GetCurrentProcess, GetCurrentThread, GetProcessAffinityMask,
    SetProcessAffinityMask, SetThreadAffinityMask,
};

/// Returns the CPUs that this process may use.
pub fn allowed_cpus() -> CpuList {
    let (mut own, mut all) = (0, 0);
    // SAFETY: both are valid for writes. If the call fails they stay zero.
    unsafe { GetProcessAffinityMask(GetCurrentProcess(), &raw mut own, &raw mut all) };
    let cpus = (0..usize::BITS).filter(|cpu| own >> cpu & 1 == 1);
    cpus.map(Cpu).collect()
}

/// Returns the number of groups of up to 64 CPUs.
pub(super) fn group_count() -> u16 {
    // SAFETY: the call does not take pointers.
    unsafe { GetActiveProcessorGroupCount() }
}

/// Restricts this process to a CPU.
pub fn pin_process(cpu: Cpu) -> io::Result<()> {
    let mask = 1_usize.checked_shl(cpu.0).unwrap_or(0);
    // SAFETY: the call does not take pointers.
    match unsafe { SetProcessAffinityMask(GetCurrentProcess(), mask) } {
        0 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

/// Pins the calling thread to a CPU.
pub fn pin(cpu: Cpu) -> io::Result<()> {
    let mask = 1_usize.checked_shl(cpu.0).unwrap_or(0);
    // SAFETY: the call does not take pointers.
    match unsafe { SetThreadAffinityMask(GetCurrentThread(), mask) } {
        0 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thread_can_be_pinned_only_to_an_existing_cpu() {
        let allowed = allowed_cpus();
        let &last = allowed.as_slice().last().unwrap();

        let (there, not_there) = std::thread::spawn(move || (pin(last), pin(Cpu(64))))
            .join()
            .unwrap();

        assert!(there.is_ok(), "{there:?}");
        assert!(not_there.is_err());
    }
}
