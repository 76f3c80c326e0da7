//! Test hosts: Debian kernels in QEMU, to run a command on and bring back
//! what it wrote.
//!
//! ```no_run
//! use laggard_testkit::host::{Kernel, Mode, TestHost};
//!
//! let outcome = TestHost::new(Kernel::fetch("6.12-rt")?)
//!     .mode(Mode::Icount)
//!     .program("target/release/laggard")
//!     .command("laggard record --duration 5s -o /result/r.laggard")
//!     .run()?;
//! assert_eq!(outcome.status, 0, "{}", outcome.output);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! What was learnt about these kernels is in `docs/validation/test-hosts.md`.

mod apt;
mod cache;
mod clock;
mod cpio;
mod death;
mod error;
mod guest;
mod initramfs;
mod kernel;
mod qmp;
mod results;
mod tools;

use std::path::{Path, PathBuf};
use std::time::Duration;

use laggard_model::{Cpu, Nanos};
use laggard_workload::disturb::{FaultKind, Hit};
use tempfile::TempDir;

pub use error::{FetchError, GuestError};
use guest::Guest;
use initramfs::Contents;
pub use kernel::{Kernel, KernelName};
use results::{RESULTS_AT, RESULTS_BYTES};
use tools::Tools;

/// How often a guest is booted at most that the emulator makes die.
///
/// QEMU runs two CPUs as two threads, and 7.2 loses the race when a kernel
/// changes its own code: once in some 50 boots seen here, by an `int3`, and at
/// times later. In virtual time, what panics once panics again.
const MOST_BOOTS: usize = 3;

/// How a guest's time passes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Mode {
    /// One CPU in virtual time: 8 ns per instruction, idle time skipped. The
    /// same files, command and seed give the same result to the last bit,
    /// however busy this machine is: for assertions on latency.
    Icount,
    /// Two CPUs in real time, as disturbed as this machine: for functional
    /// tests and for stalls, never for assertions on latency.
    Smp,
}

impl Mode {
    /// How many CPUs it has.
    const fn cpus(self) -> u32 {
        match self {
            Self::Icount => 1,
            Self::Smp => 2,
        }
    }

    /// For seconds after boot, 6.12 still delays threads by up to 0.9 ms.
    /// Waiting costs nothing in virtual time.
    const fn settle(self) -> Duration {
        Duration::from_secs(match self {
            Self::Icount => 5,
            Self::Smp => 1,
        })
    }
}

/// How long an instruction takes in virtual time: a power of two of ns. The
/// shorter, the less of the time programs take that measure, and the longer the
/// host's own work takes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct InstructionTime {
    shift: u32,
}

impl Default for InstructionTime {
    fn default() -> Self {
        Self { shift: 3 }
    }
}

impl InstructionTime {
    /// 1, 2, 4 or 8 ns; `None`: it can be none of other times.
    pub fn new(time: Nanos) -> Option<Self> {
        let ns = time.ns();
        (ns.is_power_of_two() && ns <= 8).then(|| Self { shift: ns.ilog2() })
    }
}

/// A stall that was made: QEMU stopped as a whole, its clock ran on.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Stall {
    /// When, after the command began.
    pub at: Duration,
    /// How long, from before the signal that stops to after the one that
    /// continues.
    pub length: Duration,
    /// When, by the guest's `CLOCK_MONOTONIC`; too early by the time in which
    /// a line of its console comes here, some tenths of a millisecond.
    pub guest: Nanos,
}

impl Stall {
    /// The truth in the form in which `laggard provoke` writes it: one hit for
    /// each CPU, since all of them stood still.
    pub fn hits(&self) -> Vec<Hit> {
        let hit = |cpu| Hit {
            kind: FaultKind::Steal,
            start_ns: self.guest,
            length_ns: self.length.into(),
            cpu: Cpu(cpu),
        };
        (0..Mode::Smp.cpus()).map(hit).collect()
    }
}

/// A stall that is to be made.
#[derive(Clone, Copy, Debug)]
struct PlannedStall {
    /// When, after the command began.
    at: Duration,
    length: Duration,
}

/// A machine to be booted once.
#[derive(Debug)]
pub struct TestHost {
    kernel: Kernel,
    mode: Mode,
    instruction: InstructionTime,
    memory_mib: u64,
    seed: u64,
    edu: bool,
    kernel_arguments: String,
    files: Vec<(PathBuf, String)>,
    programs: Vec<PathBuf>,
    command: String,
    stalls: Vec<PlannedStall>,
    deadline: Duration,
    results: Option<PathBuf>,
}

impl TestHost {
    /// A host in virtual time with 512 MiB, that does nothing yet.
    pub fn new(kernel: Kernel) -> Self {
        Self {
            kernel,
            mode: Mode::Icount,
            instruction: InstructionTime::default(),
            memory_mib: 512,
            seed: 1,
            edu: false,
            kernel_arguments: String::new(),
            files: Vec::new(),
            programs: Vec::new(),
            command: "true".into(),
            stalls: Vec::new(),
            deadline: Duration::from_secs(120),
            results: None,
        }
    }

