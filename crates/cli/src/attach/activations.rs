//! Cycles as lines of a file: `attach --activations`.

use std::io::{self, BufWriter, Write as _};
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use laggard_answer::attach::ThreadCycle;
use laggard_files::LogFile;
use laggard_model::{WokenBy, printable};

const COLUMNS: &str = "thread,tid,process,number,policy,woken_by,wake_seen,run_seen,back_seen,origin_ns,due_ns,waking_ns,running_ns,done_ns,\
    preempted_ns,blocked_ns,preemptions,migrations,blocks,waker_cpu,first_cpu,cpu,sleeps,slept_ns,stops,stopped_ns\n";

/// File of comma-separated values. After a write error nothing more is written, and
/// [`ActivationFile::end`] returns the error.
#[derive(Debug)]
pub(super) struct ActivationFile {
    path: PathBuf,
    file: BufWriter<LogFile>,
    refused: Option<io::Error>,
}

impl ActivationFile {
    /// Creates the file. It must not exist.
    pub(super) fn create(path: &Path) -> anyhow::Result<Self> {
        let file = LogFile::create(path).with_context(|| {
            format!(
                "cannot create `{}`; give --activations another name",
                path.display()
            )
        })?;
        let mut file = Self {
            path: path.into(),
            file: BufWriter::new(file),
            refused: None,
        };
        file.write(|out| out.write_all(COLUMNS.as_bytes()));
        Ok(file)
    }

    /// Adds cycles that ended, and writes them to the file.
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

    /// Removes the file, because the measurement did not start.
    pub(super) fn discard(self) {
        // The error that prevented the start says more than one of the removal.
        let (file, _unwritten) = self.file.into_parts();
        let _ = file.discard();
    }

    /// Closes the file.
    ///
    /// # Errors
    /// If some cycles are not in the file.
    pub(super) fn end(self) -> anyhow::Result<()> {
        match self.refused {
            Some(error) => Err(error).with_context(|| {
                format!(
                    "cannot write `{}`; its last cycles are missing",
                    self.path.display()
                )
            }),
            None => Ok(()),
        }
    }
}

fn line(out: &mut impl io::Write, cycle: &ThreadCycle) -> io::Result<()> {
    let (thread, cycle) = (&cycle.thread, &cycle.whole);
    // A name may have any characters.
    let name = printable(&thread.name.to_string()).to_string();
    write!(out, "\"{}\"", name.replace('"', "\"\""))?;
    let woken = match cycle.woken {
        WokenBy::Timer(_) => "timer".to_owned(),
        WokenBy::Wheel(_) => "timer wheel".into(),
        WokenBy::Irq(number) => format!("irq {number}"),
        WokenBy::Vector => "interrupt of the CPU".into(),
        WokenBy::Softirq(vector) | WokenBy::Sender(vector, _) => format!("softirq {vector}"),
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
        u8::from(cycle.wake_seen),
        u8::from(cycle.run_seen),
        u8::from(cycle.back_seen),
        cycle.origin.ns(),
        cycle.due.ns(),
        cycle.waking.ns(),
        cycle.running.ns(),
        cycle.done.ns(),
        cycle.preempted.ns(),
        cycle.blocked.ns(),
        cycle.preemptions,
        cycle.migrations,
        cycle.blocks,
        cycle.waker_cpu,
        cycle.first_cpu,
        cycle.cpu,
        cycle.waits.sleeps,
        cycle.waits.slept.ns(),
        cycle.waits.stops,
        cycle.waits.stopped.ns(),
    )
}
