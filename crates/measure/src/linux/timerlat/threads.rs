//! Priority of the tracer's threads.

use std::fs;
use std::io;
use std::path::Path;

use laggard_model::Cpu;

/// Sets the `SCHED_FIFO` priority of the tracer's thread on `cpu`. The kernel ends the thread with
/// the tracer, so nothing has to be restored.
pub(super) fn set_priority(proc: &Path, cpu: Cpu, priority: u8) -> io::Result<()> {
    let name = format!("timerlat/{cpu}");
    let thread = find(proc, &name)?.ok_or_else(|| {
        let reason = format!("the tracer has no thread `{name}`");
        io::Error::new(io::ErrorKind::NotFound, reason)
    })?;
    let parameters = libc::sched_param {
        sched_priority: priority.into(),
    };
    // SAFETY: the parameters are valid for reads.
    match unsafe { libc::sched_setscheduler(thread, libc::SCHED_FIFO, &raw const parameters) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Returns the ID of the kernel thread with this name.
fn find(proc: &Path, name: &str) -> io::Result<Option<libc::pid_t>> {
    for entry in fs::read_dir(proc)? {
        let entry = entry?;
        let number = entry.file_name().to_string_lossy().parse();
        let Ok(number) = number else { continue };
        // Programs can take the name, but have a command line. A thread may end at any time.
        let text = |file: &str| fs::read_to_string(entry.path().join(file)).unwrap_or_default();
        if text("comm").trim_end() == name && text("cmdline").is_empty() {
            return Ok(Some(number));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn program_with_the_name_is_not_the_kernel_thread() {
        let proc = tempfile::tempdir().unwrap();
        for (number, name, command) in [
            ("41", "timerlat/1", "sh\0"),
            ("42", "timerlat/1", ""),
            ("43", "timerlat/11", ""),
        ] {
            let thread = proc.path().join(number);
            fs::create_dir(&thread).unwrap();
            fs::write(thread.join("comm"), format!("{name}\n")).unwrap();
            fs::write(thread.join("cmdline"), command).unwrap();
        }

        assert_eq!(find(proc.path(), "timerlat/1").unwrap(), Some(42));
        let err = set_priority(proc.path(), Cpu(2), 50).unwrap_err();
        assert!(err.to_string().ends_with("no thread `timerlat/2`"), "{err}");
    }
}