    /// How its time passes.
    #[must_use]
    pub fn mode(mut self, mode: Mode) -> Self {
        self.mode = mode;
        self
    }

    /// How long an instruction takes in [`Mode::Icount`]; 8 ns unless told.
    #[must_use]
    pub fn instruction(mut self, time: InstructionTime) -> Self {
        self.instruction = time;
        self
    }

    /// How much memory it has; at least 384, since 64 carry the results.
    #[must_use]
    pub fn memory_mib(mut self, mib: u64) -> Self {
        self.memory_mib = mib.max(384);
        self
    }

    /// What its random numbers derive from. Other seeds place the kernel and
    /// its data elsewhere: repetitions of a deterministic experiment.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// Gives it QEMU's `edu` device, whose interrupt a program can raise,
    /// as `/dev/uio0`.
    #[must_use]
    pub fn edu(mut self) -> Self {
        self.edu = true;
        self
    }

    /// More of the kernel's command line, such as `isolcpus=1`.
    #[must_use]
    pub fn kernel_arguments(mut self, arguments: &str) -> Self {
        self.kernel_arguments.push(' ');
        self.kernel_arguments.push_str(arguments);
        self
    }

    /// Copies a file of this machine to the path `to`.
    #[must_use]
    pub fn file(mut self, from: impl Into<PathBuf>, to: &str) -> Self {
        self.files.push((from.into(), to.into()));
        self
    }

    /// Copies a program of this machine to `/usr/bin`, with the shared
    /// libraries that it needs here.
    #[must_use]
    pub fn program(mut self, path: impl Into<PathBuf>) -> Self {
        self.programs.push(path.into());
        self
    }

    /// The shell text that it runs, as root in `/root`. What is left in
    /// `/result` comes back.
    #[must_use]
    pub fn command(mut self, command: &str) -> Self {
        self.command = command.into();
        self
    }

    /// Stops everything for `length`, `at` after the command began. Only
    /// with [`Mode::Smp`]: virtual time stands still while QEMU does.
    #[must_use]
    pub fn stall_at(mut self, at: Duration, length: Duration) -> Self {
        self.stalls.push(PlannedStall { at, length });
        self.stalls.sort_by_key(|stall| stall.at);
        self
    }

