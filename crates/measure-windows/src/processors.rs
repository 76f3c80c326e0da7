//! CPUs that this process may use, and staying on one. Of a machine with more than 64
//! CPUs these are those of one group.

use std::io;

use laggard_model::{Cpu, CpuList};
use windows_sys::Win32::System::Threading::{
    GetActiveProcessorGroupCount, GetCurrentProcess, GetCurrentThread, GetProcessAffinityMask,
    SetThreadAffinityMask,
};

/// CPUs that this process may use.
pub fn allowed_cpus() -> CpuList {
    let (mut own, mut all) = (0, 0);
    // SAFETY: both are valid for writes. Where the call fails they stay zero.
    unsafe { GetProcessAffinityMask(GetCurrentProcess(), &raw mut own, &raw mut all) };
    let cpus = (0..usize::BITS).filter(|cpu| own >> cpu & 1 == 1);
    cpus.map(Cpu).collect()
}

/// How many groups of up to 64 CPUs this machine has.
pub(super) fn group_count() -> u16 {
    // SAFETY: takes no pointers.
    unsafe { GetActiveProcessorGroupCount() }
}

/// Keeps the calling thread on a CPU.
pub fn pin(cpu: Cpu) -> io::Result<()> {
    let mask = 1_usize.checked_shl(cpu.0).unwrap_or(0);
    // SAFETY: takes no pointers.
    match unsafe { SetThreadAffinityMask(GetCurrentThread(), mask) } {
        0 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_stays_on_a_cpu_that_is_there_alone() {
        let allowed = allowed_cpus();
        let &last = allowed.as_slice().last().unwrap();

        let (there, not_there) = std::thread::spawn(move || (pin(last), pin(Cpu(64))))
            .join()
            .unwrap();

        assert!(there.is_ok(), "{there:?}");
        assert!(not_there.is_err());
    }
}
