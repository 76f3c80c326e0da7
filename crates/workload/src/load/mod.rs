//! Loads: other activity of the machine during a measurement.
//!
//! Five loads are built in and run without other programs. The first four reproduce the cases of
//! Heubaum, "Windows 95 Interrupt Latency" (Vireo White Paper, 1995). Any command can be a load
//! too: see [`LoadProcess`]. Loads of real applications are described by a [`Recipe`].

#[cfg(target_os = "linux")]
mod busy;
mod draw;
#[cfg(not(target_os = "linux"))]
mod elsewhere;
#[cfg(target_os = "linux")]
mod error;
mod fileio;
#[cfg(target_os = "linux")]
mod find;
mod fp;
#[cfg(target_os = "linux")]
mod guard;
#[cfg(target_os = "linux")]
mod launch;
#[cfg(target_os = "linux")]
mod process;
#[cfg(target_os = "linux")]
mod recipe;
#[cfg(target_os = "linux")]
mod scanner;
#[cfg(target_os = "linux")]
mod several;
#[cfg(target_os = "linux")]
mod stopped;

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use laggard_model::{Nanos, Throughput};

#[cfg(target_os = "linux")]
pub use busy::{Busy, BusyError};
#[cfg(not(target_os = "linux"))]
pub use elsewhere::{LaunchError, LoadProcess};
#[cfg(target_os = "linux")]
pub use error::{Ended, LaunchError};
#[cfg(target_os = "linux")]
pub use find::{LoadRunError, NamedLoad};
#[cfg(target_os = "linux")]
pub use guard::Guard;
#[cfg(target_os = "linux")]
pub use launch::{Launch, LoadUser, Output};
#[cfg(target_os = "linux")]
pub use process::LoadProcess;
#[cfg(target_os = "linux")]
pub use recipe::{
    Need, Order, ProgramTrial, Recipe, RecipeError, Step, Unusable, Work, WorkReport, run_recipe,
};
#[cfg(target_os = "linux")]
pub use stopped::Halt;

#[cfg(target_os = "linux")]
use scanner::Scanner;

/// Line that a held load writes when it is set up.
pub const READY: &str = "ready";

/// Load that needs only this program.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Builtin {
    /// No activity.
    Idle,
    /// Threads that draw, compute and sleep (Heubaum's `WINBEZMT`).
    Draw,
    /// Endless floating-point loops (Heubaum's `DOSFP`).
    Fp,
    /// Endless reading of a cached file (Heubaum's `DOSIO`).
    FileIo,
    /// Reading of every opened file, like a virus scanner (OSDI'99 Fig. 5).
    #[cfg(target_os = "linux")]
    Scanner,
}

impl Builtin {
    /// All loads of this system.
    pub const ALL: &[Self] = &[
        Self::Idle,
        Self::Draw,
        Self::Fp,
        Self::FileIo,
        #[cfg(target_os = "linux")]
        Self::Scanner,
    ];

    /// Returns the name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Draw => "draw",
            Self::Fp => "fp",
            Self::FileIo => "fileio",
            #[cfg(target_os = "linux")]
            Self::Scanner => "scanner",
        }
    }

    /// Returns the description in one line.
    pub const fn about(self) -> &'static str {
        match self {
            Self::Idle => "nothing: the idle machine",
            Self::Draw => "16 threads draw curves into memory, compute and sleep 1 ms",
            Self::Fp => "4 threads divide floating-point numbers endlessly",
            Self::FileIo => {
                "4 threads open a cached 100 KB file, read it in 1 KB blocks and close it"
            }
            #[cfg(target_os = "linux")]
            Self::Scanner => {
                "reads every file that a program opens, like a virus scanner; needs root"
            }
        }
    }

    /// Returns the unit of the throughput.
    const fn unit(self) -> &'static str {
        match self {
            Self::Idle => "nothing",
            Self::Draw => "frames",
            Self::Fp => "divisions",
            Self::FileIo => "bytes",
            #[cfg(target_os = "linux")]
            Self::Scanner => "files",
        }
    }
}

