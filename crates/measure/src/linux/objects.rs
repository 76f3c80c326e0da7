//! The BPF objects: what each is for, loading, attaching, cost.
//!
//! Every optional ability is an object of its own, because one program that
//! the kernel refuses refuses its whole object. Nothing is decided by the
//! kernel's version: each is tried.

use std::ffi::OsStr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::sync::Mutex;

use laggard_model::{Nanos, ProgramCost};
use libbpf_rs::{
    Link, MapCore, Object, ObjectBuilder, OpenObject, PrintLevel, ProgramInput, libbpf_sys,
    set_print,
};

/// A BPF object that is part of this program.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Source {
    /// Its name, the file's without `.bpf.c`.
    pub(crate) name: &'static str,
    bytes: &'static [u8],
}

macro_rules! source {
    ($constant:ident, $name:literal) => {
        /// See the `.bpf.c` file of this name.
        pub(crate) const $constant: Source = Source {
            name: $name,
            bytes: include_bytes!(concat!(env!("OUT_DIR"), "/", $name, ".bpf.o")),
        };
    };
}

source!(CHAIN, "chain");
source!(ARMING, "arming");
source!(EXTERNAL, "external");
source!(IRQ, "irq");
source!(RAISE, "raise");
source!(DEFERRED, "deferred");
source!(WORKER, "worker");
source!(FLIGHT, "flight");
source!(STACKS, "stacks");
source!(STEAL, "steal");
source!(WORKER_IMPLICIT, "worker_implicit");

/// Why the kernel did not take an object.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{reason}")]
pub(crate) struct Refused {
    /// In one line.
    pub(crate) reason: String,
}

/// What libbpf said since the last load.
static SAID: Mutex<String> = Mutex::new(String::new());

fn listen() {
    set_print(Some((PrintLevel::Warn, |_, text| {
        if let Ok(mut said) = SAID.lock() {
            said.push_str(&text);
        }
    })));
}

impl Refused {
    /// A refusal that is not libbpf's.
    pub(crate) fn because(reason: String) -> Self {
        Self { reason }
    }

    /// The error with libbpf's most telling line: the verifier's complaint,
    /// or else the last that names a cause.
    fn new(err: &libbpf_rs::Error) -> Self {
        let said = SAID
            .lock()
            .map(|mut said| std::mem::take(&mut *said))
            .unwrap_or_default();
        let tells_nothing = |line: &str| {
            line.is_empty()
                || line.starts_with("processed ")
                || line.contains("PROG LOAD LOG")
                || line.contains("failed to load object")
                || line.contains("BPF program load failed")
        };
        let line = said
            .lines()
            .map(|line| line.trim_start_matches("libbpf: ").trim())
            .rfind(|line| !tells_nothing(line));
        let reason = match line {
            _ if err.kind() == libbpf_rs::ErrorKind::PermissionDenied
                && !nix::unistd::geteuid().is_root() =>
            {
                "this user may not load BPF programs".into()
            }
            Some(line) => format!("{err} ({line})"),
            None => err.to_string(),
        };
        Self { reason }
    }
}

