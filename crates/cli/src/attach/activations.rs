//! Each cycle of threads that are watched, as a line of a file.

use std::io::{self, BufWriter, Write as _};
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use laggard_answer::attach::ThreadCycle;
use laggard_files::LogFile;
use laggard_model::{WokenBy, printable};

const COLUMNS: &str = "thread,tid,process,number,policy,woken_by,wake_seen,run_seen,back_seen,origin_ns,due_ns,waking_ns,running_ns,done_ns,\
    preempted_ns,blocked_ns,preemptions,migrations,blocks,waker_cpu,first_cpu,cpu,sleeps,slept_ns,stops,stopped_ns\n";

/// A new file of comma-separated values. Where the disk refuses, nothing more is
/// written, and [`ActivationFile::end`] says why.
#[derive(Debug)]
pub(super) struct ActivationFile {
    path: PathBuf,
    file: BufWriter<LogFile>,
    refused: Option<io::Error>,
}

impl ActivationFile {
    /// Makes it; one that is there is left alone.
    pub(super) fn make(path: &Path) -> anyhow::Result<Self> {
        let file = LogFile::create(path).with_context(|| {
            format!("make `{}`; give --activations another name", path.display())
        })?;
        let mut file = Self {
            path: path.into(),
            file: BufWriter::new(file),
            refused: None,
        };
        file.write(|out| out.write_all(COLUMNS.as_bytes()));
        Ok(file)
    }

    /// Adds cycles that ended, and has the system keep them.
    pub(super) fn add(&mut self, cycles: &[ThreadCycle]) {
        self.write(|out| {
            for cycle in cycles {
                line(out, cycle)?;
            }
            out.flush()
        });
    }

    fn write(&mut self, write: impl FnOnce(&mut BufWriter<LogFile>) -> io::Result<()>) {
        if self.refused.is_none() {
            self.refused = write(&mut self.file).err();
        }
    }

    /// Takes it away again: what was to be watched never began.
    pub(super) fn discard(self) {
        // Best effort: the error that it did not begin says more.
        let (file, _unwritten) = self.file.into_parts();
        let _ = file.discard();
    }

    /// Says why not all of them are in it, if so.
    pub(super) fn end(self) -> anyhow::Result<()> {
        match self.refused {
            Some(err) => Err(err).with_context(|| {
                format!(
                    "write `{}`: the last activations are not in it",
                    self.path.display()
                )
            }),
            None => Ok(()),
        }
    }
}

fn line(out: &mut impl io::Write, cycle: &ThreadCycle) -> io::Result<()> {
    let (thread, one) = (&cycle.thread, &cycle.whole);
    // Escaped, and quoted: a name is whatever somebody gave.
    let name = printable(&thread.name.to_string()).to_string();
    write!(out, "\"{}\"", name.replace('"', "\"\""))?;
    let woken = match one.woken {
        WokenBy::Timer(_) => "timer".to_owned(),
        WokenBy::Wheel(_) => "timer wheel".into(),
        WokenBy::Irq(number) => format!("irq {number}"),
        WokenBy::Vector => "interrupt of the CPU".into(),
        WokenBy::Softirq(vector) => format!("softirq {vector}"),
        WokenBy::Interrupt => "interrupt".into(),
        WokenBy::Thread(tid, _) => format!("thread {}", tid.0),
    };
    writeln!(
        out,
        ",{},{},{},\"{}\",{woken},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{}",
        thread.tid.0,
        thread.process,
        thread.number,
        thread.policy,
        u8::from(one.wake_seen),
        u8::from(one.run_seen),
        u8::from(one.back_seen),
        one.origin.ns(),
        one.due.ns(),
        one.waking.ns(),
        one.running.ns(),
        one.done.ns(),
        one.preempted.ns(),
        one.blocked.ns(),
        one.preemptions,
        one.migrations,
        one.blocks,
        one.waker_cpu,
        one.first_cpu,
        one.cpu,
        one.waits.sleeps,
        one.waits.slept.ns(),
        one.waits.stops,
        one.waits.stopped.ns(),
    )
}