impl fmt::Display for Builtin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Unknown name.
#[derive(Debug, Eq, PartialEq, thiserror::Error)]
#[error(
    "`{name}` is not a built-in load; use {loads}",
    name = .0,
    loads = if cfg!(target_os = "linux") {
        "idle, draw, fp, fileio or scanner, or give a command after `--`"
    } else {
        "idle, draw, fp or fileio; the others exist on Linux only"
    }
)]
pub struct UnknownLoad(pub String);

impl FromStr for Builtin {
    type Err = UnknownLoad;

    fn from_str(name: &str) -> Result<Self, UnknownLoad> {
        Self::ALL
            .iter()
            .copied()
            .find(|load| load.name() == name)
            .ok_or_else(|| UnknownLoad(name.into()))
    }
}

/// Reason why a built-in load could not continue.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// A thread could not be created.
    #[error("load {load}: no more threads; see `ulimit -u` and the cgroup's pids.max")]
    Thread { load: String, source: io::Error },
    /// Processes that take turns need a real-time policy.
    #[error(
        "load {load}: no right to real-time priority {priority}; run as root, or omit the turn length",
        priority = laggard_model::BusyTurns::PRIORITY
    )]
    RealTime { load: String, source: io::Error },
    /// Turns need a single CPU.
    #[error("load {load}: turns need a single CPU; name it with --load-cpus")]
    NotOneCpu { load: String },
    /// The file to read could not be created or read.
    #[error("load fileio: cannot use {}; point TMPDIR at a directory with 100 KB free", path.display())]
    File {
        /// File or its directory.
        path: PathBuf,
        source: io::Error,
    },
    /// The kernel refused to report opened files.
    #[error(
        "load scanner: cannot watch opened files; it needs root (CAP_SYS_ADMIN) and a kernel with CONFIG_FANOTIFY_ACCESS_PERMISSIONS"
    )]
    Scanner { source: io::Error },
}

impl RunError {
    /// Returns whether this machine lacks a prerequisite of the load, as opposed to a
    /// failure.
    #[cfg(target_os = "linux")]
    const fn is_unmet(&self) -> bool {
        matches!(
            self,
            Self::RealTime { .. } | Self::NotOneCpu { .. } | Self::Scanner { .. }
        )
    }
}

/// Interval between the checks of an idle load for a stop. It is long, so that the machine can
/// enter deep idle states.
const IDLE_POLL: Duration = Duration::from_millis(250);

/// Callback after a load is set up; the load starts to work when it returns.
pub type Gate<'a> = dyn Fn() + 'a;

/// Runs a built-in load in this process until `stop` is set, and counts its work. It is
/// set up before `gate` is called, and works after.
///
/// The threads inherit the caller's scheduling policy and CPUs. A measuring program
/// therefore starts itself again as a separate process, with [`Launch`], and calls this
/// function there.
///
/// # Errors
/// If a thread or the file is not available; the other threads then end too.
pub fn run(load: Builtin, stop: &AtomicBool, gate: &Gate<'_>) -> Result<Throughput, RunError> {
    let file = match load {
        Builtin::FileIo => Some(fileio::File::new()?),
        _ => None,
    };
    #[cfg(target_os = "linux")]
    let mut scanner = if load == Builtin::Scanner {
        Some(Scanner::new()?)
    } else {
        None
    };
    gate();
    let start = Instant::now();
    let count = match load {
        Builtin::Idle => {
            while !stop.load(Ordering::Relaxed) {
                thread::sleep(IDLE_POLL);
            }
            0
        }
        Builtin::Draw => in_threads(&load, draw::THREADS, stop, |index, ends| {
            Ok(draw::run(index, ends))
        })?,
        Builtin::Fp => in_threads(&load, fp::THREADS, stop, |_, ends| Ok(fp::run(ends)))?,
        Builtin::FileIo => in_threads(&load, fileio::THREADS, stop, |_, ends| {
            file.as_ref().map_or(Ok(0), |file| file.read(ends))
        })?,
        #[cfg(target_os = "linux")]
        Builtin::Scanner => match &mut scanner {
            Some(scanner) => scanner.scan(&|| stop.load(Ordering::Relaxed))?,
            None => 0,
        },
    };
    Ok(Throughput {
        unit: load.unit().into(),
        count,
        elapsed_ns: Nanos::from(start.elapsed()),
    })
}