/// How large the maps of an object are to be, by name.
pub(crate) type Sizes<'a> = &'a [(&'a str, usize)];

/// An object in the kernel.
#[derive(Debug)]
pub(crate) struct Loaded {
    pub(crate) object: Object,
    links: Vec<Link>,
}

impl Source {
    /// Loads the object. Maps named in `shared` are those of an object loaded
    /// before; `sizes` gives the number of entries of others.
    pub(crate) fn load(
        self,
        shared: &[(&str, BorrowedFd<'_>)],
        sizes: Sizes<'_>,
        prepare: impl FnOnce(&mut OpenObject) -> libbpf_rs::Result<()>,
    ) -> Result<Loaded, Refused> {
        listen();
        let open = || -> libbpf_rs::Result<Object> {
            let mut open = ObjectBuilder::default().open_memory(self.bytes)?;
            for mut map in open.maps_mut() {
                let name = map.name().to_os_string();
                if let Some((_, fd)) = shared.iter().find(|(shared, _)| name == OsStr::new(shared))
                {
                    map.reuse_fd(*fd)?;
                } else if let Some((_, size)) =
                    sizes.iter().find(|(sized, _)| name == OsStr::new(sized))
                {
                    map.set_max_entries(u32::try_from(*size).unwrap_or(u32::MAX))?;
                }
            }
            prepare(&mut open)?;
            open.load()
        };
        match open() {
            Ok(object) => Ok(Loaded {
                object,
                links: Vec::new(),
            }),
            Err(err) => Err(Refused::new(&err)),
        }
    }
}

impl Loaded {
    /// Attaches every program that a tracepoint calls.
    pub(crate) fn attach(&mut self) -> Result<(), Refused> {
        for program in self.object.progs_mut() {
            if program.section().to_string_lossy().starts_with("tp_btf/") && program.autoload() {
                self.links
                    .push(program.attach().map_err(|err| Refused::new(&err))?);
            }
        }
        Ok(())
    }

    /// The map of this name.
    pub(crate) fn map(&self, name: &str) -> Result<libbpf_rs::Map<'_>, Refused> {
        self.object
            .maps()
            .find(|map| map.name() == OsStr::new(name))
            .ok_or_else(|| Refused {
                reason: format!("the object has no map `{name}`"),
            })
    }

    /// Runs a program of section `syscall` with `args`, on this CPU.
    pub(crate) fn call(&self, name: &str, args: &mut [u8]) -> Result<(), Refused> {
        let program = self
            .object
            .progs_mut()
            .find(|program| program.name() == OsStr::new(name))
            .ok_or_else(|| Refused {
                reason: format!("the object has no program `{name}`"),
            })?;
        let output = program
            .test_run(ProgramInput {
                context_in: Some(args),
                ..ProgramInput::default()
            })
            .map_err(|err| Refused::new(&err))?;
        match i32::from_ne_bytes(output.return_value.to_ne_bytes()) {
            0 => Ok(()),
            code => Err(Refused {
                reason: format!("{name}: {}", std::io::Error::from_raw_os_error(code)),
            }),
        }
    }

    /// What each program of the object cost since it was loaded.
    pub(crate) fn cost(&self) -> Vec<ProgramCost> {
        self.object
            .progs()
            .filter(|program| program.section() != "syscall")
            .filter_map(|program| {
                let (runs, run_ns) = run_statistics(program.as_fd())?;
                Some(ProgramCost {
                    name: program.name().to_string_lossy().into_owned(),
                    runs,
                    run_ns: Nanos::from_ns(run_ns),
                })
            })
            .collect()
    }
}

/// A program's runs and run time, where the kernel keeps statistics.
fn run_statistics(program: BorrowedFd<'_>) -> Option<(u64, u64)> {
    // SAFETY: zeroes are a valid value of this plain structure.
    let mut info: libbpf_sys::bpf_prog_info = unsafe { std::mem::zeroed() };
    let mut bytes = u32::try_from(size_of_val(&info)).ok()?;
    // SAFETY: `info` is valid for writes of `bytes` bytes; no arrays are asked for.
    let result = unsafe {
        libbpf_sys::bpf_obj_get_info_by_fd(
            program.as_raw_fd(),
            (&raw mut info).cast(),
            &raw mut bytes,
        )
    };
    (result == 0).then_some((info.run_cnt, info.run_time_ns))
}

/// Lets the kernel time BPF programs, as long as the result lives. Without
/// the right, or before Linux 5.8, there is none.
pub(crate) fn keep_statistics() -> Option<OwnedFd> {
    // SAFETY: takes no pointers.
    let fd = unsafe { libbpf_sys::bpf_enable_stats(libbpf_sys::BPF_STATS_RUN_TIME) };
    // SAFETY: a descriptor just given to us, owned by nobody else.
    (fd >= 0).then(|| unsafe { OwnedFd::from_raw_fd(fd) })
}
