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
//! Lessons about these kernels are in `docs/validation/test-hosts.md`.

mod apt;
mod architecture;
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

pub use architecture::Architecture;
pub use error::{FetchError, GuestError};
use guest::Guest;
use initramfs::Contents;
pub use kernel::{Kernel, KernelName};
use tools::Tools;

/// Maximum number of boots of a guest that dies because of the emulator.
///
/// QEMU runs two CPUs as two threads, and 7.2 loses the race when a kernel changes its own code:
/// about once in 50 boots by an `int3`, and sometimes later. In virtual time a panic is
/// reproducible.
const MAX_BOOTS: usize = 3;

/// Clock of a guest.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Mode {
    /// One CPU in virtual time: 8 ns per instruction, idle time is skipped. The same files,
    /// command and seed give exactly the same result, independent of the load of this machine:
    /// for assertions on latency.
    Icount,
    /// Two or more CPUs in real time, as disturbed as this machine: for functional tests and for stalls,
    /// never for assertions on latency.
    Smp,
}

impl Mode {
    /// Returns the number of CPUs.
    pub const fn cpus(self) -> u32 {
        match self {
            Self::Icount => 1,
            Self::Smp => 2,
        }
    }

    /// Returns the wait after boot: for some seconds 6.12 still delays threads by up to 0.9 ms.
    /// Waiting costs nothing in virtual time.
    const fn settle(self) -> Duration {
        Duration::from_secs(match self {
            Self::Icount => 5,
            Self::Smp => 1,
        })
    }
}

/// Virtual time per instruction: a power of two of ns. A shorter time reduces the time of the
/// measuring programs and increases the run time of the host.
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
    /// Returns 1, 2, 4 or 8 ns; `None` for any other time.
    pub fn new(time: Nanos) -> Option<Self> {
        let ns = time.ns();
        (ns.is_power_of_two() && ns <= 8).then(|| Self { shift: ns.ilog2() })
    }
}

/// Injected stall: QEMU was stopped as a whole, and its clock continued.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Stall {
    /// Time after the start of the command.
    pub at: Duration,
    /// Length, from before the signal that stops to after the one that continues.
    pub length: Duration,
    /// Time by the guest's `CLOCK_MONOTONIC`, which is too early by the delay of a console line,
    /// some tenths of a millisecond.
    pub guest: Nanos,
}

impl Stall {
    /// Returns the stall in the format of `laggard provoke`: one hit for each of `cpus` CPUs,
    /// because all of them stopped.
    pub fn hits(&self, cpus: u32) -> Vec<Hit> {
        let hit = |cpu| Hit {
            kind: FaultKind::Steal,
            start_ns: self.guest,
            length_ns: self.length.into(),
            cpu: Cpu(cpu),
        };
        (0..cpus).map(hit).collect()
    }
}

/// Stall to make.
#[derive(Clone, Copy, Debug)]
struct PlannedStall {
    /// Time after the start of the command.
    at: Duration,
    length: Duration,
}

