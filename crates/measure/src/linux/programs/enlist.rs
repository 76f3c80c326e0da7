//! Registration of a measuring thread with the programs.

use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use laggard_bpf::object::ObjectRefused;
use laggard_bpf::value::Value as _;
use laggard_model::Cpu;
use libbpf_rs::libbpf_sys::{bpf_prog_test_run_opts, bpf_test_run_opts};

use super::Programs;
use super::values::EnlistArgs;

/// Program of `chain.bpf.c` that each measuring thread runs. In a PID namespace (a container)
/// only the kernel knows the TID that tracepoints report.
#[derive(Debug)]
pub(crate) struct Enlist(OwnedFd);

impl Programs {
    pub(crate) fn enlist(&self) -> Result<Enlist, ObjectRefused> {
        let program = self.chain.program("enlist")?;
        let fd = program.as_fd().try_clone_to_owned();
        fd.map(Enlist)
            .map_err(|err| ObjectRefused::because(err.to_string()))
    }
}

impl Enlist {
    /// Registers the calling thread for line `line` of `cpu`, as its service or as the thread
    /// that arms its timer.
    pub(crate) fn enlist(&self, cpu: Cpu, line: usize, serves: bool) -> io::Result<()> {
        let args = EnlistArgs {
            cpu: cpu.0,
            line: u32::try_from(line).map_err(io::Error::other)?,
            serves: serves.into(),
        };
        let mut args = args.to_bytes();
        let mut run = bpf_test_run_opts {
            sz: size_of::<bpf_test_run_opts>() as _,
            ctx_in: args.as_mut_ptr().cast_const().cast(),
            ctx_size_in: u32::try_from(args.len()).map_err(io::Error::other)?,
            ..Default::default()
        };
        // SAFETY: the descriptor is a program's, `run` and the memory that it points to live
        // until the return, and the sizes are correct. The kernel writes the arguments back to
        // memory that this function owns.
        match unsafe { bpf_prog_test_run_opts(self.0.as_raw_fd(), &raw mut run) } {
            0 => match i32::from_ne_bytes(run.retval.to_ne_bytes()) {
                0 => Ok(()),
                code => Err(io::Error::from_raw_os_error(code)),
            },
            // libbpf returns the negative error number.
            code => Err(io::Error::from_raw_os_error(-code)),
        }
    }
}
