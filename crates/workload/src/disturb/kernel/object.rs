//! The BPF objects of the faults: loading, attaching, reading.

use std::ffi::OsStr;
use std::io;
use std::sync::Mutex;

use laggard_model::{Cpu, Nanos};
use libbpf_rs::{
    Link, MapCore, MapFlags, Object, ObjectBuilder, PrintLevel, ProgramInput, set_print,
};

/// A BPF object that is part of this program.
#[derive(Clone, Copy, Debug)]
pub(super) struct Source(&'static [u8]);

macro_rules! source {
    ($constant:ident, $name:literal) => {
        /// See the `.bpf.c` file of this name.
        pub(super) const $constant: Source = Source(include_bytes!(concat!(
            env!("OUT_DIR"),
            "/",
            $name,
            ".bpf.o"
        )));
    };
}

source!(SOFTIRQ, "softirq");
source!(IRQ, "irq");
source!(IRQS_OFF, "irqs_off");

/// What libbpf said since the last load.
static SAID: Mutex<String> = Mutex::new(String::new());

/// An object in the kernel. The kernel takes its programs and timers away
/// when this value is dropped or the process ends, however it ends.
#[derive(Debug)]
pub(super) struct Loaded {
    object: Object,
    _links: Vec<Link>,
}

impl Source {
    /// Loads the object, and attaches every program that a tracepoint calls.
    pub(super) fn load(self) -> io::Result<Loaded> {
        set_print(Some((PrintLevel::Warn, |_, text| {
            if let Ok(mut said) = SAID.lock() {
                said.push_str(&text);
            }
        })));
        let load = || -> libbpf_rs::Result<Loaded> {
            let object = ObjectBuilder::default().open_memory(self.0)?.load()?;
            let links = object
                .progs_mut()
                .filter(|program| program.section().to_string_lossy().starts_with("tp_btf/"))
                .map(|program| program.attach())
                .collect::<Result<_, _>>()?;
            Ok(Loaded {
                object,
                _links: links,
            })
        };
        load().map_err(|err| reason(&err))
    }
}

/// The error with libbpf's most telling line: the verifier's complaint, or
/// else the last that names a cause.
fn reason(err: &libbpf_rs::Error) -> io::Error {
    let said = SAID
        .lock()
        .map(|mut said| std::mem::take(&mut *said))
        .unwrap_or_default();
    let noise = ["processed ", "PROG LOAD LOG", "failed to load"];
    let telling = said
        .lines()
        .map(|line| line.trim_start_matches("libbpf: ").trim())
        .rfind(|line| !line.is_empty() && !noise.iter().any(|noise| line.contains(noise)));
    io::Error::other(match telling {
        Some(line) => format!("{err} ({line})"),
        None => err.to_string(),
    })
}

/// The only key of a map with one entry.
const FIRST: [u8; 4] = [0; 4];

/// `struct fault` of `fault.h`.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(super) struct Fault {
    mark_ns: u64,
    length_ns: u64,
    start_ns: u64,
    end_ns: u64,
    cpu: u32,
}

impl Fault {
    const BYTES: usize = 40;

    /// A hit of this length, brought by the timer that expires at `mark`.
    pub(super) fn due(mark: Nanos, length: Nanos) -> Self {
        Self {
            mark_ns: mark.ns(),
            length_ns: length.ns(),
            ..Self::default()
        }
    }

    /// When it began, how long it was, and where; `None` until it is over.
    pub(super) fn outcome(self) -> Option<(Nanos, Nanos, Cpu)> {
        let start = Nanos::from_ns(self.start_ns);
        let length = Nanos::between(start, Nanos::from_ns(self.end_ns))?;
        (self.end_ns > 0).then_some((start, length, Cpu(self.cpu)))
    }

    fn to_bytes(self) -> Vec<u8> {
        let times = [self.mark_ns, self.length_ns, self.start_ns, self.end_ns];
        let mut bytes: Vec<u8> = times.into_iter().flat_map(u64::to_ne_bytes).collect();
        bytes.extend(self.cpu.to_ne_bytes());
        bytes.resize(Self::BYTES, 0);
        bytes
    }

    fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let time = |index: usize| {
            let bytes = bytes.get(index * 8..index * 8 + 8)?;
            Some(u64::from_ne_bytes(bytes.try_into().ok()?))
        };
        Some(Self {
            mark_ns: time(0)?,
            length_ns: time(1)?,
            start_ns: time(2)?,
            end_ns: time(3)?,
            cpu: u32::from_ne_bytes(bytes.get(32..36)?.try_into().ok()?),
        })
    }
}

impl Loaded {
    /// Tells the kernel what hit is due.
    pub(super) fn set(&self, fault: Fault) -> io::Result<()> {
        self.map("faults")?
            .update(&FIRST, &fault.to_bytes(), MapFlags::ANY)
            .map_err(io::Error::other)
    }

    /// What the kernel has written down so far.
    pub(super) fn fault(&self) -> io::Result<Fault> {
        let bytes = self
            .map("faults")?
            .lookup(&FIRST, MapFlags::ANY)
            .map_err(io::Error::other)?;
        bytes
            .as_deref()
            .and_then(Fault::from_bytes)
            .ok_or_else(|| io::ErrorKind::InvalidData.into())
    }

    /// Runs a program of section `syscall`, on this CPU.
    pub(super) fn call(&self, name: &str) -> io::Result<()> {
        let program = self
            .object
            .progs_mut()
            .find(|program| program.name() == OsStr::new(name))
            .ok_or(io::ErrorKind::NotFound)?;
        let output = program
            .test_run(ProgramInput::default())
            .map_err(io::Error::other)?;
        match i32::from_ne_bytes(output.return_value.to_ne_bytes()) {
            0 => Ok(()),
            code => Err(io::Error::from_raw_os_error(code)),
        }
    }

    fn map(&self, name: &str) -> io::Result<libbpf_rs::Map<'_>> {
        self.object
            .maps()
            .find(|map| map.name() == OsStr::new(name))
            .ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_has_an_outcome_only_when_it_is_over() {
        let due = Fault::due(Nanos::from_ms(1), Nanos::from_us(5));
        let begun = Fault {
            start_ns: 70,
            cpu: 3,
            ..due
        };
        let over = Fault {
            end_ns: 90,
            ..begun
        };

        assert_eq!(due.outcome(), None);
        assert_eq!(begun.outcome(), None);
        assert_eq!(
            over.outcome(),
            Some((Nanos::from_ns(70), Nanos::from_ns(20), Cpu(3)))
        );
    }

    #[test]
    fn a_fault_is_read_back_from_its_bytes() {
        let fault = Fault {
            mark_ns: 1,
            length_ns: 2,
            start_ns: 3,
            end_ns: 4,
            cpu: 5,
        };

        assert_eq!(Fault::from_bytes(&fault.to_bytes()), Some(fault));
        assert_eq!(Fault::from_bytes(&[0; 8]), None);
    }
}
