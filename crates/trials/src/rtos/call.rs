//! Calls from one CPU to another, which interrupt it.

use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::{FromRawFd as _, OwnedFd};

use laggard_model::Cpu;

/// Performance counter of one CPU that counts nothing. To read it from another CPU, the kernel
/// interrupts that CPU and waits for the handler.
#[derive(Debug)]
pub(super) struct CpuCall(File);

/// `PERF_TYPE_SOFTWARE` of `linux/perf_event.h`.
const SOFTWARE: u32 = 1;
/// `PERF_COUNT_SW_DUMMY` of `linux/perf_event.h`.
const DUMMY: u32 = 9;
/// First published size of `perf_event_attr`, which every kernel accepts.
const ATTR_BYTES: u32 = 64;
/// `PERF_FLAG_FD_CLOEXEC`.
const CLOSE_ON_EXEC: libc::c_ulong = 8;

impl CpuCall {
    pub(super) fn new(cpu: Cpu) -> io::Result<Self> {
        let mut attr = [0_u32; ATTR_BYTES as usize / 4];
        attr[0] = SOFTWARE;
        attr[1] = ATTR_BYTES;
        attr[2] = DUMMY;
        let (any_process, no_group) = (-1, -1);
        // SAFETY: `attr` is valid for reads of the size that it states.
        let fd = unsafe {
            libc::syscall(
                libc::SYS_perf_event_open,
                attr.as_ptr(),
                any_process,
                libc::c_long::from(cpu.0),
                no_group,
                CLOSE_ON_EXEC,
            )
        };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the kernel has just returned this descriptor.
        let fd = unsafe { OwnedFd::from_raw_fd(i32::try_from(fd).unwrap_or(-1)) };
        Ok(Self(fd.into()))
    }

    /// Interrupts the CPU once.
    pub(super) fn call(&self) -> io::Result<()> {
        let mut count = [0; 8];
        (&self.0).read_exact(&mut count)
    }
}
