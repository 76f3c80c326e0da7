//! BPF objects: loading, attaching, calling.

use std::ffi::OsStr;
use std::io;
use std::sync::Mutex;

use libbpf_rs::{
    Link, Map, MapCore as _, Object, ObjectBuilder, OpenObject, PrintLevel, ProgramInput, set_print,
};

/// Defines a [`Source`]: the object that is built from the `.bpf.c` file of
/// this name.
macro_rules! source {
    ($constant:ident, $name:literal) => {
        /// See the `.bpf.c` file of this name.
        pub(super) const $constant: Source = Source::new(include_bytes!(concat!(
            env!("OUT_DIR"),
            "/",
            $name,
            ".bpf.o"
        )));
    };
}
pub(crate) use source;

/// A BPF object that is part of this program.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Source(&'static [u8]);

/// What libbpf said since the last load.
static SAID: Mutex<String> = Mutex::new(String::new());

/// An object in the kernel. The kernel takes its programs and timers away
/// when this value is dropped or the process ends, however it ends.
#[derive(Debug)]
pub(crate) struct Loaded {
    object: Object,
    _links: Vec<Link>,
}

impl Source {
    /// An object of these bytes.
    pub(crate) const fn new(bytes: &'static [u8]) -> Self {
        Self(bytes)
    }

    /// Loads the object, and attaches every program that a tracepoint calls.
    pub(crate) fn load(self) -> io::Result<Loaded> {
        self.load_sized("", 0)
    }

    /// The same, with room for `entries` in the map of this name.
    pub(crate) fn load_sized(self, map: &str, entries: u32) -> io::Result<Loaded> {
        set_print(Some((PrintLevel::Warn, |_, text| {
            if let Ok(mut said) = SAID.lock() {
                said.push_str(&text);
            }
        })));
        let load = || -> libbpf_rs::Result<Loaded> {
            let mut open = ObjectBuilder::default().open_memory(self.0)?;
            set_room(&mut open, map, entries)?;
            let object = open.load()?;
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

fn set_room(object: &mut OpenObject, name: &str, entries: u32) -> libbpf_rs::Result<()> {
    object
        .maps_mut()
        .filter(|map| map.name() == OsStr::new(name))
        .try_for_each(|mut map| map.set_max_entries(entries))
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

impl Loaded {
    /// Runs a program of section `syscall`, on this CPU.
    pub(crate) fn call(&self, name: &str) -> io::Result<()> {
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

    /// The map of this name.
    pub(crate) fn map(&self, name: &str) -> io::Result<Map<'_>> {
        self.object
            .maps()
            .find(|map| map.name() == OsStr::new(name))
            .ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}