/// Machine to boot once.
#[derive(Debug)]
pub struct TestHost {
    kernel: Kernel,
    mode: Mode,
    cpus: u32,
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
    /// Creates a host in virtual time with 512 MiB (arm64: 704) and without a command.
    pub fn new(kernel: Kernel) -> Self {
        let memory_mib = match kernel.name.architecture() {
            Architecture::Amd64 => 512,
            Architecture::Arm64 => 704,
        };
        Self {
            kernel,
            mode: Mode::Icount,
            cpus: Mode::Icount.cpus(),
            instruction: InstructionTime::default(),
            memory_mib,
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

    /// Sets its clock, and the number of CPUs for it.
    #[must_use]
    pub fn mode(mut self, mode: Mode) -> Self {
        self.mode = mode;
        self.cpus = mode.cpus();
        self
    }

    /// Sets another number of CPUs. Only with [`Mode::Smp`]: in virtual time, a guest with several
    /// CPUs hangs.
    #[must_use]
    pub fn cpus(mut self, cpus: u32) -> Self {
        self.cpus = cpus;
        self
    }

    /// Sets the time per instruction in [`Mode::Icount`]; the default is 8 ns.
    #[must_use]
    pub fn instruction(mut self, time: InstructionTime) -> Self {
        self.instruction = time;
        self
    }

    /// Sets its memory; at least 384 MiB, because 64 carry the results.
    #[must_use]
    pub fn memory_mib(mut self, mib: u64) -> Self {
        self.memory_mib = mib.max(384);
        self
    }

    /// Sets the seed of its random numbers. Another seed places the kernel and its data
    /// elsewhere: a repetition of a deterministic experiment.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// Adds QEMU's `edu` device, whose interrupt a program can raise, as `/dev/uio0`.
    #[must_use]
    pub fn edu(mut self) -> Self {
        self.edu = true;
        self
    }

    /// Appends to the kernel's command line, such as `isolcpus=1`.
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

    /// Copies a program of this machine to `/usr/bin`, with the shared libraries that it needs on
    /// this machine.
    #[must_use]
    pub fn program(mut self, path: impl Into<PathBuf>) -> Self {
        self.programs.push(path.into());
        self
    }

    /// Sets the shell text to run, as root in `/root`. Files in `/result` are returned.
    #[must_use]
    pub fn command(mut self, command: &str) -> Self {
        self.command = command.into();
        self
    }

    /// Stops everything for `length`, `at` after the start of the command. Only with
    /// [`Mode::Smp`]: virtual time stops with QEMU.
    #[must_use]
    pub fn stall_at(mut self, at: Duration, length: Duration) -> Self {
        self.stalls.push(PlannedStall { at, length });
        self.stalls.sort_by_key(|stall| stall.at);
        self
    }

    /// Sets the maximum real time, including the boot, without the time for which QEMU waits for a
    /// CPU; the default is 120 s.
    #[must_use]
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.deadline = deadline;
        self
    }

    /// Keeps the results in this directory; by default they are removed with the [`HostOutcome`].
    #[must_use]
    pub fn results(mut self, directory: impl Into<PathBuf>) -> Self {
        self.results = Some(directory.into());
        self
    }

    /// Boots, runs the command, collects its results and switches off.
    ///
    /// # Errors
    ///
    /// Returns an error if the host cannot be built or booted, does not end within the deadline,
    /// or ends without results. A command that fails is not an error: see
    /// [`HostOutcome::status`].
    pub fn run(self) -> Result<HostOutcome, GuestError> {
        if self.mode == Mode::Icount && !self.stalls.is_empty() {
            return Err(GuestError::StallUnseen);
        }
        if let Some(directory) = &self.results
            && directory.join("result").exists()
        {
            return Err(GuestError::ResultsExist(directory.clone()));
        }
        let architecture = self.kernel.name.architecture();
        let results_at = architecture.results_at(self.memory_mib);
        let tools = Tools::fetch(architecture)?;
        let scratch = TempDir::new().map_err(GuestError::io("a temporary directory"))?;
        let initramfs = scratch.path().join("initramfs");
        let bytes = Contents {
            kernel: &self.kernel,
            tools: &tools,
            files: &self.all_files()?,
            command: &self.command,
            results_at,
            edu: self.edu,
            settle: self.mode.settle(),
            tells_time: !self.stalls.is_empty(),
        }
        .write(&initramfs)?;
        let limit = architecture.initramfs_limit(self.memory_mib);
        if bytes > limit {
            return Err(GuestError::FilesTooBig { bytes, limit });
        }

        let arguments = self.qemu_arguments(&initramfs, scratch.path());
        let (finished, deaths) = until_it_lives(self.mode, || {
            let guest = Guest::boot(architecture, results_at, &arguments, scratch.path())?;
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
        let architecture = self.kernel.name.architecture();
        let mut files = Vec::new();
        for program in &self.programs {
            // `ldd` runs the program's loader.
            let libraries = if architecture.is_of_this_machine() {
                initramfs::libraries(program)?
            } else {
                Vec::new()
            };
            for library in libraries {
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
        let architecture = self.kernel.name.architecture();
        let kernel_arguments = format!(
            // The crypto self-tests of newer kernels take the CPU for seconds after boot, up to
            // 1.2 ms at a time.
            "quiet panic=-1 cryptomgr.notests=1 {}{}",
            architecture.kernel_options(self.memory_mib),
            self.kernel_arguments
        );
        let image = self.kernel.image();
        let mut arguments: Vec<String> = [
            "-nodefaults",
            "-no-user-config",
            "-display",
            "none",
            // QEMU stays when the guest switches off, so that its results can be saved.
            "-action",
            "reboot=shutdown,shutdown=pause",
            "-chardev",
            "stdio,id=console,signal=off",
            "-serial",
            "chardev:console",
        ]
        .map(String::from)
        .to_vec();
        let has_large_pages = self.kernel.name.has_large_pages();
        arguments.extend(architecture.machine(has_large_pages).map(String::from));
        let mut option = |name: &str, value: String| arguments.extend([name.into(), value]);
        option("-m", self.memory_mib.to_string());
        option("-seed", self.seed.to_string());
        option("-kernel", image.display().to_string());
        option("-initrd", initramfs.display().to_string());
        option("-append", kernel_arguments);
        let socket = guest::socket(scratch);
        // QEMU waits for the connection, so that no event is lost.
        option(
            "-qmp",
            format!("unix:{},server=on,wait=on", socket.display()),
        );
        option("-smp", self.cpus.to_string());
        match self.mode {
            Mode::Icount => {
                option("-accel", "tcg,thread=single".into());
                let shift = self.instruction.shift;
                option("-icount", format!("shift={shift},sleep=off"));
                // A fixed date; otherwise the current date would be the only input that differs
                // between runs.
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

/// Boots until a guest lives. Returns its results and the deaths of the previous boots.
fn until_it_lives<T>(
    mode: Mode,
    mut boot: impl FnMut() -> Result<T, GuestError>,
) -> Result<(T, Vec<String>), GuestError> {
    let mut deaths = Vec::new();
    loop {
        match boot() {
            Err(error) if error.may_pass(mode) && deaths.len() + 1 < MAX_BOOTS => {
                deaths.push(error.in_short());
            }
            ended => return Ok((ended?, deaths)),
        }
    }
}

/// Result of a host.
#[derive(Debug)]
pub struct HostOutcome {
    /// Exit status of the command; 128 plus the signal number if a signal ended it.
    pub status: i32,
    /// Standard output and error of the command.
    pub output: String,
    /// Console output of the kernel and the first program.
    pub console: String,
    /// Directory with the files of `/result`. Unless [`TestHost::results`] set one, it is removed
    /// with this value.
    pub files: PathBuf,
    /// Stalls that were made, with their real times.
    pub stalls: Vec<Stall>,
    /// Deaths before the successful boot, one line each. The emulator caused them.
    pub deaths: Vec<String>,
    /// Real time until the start of the command, in the last boot.
    pub boot: Duration,
    /// Real time until the guest had switched off, in the last boot.
    pub total: Duration,
    _scratch: TempDir,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Boots a guest that meets a breakpoint `deaths` times before it lives.
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
    fn guest_killed_by_the_emulator_is_booted_again_and_its_deaths_are_reported() {
        let (boots, deaths) = after(2).unwrap();

        assert_eq!((boots, deaths.len()), (3, 2));
        assert!(
            deaths[0].contains("after its command started: int3: 0000"),
            "{deaths:?}"
        );
        let given_up = after(3).unwrap_err().to_string();
        assert!(given_up.contains("[ 3.0] int3"), "{given_up}");
    }
}