    /// How much real time it has, boot included; 120 s unless told.
    #[must_use]
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.deadline = deadline;
        self
    }

    /// Keeps the results in this directory; else they last as long as the
    /// [`HostOutcome`].
    #[must_use]
    pub fn results(mut self, directory: impl Into<PathBuf>) -> Self {
        self.results = Some(directory.into());
        self
    }

    /// Boots, runs the command, brings back what it left, switches off.
    ///
    /// # Errors
    /// When the host cannot be built or booted, does not end within the
    /// deadline, or ends without results. A command that fails is not an
    /// error: see [`HostOutcome::status`].
    pub fn run(self) -> Result<HostOutcome, GuestError> {
        if self.mode == Mode::Icount && !self.stalls.is_empty() {
            return Err(GuestError::StallUnseen);
        }
        if let Some(directory) = &self.results
            && directory.join("result").exists()
        {
            return Err(GuestError::ResultsExist(directory.clone()));
        }
        let tools = Tools::fetch()?;
        let scratch = TempDir::new().map_err(GuestError::io("a temporary directory"))?;
        let initramfs = scratch.path().join("initramfs");
        let bytes = Contents {
            kernel: &self.kernel,
            tools: &tools,
            files: &self.all_files()?,
            command: &self.command,
            edu: self.edu,
            settle: self.mode.settle(),
            tells_time: !self.stalls.is_empty(),
        }
        .write(&initramfs)?;
        // QEMU puts it at the end of memory; the kernel keeps it there while
        // it unpacks it into as much again.
        let limit = ((self.memory_mib << 20) - RESULTS_AT - RESULTS_BYTES) / 2;
        if bytes > limit {
            return Err(GuestError::FilesTooBig { bytes, limit });
        }

        let arguments = self.qemu_arguments(&initramfs, scratch.path());
        let (finished, deaths) = until_it_lives(self.mode, || {
            let guest = Guest::boot(&arguments, scratch.path())?;
            guest.finish(&self.stalls, self.deadline)
        })?;

        let directory = self
            .results
            .unwrap_or_else(|| scratch.path().join("results"));
        let output = results::unpack(&finished.archive, &directory)?;
        if finished.header.stopped {
            return Err(GuestError::Deadline {
                after: self.deadline,
                console: finished.console,
                output: Some(output),
            });
        }
        Ok(HostOutcome {
            status: finished.header.status,
            output,
            console: finished.console,
            files: directory.join("result"),
            stalls: finished.stalls,
            deaths,
            boot: finished.boot,
            total: finished.total,
            _scratch: scratch,
        })
    }

    fn all_files(&self) -> Result<Vec<(PathBuf, String)>, GuestError> {
        let mut files = Vec::new();
        for program in &self.programs {
            for library in initramfs::libraries(program)? {
                let to = library.to_string_lossy().into_owned();
                files.push((library, to));
            }
            let name = program.file_name().unwrap_or_default().to_string_lossy();
            files.push((program.clone(), format!("/usr/bin/{name}")));
        }
        files.extend(self.files.iter().cloned());
        Ok(files)
    }

    fn qemu_arguments(&self, initramfs: &Path, scratch: &Path) -> Vec<String> {
        let kernel_arguments = format!(
            // The crypto self-tests of newer kernels take the CPU for seconds
            // after boot, up to 1.2 ms at a time.
            "console=ttyS0 quiet panic=-1 tsc=reliable cryptomgr.notests=1 \
             memmap={RESULTS_BYTES}${RESULTS_AT}{}",
            self.kernel_arguments
        );
        let image = self.kernel.image();
        let mut arguments: Vec<String> = [
            "-nodefaults",
            "-no-user-config",
            "-display",
            "none",
            "-machine",
            "q35",
            "-cpu",
            "max",
            // Stay when the guest switches off, to save its results.
            "-action",
            "reboot=shutdown,shutdown=pause",
            "-chardev",
            "stdio,id=console,signal=off",
            "-serial",
            "chardev:console",
        ]
        .map(String::from)
        .to_vec();
        let mut option = |name: &str, value: String| arguments.extend([name.into(), value]);
        option("-m", self.memory_mib.to_string());
        option("-seed", self.seed.to_string());
        option("-kernel", image.display().to_string());
        option("-initrd", initramfs.display().to_string());
        option("-append", kernel_arguments);
        let socket = guest::socket(scratch);
        // QEMU waits for us: no event is lost.
        option(
            "-qmp",
            format!("unix:{},server=on,wait=on", socket.display()),
        );
        option("-smp", self.mode.cpus().to_string());
        match self.mode {
            Mode::Icount => {
                option("-accel", "tcg,thread=single".into());
                let shift = self.instruction.shift;
                option("-icount", format!("shift={shift},sleep=off"));
                // A date of its own, else today's would be the one input that
                // differs from run to run.
                option("-rtc", "base=2026-01-01,clock=vm".into());
            }
            Mode::Smp => {
                option("-accel", "tcg,thread=multi".into());
            }
        }
        if self.edu {
            option("-device", "edu".into());
        }
        arguments
    }
}

/// What a guest left that lived, and how those died that were booted before it.
fn until_it_lives<T>(
    mode: Mode,
    mut boot: impl FnMut() -> Result<T, GuestError>,
) -> Result<(T, Vec<String>), GuestError> {
    let mut deaths = Vec::new();
    loop {
        match boot() {
            Err(error) if error.may_pass(mode) && deaths.len() + 1 < MOST_BOOTS => {
                deaths.push(error.in_short());
            }
            ended => return Ok((ended?, deaths)),
        }
    }
}

/// What a host did.
#[derive(Debug)]
pub struct HostOutcome {
    /// The exit status of the command; 128 and more: the signal that ended it.
    pub status: i32,
    /// What the command wrote to its standard output and error.
    pub output: String,
    /// What the kernel and the first program showed on the console.
    pub console: String,
    /// A directory with what the command left in `/result`; unless
    /// [`TestHost::results`] named one, it is removed with this value.
    pub files: PathBuf,
    /// The stalls that were made, with their real times.
    pub stalls: Vec<Stall>,
    /// How it died before, in a line each: the emulator was to blame, so it was
    /// booted again.
    pub deaths: Vec<String>,
    /// Real time until the command began, the last time.
    pub boot: Duration,
    /// Real time until the guest had switched off, the last time.
    pub total: Duration,
    _scratch: TempDir,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A guest that meets a breakpoint so many times before it lives.
    fn after(deaths: usize) -> Result<(usize, Vec<String>), GuestError> {
        let mut boots = 0;
        until_it_lives(Mode::Smp, || {
            boots += 1;
            if boots > deaths {
                Ok(boots)
            } else {
                Err(GuestError::NoResults {
                    began: true,
                    console: format!("[ {boots}.0] int3: 0000 [#1] SMP\n"),
                })
            }
        })
    }

    #[test]
    fn a_guest_that_the_emulator_kills_is_booted_again_and_its_deaths_are_told() {
        let (boots, deaths) = after(2).unwrap();

        assert_eq!((boots, deaths.len()), (3, 2));
        assert!(
            deaths[0].contains("after its command began: int3: 0000"),
            "{deaths:?}"
        );
        let given_up = after(3).unwrap_err().to_string();
        assert!(given_up.contains("[ 3.0] int3"), "{given_up}");
    }
}
