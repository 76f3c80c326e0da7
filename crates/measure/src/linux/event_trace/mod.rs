//! Trace of scheduler, interrupt and timer events of all CPUs, in an instance of tracefs that
//! belongs to this process. Other tracers are not disturbed.

mod data;

use std::fs;
use std::io::{self, BufRead as _, BufReader, Seek, Write};
use std::path::{Path, PathBuf};

use laggard_files::PutBack;
use laggard_model::Nanos;

use data::TraceFiles;

use super::tracefs::{end, named, own_instance, read, remove_stale, root, write};

/// Ring buffer of a CPU in KiB: room for 200 ms of about 100,000 events per second, and for the
/// time until the trace is stopped.
const BUFFER_KIB: &str = "2048";
/// Events that are traced, as directories below `events`. Only the first group must exist:
/// `irq_vectors` is available only on x86, and `ipi/ipi_entry` on other architectures.
const EVENTS: [&str; 10] = [
    "sched/sched_switch",
    "sched/sched_waking",
    "sched/sched_wakeup",
    "sched/sched_wakeup_new",
    "sched/sched_migrate_task",
    "irq",
    "irq_vectors",
    "ipi/ipi_entry",
    "ipi/ipi_exit",
    "timer",
];

/// Shell script that removes the instance `$1`.
const UNDO: &str = r#"
[ ! -d "$1" ] || rmdir "$1"
[ ! -d "$1" ]
"#;

/// Trace that overwrites its oldest events until it is stopped. Dropping it removes the instance.
/// A shell does the same if this program is killed.
#[derive(Debug)]
pub struct EventTrace {
    root: PathBuf,
    directory: PathBuf,
    /// Shell that removes the instance.
    back: Option<PutBack>,
    /// Tracer that another program runs in the main instance, if any.
    other: Option<String>,
}

impl EventTrace {
    /// Creates the instance and starts to trace. Removes instances of a laggard that was killed.
    ///
    /// # Errors
    ///
    /// Returns an error if tracefs is not mounted, not accessible or full.
    pub fn start() -> io::Result<Self> {
        Self::start_in(root()?)
    }

    fn start_in(root: &Path) -> io::Result<Self> {
        remove_stale(root)?;
        // Each trace of this process has a separate instance.
        let directory = (1..)
            .map(|number| own_instance(root, &format!("-late{number}")))
            .find(|directory| !directory.exists())
            .ok_or(io::ErrorKind::AlreadyExists)?;
        let tracer = read(&root.join("current_tracer"))?;
        let back = PutBack::at_end(
            UNDO,
            &[&directory],
            None,
            format!(
                "cannot remove the trace instance; to remove it, run `rmdir {}`",
                directory.display()
            ),
        )?;
        fs::create_dir(&directory).map_err(named(&directory))?;
        let trace = Self {
            root: root.to_owned(),
            directory,
            back: Some(back),
            other: Some(tracer.trim())
                .filter(|tracer| *tracer != "nop")
                .map(str::to_owned),
        };
        trace.set("trace_clock", "mono")?;
        trace.set("buffer_size_kb", BUFFER_KIB)?;
        for event in EVENTS {
            let file = format!("events/{event}/enable");
            if trace.directory.join(&file).exists() || event == EVENTS[0] {
                trace.set(&file, "1")?;
            }
        }
        trace.set("tracing_on", "1")?;
        Ok(trace)
    }

    /// Returns the name of the tracer that another program runs in the main instance, if any.
    pub fn other_tracer(&self) -> Option<&str> {
        self.other.as_deref()
    }

    /// Stops the trace, so that its events are not overwritten.
    ///
    /// # Errors
    ///
    /// Returns an error if tracefs refuses.
    pub fn stop(&self) -> io::Result<()> {
        self.set("tracing_on", "0")
    }