/// Returns the sum of the results of `work` in each of `threads` threads. `work` gets
/// the index of its thread and a function that returns whether to end.
fn in_threads<W>(
    load: &dyn fmt::Display,
    threads: u32,
    stop: &AtomicBool,
    work: W,
) -> Result<u64, RunError>
where
    W: Fn(u32, &dyn Fn() -> bool) -> Result<u64, RunError> + Sync,
{
    let failed = AtomicBool::new(false);
    let ends = || stop.load(Ordering::Relaxed) || failed.load(Ordering::Relaxed);
    let guarded = |index| {
        let done = work(index, &ends);
        if done.is_err() {
            failed.store(true, Ordering::Relaxed);
        }
        done
    };
    thread::scope(|scope| {
        let mut workers = Vec::new();
        for index in 0..threads {
            let started = thread::Builder::new()
                .name(format!("load-{load}"))
                .spawn_scoped(scope, move || guarded(index));
            match started {
                Ok(worker) => workers.push(worker),
                Err(source) => {
                    failed.store(true, Ordering::Relaxed);
                    let load = load.to_string();
                    return Err(RunError::Thread { load, source });
                }
            }
        }
        workers.into_iter().try_fold(0, |sum, worker| {
            let done = worker
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            Ok(sum + done?)
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_load_is_found_by_its_name() {
        for &load in Builtin::ALL {
            assert_eq!(load.name().parse(), Ok(load));
        }
    }

    #[test]
    fn unknown_name_is_an_error_that_lists_the_loads() {
        let err = "office".parse::<Builtin>().unwrap_err().to_string();

        for load in Builtin::ALL {
            assert!(err.contains(load.name()), "{load} is not in: {err}");
        }
        assert!(err.starts_with("`office`"), "{err}");
    }

    #[test]
    fn every_busy_load_counts_its_work_until_stopped() {
        for load in [Builtin::Draw, Builtin::Fp, Builtin::FileIo] {
            let run_for = |length| {
                let stop = AtomicBool::new(false);
                thread::scope(|scope| {
                    let worker = scope.spawn(|| run(load, &stop, &|| ()));
                    thread::sleep(length);
                    stop.store(true, Ordering::Relaxed);
                    worker.join().unwrap().unwrap()
                })
            };
            // A write may take seconds on a busy disk.
            let mut runs = [100, 1_000, 10_000, 60_000]
                .map(Duration::from_millis)
                .into_iter();

            let done = runs
                .find_map(|length| Some(run_for(length)).filter(|done| done.count > 0))
                .unwrap_or_else(|| panic!("{load} did nothing"));

            assert!(done.elapsed_ns >= Nanos::from_ms(100), "for {load}");
        }
    }

    #[test]
    fn load_does_no_work_before_its_gate_opens() {
        let stop = AtomicBool::new(false);

        let done = run(Builtin::Fp, &stop, &|| stop.store(true, Ordering::Relaxed)).unwrap();

        assert_eq!(done.count, 0);
    }

    #[test]
    fn one_failing_thread_ends_all() {
        let stop = AtomicBool::new(false);

        let done = in_threads(&Builtin::FileIo, 4, &stop, |index, ends| {
            while index != 3 && !ends() {
                thread::yield_now();
            }
            match index {
                3 => Err(RunError::File {
                    path: "gone".into(),
                    source: io::ErrorKind::NotFound.into(),
                }),
                _ => Ok(1),
            }
        });

        assert!(matches!(done, Err(RunError::File { .. })), "{done:?}");
    }
}
