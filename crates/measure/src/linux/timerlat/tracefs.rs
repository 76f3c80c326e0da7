//! Settings of the tracer in tracefs: changed and restored.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use laggard_files::PutBack;
use laggard_model::{CpuList, Nanos};

use super::super::tracefs::{
    end, instances, is_stale, named, own_instance, read, remove_stale, write,
};

/// Mount point of tracefs.
pub(super) const ROOT: &str = "/sys/kernel/tracing";
/// Tracers that share one set of threads and settings.
const SHARING: [&str; 2] = ["timerlat", "osnoise"];
/// Size in bytes of a record in the ring buffer, rounded up; an activation has two records.
const RECORD_BYTES: u64 = 40;
/// Minimum size of the ring buffer of a CPU in KiB.
const MIN_BUFFER_KIB: u64 = 64;

/// Shell script that ends the tracer of the instance `$1`. The other arguments are settings: a
/// file and its previous content.
const UNDO: &str = r#"
instance=$1
shift
if [ -d "$instance" ]; then
    echo nop >"$instance/current_tracer"
    rmdir "$instance"
fi
while [ $# -gt 1 ]; do
    printf '%s\n' "$2" >"$1"
    shift 2
done
[ ! -d "$instance" ]
"#;

/// Checks that the kernel has the tracer and that it is not in use.
pub(super) fn check(root: &Path) -> io::Result<()> {
    let tracers = read(&root.join("available_tracers"))?;
    if !tracers.split_whitespace().any(|name| name == "timerlat") {
        return Err(io::Error::new(
            io::ErrorKind::NotFound,
            format!(
                "{} does not list timerlat",
                root.join("available_tracers").display()
            ),
        ));
    }
    for directory in [root.to_owned()].into_iter().chain(instances(root)) {
        let tracer = read(&directory.join("current_tracer"))?;
        if SHARING.contains(&tracer.trim()) && !is_stale(&directory) {
            return Err(io::Error::new(
                io::ErrorKind::ResourceBusy,
                format!("{} runs the tracer {}", directory.display(), tracer.trim()),
            ));
        }
    }
    Ok(())
}

/// Instance of tracefs for the tracer. Dropping it ends the tracer and restores every setting. A
/// shell does the same if this program is killed.
#[derive(Debug)]
pub(super) struct Instance {
    pub(super) directory: PathBuf,
    /// Settings changed outside the instance, with their previous content.
    changed: Vec<(PathBuf, String)>,
    /// Shell that does the same as [`Self::end`].
    back: Option<PutBack>,
}

impl Instance {
    /// Creates the instance for `cpus` with the tracer set up but not running. The ring buffers
    /// hold `time`.
    pub(super) fn new(root: &Path, cpus: &CpuList, period: Nanos, time: Nanos) -> io::Result<Self> {
        check(root)?;
        remove_stale(root)?;
        let directory = own_instance(root, "");
        let osnoise = root.join("osnoise");
        let period_us = (period.ns() / 1_000).to_string();
        let cpus = cpus.to_string();
        let settings = [
            ("stop_tracing_us", "0"),
            ("stop_tracing_total_us", "0"),
            ("print_stack", "0"),
            ("timerlat_period_us", &period_us),
            ("cpus", &cpus),
        ]
        .map(|(file, text)| (osnoise.join(file), text));
        let mut undone = vec![directory.clone().into_os_string()];
        for (file, text) in &settings {
            let before = read(file)?;
            if before.trim_end() != *text {
                undone.extend([file.clone().into_os_string(), before.trim_end().into()]);
            }
        }
        let back = PutBack::at_end(
            UNDO,
            &undone,
            None,
            format!(
                "cannot end the timerlat tracer of `{}`; to end it, run `echo nop > current_tracer` in that directory",
                directory.display()
            ),
        )?;
        fs::create_dir(&directory).map_err(named(&directory))?;
        let mut instance = Self {
            directory,
            changed: Vec::new(),
            back: Some(back),
        };
        let records = 2 * (time.ns() / period.ns().max(1) + 1);
        let kib = (records * RECORD_BYTES / 1024).max(MIN_BUFFER_KIB);
        write(&instance.directory.join("trace_clock"), "mono")?;
        write(&instance.directory.join("buffer_size_kb"), &kib.to_string())?;
        for (file, text) in settings {
            instance.set(file, text)?;
        }
        Ok(instance)
    }

    pub(super) fn start(&self) -> io::Result<()> {
        write(&self.directory.join("current_tracer"), "timerlat")?;
        write(&self.directory.join("tracing_on"), "1")
    }

    /// Ends the tracer and restores the settings.
    pub(super) fn end(&mut self) -> io::Result<()> {
        let mut ended = Ok(());
        if self.directory.exists() {
            ended = end(&self.directory);
        }
        for (path, text) in self.changed.drain(..).rev() {
            ended = ended.and(write(&path, &text));
        }
        match (self.back.take(), &ended) {
            (Some(back), Ok(())) => back.dismiss(),
            // The shell tries again and reports a failure.
            (back, _) => drop(back),
        }
        ended
    }

    fn set(&mut self, path: PathBuf, text: &str) -> io::Result<()> {
        let before = read(&path)?;
        let before = before.trim_end();
        if before != text {
            write(&path, text)?;
            self.changed.push((path, before.to_owned()));
        }
        Ok(())
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        // A caller that needs the result calls `end`.
        let _ = self.end();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Creates a directory of ordinary files that resembles tracefs.
    fn tracefs(tracers: &str) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir(root.path().join("instances")).unwrap();
        fs::create_dir(root.path().join("osnoise")).unwrap();
        for (file, text) in [
            ("available_tracers", tracers),
            ("current_tracer", "nop\n"),
            ("osnoise/stop_tracing_us", "0\n"),
            ("osnoise/stop_tracing_total_us", "50\n"),
            ("osnoise/print_stack", "0\n"),
            ("osnoise/timerlat_period_us", "1000\n"),
            ("osnoise/cpus", "0-7\n"),
        ] {
            fs::write(root.path().join(file), text).unwrap();
        }
        root
    }

    #[test]
    fn changed_settings_are_restored() {
        let root = tracefs("hwlat timerlat nop\n");
        let file = |name: &str| {
            let text = read(&root.path().join("osnoise").join(name)).unwrap();
            text.trim_end().to_owned()
        };
        let cpus: CpuList = "0-1".parse().unwrap();

        let instance =
            Instance::new(root.path(), &cpus, Nanos::from_us(500), Nanos::from_secs(1)).unwrap();
        let during = (file("cpus"), file("timerlat_period_us"));
        drop(instance);

        assert_eq!(during, ("0-1".into(), "500".into()));
        assert_eq!(file("cpus"), "0-7");
        assert_eq!(file("timerlat_period_us"), "1000");
        assert_eq!(file("stop_tracing_total_us"), "50");
    }

    /// Simulates a kill of this program: only the shell is left.
    #[test]
    fn shell_restores_the_settings() {
        let root = tracefs("hwlat timerlat nop\n");
        let file = |name: &str| read(&root.path().join("osnoise").join(name)).unwrap();
        let cpus: CpuList = "0-1".parse().unwrap();
        let mut instance =
            Instance::new(root.path(), &cpus, Nanos::from_us(500), Nanos::from_secs(1)).unwrap();

        drop(instance.back.take());

        let tracer = read(&instance.directory.join("current_tracer")).unwrap();
        assert_eq!(tracer, "nop\n");
        assert_eq!(file("cpus"), "0-7\n");
        assert_eq!(file("timerlat_period_us"), "1000\n");
        assert_eq!(file("stop_tracing_total_us"), "50\n");
    }

    #[test]
    fn tracer_in_use_is_not_touched() {
        let root = tracefs("timerlat nop\n");
        fs::write(root.path().join("current_tracer"), "osnoise\n").unwrap();

        let error = check(root.path()).unwrap_err();

        assert!(error.to_string().ends_with("runs the tracer osnoise"));
    }

    #[test]
    fn kernel_without_the_tracer_is_refused() {
        let root = tracefs("function_graph nop\n");

        let error = check(root.path()).unwrap_err();

        assert!(error.to_string().ends_with("does not list timerlat"));
    }
}