    /// Writes the events since `from` (`CLOCK_MONOTONIC`) in the text format of ftrace. Call it
    /// after [`Self::stop`].
    ///
    /// # Errors
    ///
    /// Returns an error if the trace cannot be read, or `into` cannot be written.
    pub fn write_since(&self, from: Nanos, into: &mut impl Write) -> io::Result<()> {
        let path = self.directory.join("trace");
        let mut lines = BufReader::new(fs::File::open(&path).map_err(named(&path))?);
        let mut line = Vec::new();
        while lines.read_until(b'\n', &mut line).map_err(named(&path))? > 0 {
            if time_of(&line).is_none_or(|time| time >= from) {
                into.write_all(&line)?;
            }
            line.clear();
        }
        Ok(())
    }

    /// Writes the same as a binary file for trace-cmd and `KernelShark`. Call it after
    /// [`Self::stop`].
    ///
    /// # Errors
    ///
    /// Returns an error if the trace cannot be read, or `into` cannot be written.
    pub fn write_data_since(&self, from: Nanos, into: &mut (impl Write + Seek)) -> io::Result<()> {
        let files = TraceFiles {
            root: &self.root,
            instance: &self.directory,
            events: &EVENTS,
        };
        files.write_since(from, into)
    }

    /// Removes the events and traces again.
    ///
    /// # Errors
    ///
    /// Returns an error if tracefs refuses.
    pub fn resume(&self) -> io::Result<()> {
        // Opening it for writing clears the buffer.
        self.set("trace", "")?;
        self.set("tracing_on", "1")
    }

    fn set(&self, file: &str, text: &str) -> io::Result<()> {
        write(&self.directory.join(file), text)
    }
}

impl Drop for EventTrace {
    fn drop(&mut self) {
        let is_removed = end(&self.directory).is_ok();
        match self.back.take() {
            Some(back) if is_removed => back.dismiss(),
            // The shell tries again and reports a failure.
            back => drop(back),
        }
    }
}

/// Returns the time of an event, from its line in the text format of ftrace:
/// `COMM-PID [CPU] FLAGS SECONDS.MICROSECONDS: EVENT: ...`. `None`: the line is not an event.
fn time_of(line: &[u8]) -> Option<Nanos> {
    if line.starts_with(b"#") {
        return None;
    }
    let line = String::from_utf8_lossy(line);
    // The name of a thread may contain any of these characters, but the CPU follows its number.
    let rest = line.match_indices("] ").find_map(|(position, _)| {
        let cpu = &line[line[..position].rfind('[')? + 1..position];
        let is_cpu = cpu.len() >= 3 && cpu.bytes().all(|byte| byte.is_ascii_digit());
        is_cpu.then(|| &line[position + 2..])
    })?;
    let mut words = rest.split_ascii_whitespace();
    let time = words.nth(1)?.strip_suffix(':')?;
    let (seconds, micros) = time.split_once('.')?;
    let micros: u64 = Some(micros).filter(|text| text.len() == 6)?.parse().ok()?;
    let seconds: u64 = seconds.parse().ok()?;
    Some(Nanos::from_secs(seconds) + Nanos::from_us(micros))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_of_an_event_is_read_whatever_the_thread_is_called() {
        let time = |line: &str| time_of(line.as_bytes()).map(Nanos::ns);
        let expected = Some(1_234_567_890_000);

        let idle = "          <idle>-0       [001] d.h2.  1234.567890: irq_handler_entry: irq=9";
        assert_eq!(time(idle), expected);
        let odd = "  a [x] b] c-4242    [012] .....  1234.567890: sched_waking: comm=x pid=1";
        assert_eq!(time(odd), expected);
        assert_eq!(time("# tracer: nop"), None);
        assert_eq!(time("CPU:1 [LOST 12 EVENTS]"), None);
    }

    /// Creates a directory of ordinary files that resembles tracefs.
    fn tracefs() -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir(root.path().join("instances")).unwrap();
        fs::write(root.path().join("current_tracer"), "function\n").unwrap();
        root
    }

    #[test]
    fn kernel_without_the_events_is_refused() {
        let root = tracefs();

        let refused = EventTrace::start_in(root.path()).unwrap_err();

        assert!(refused.to_string().contains("sched_switch"), "{refused}");
    }
}
