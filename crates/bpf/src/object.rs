//! Loading objects, attaching and calling their programs.
//!
//! Every optional ability is an object of its own, because one program that
//! the kernel refuses refuses its whole object. Nothing is decided by the
//! kernel's version: each is tried.

use std::ffi::OsStr;
use std::io;
use std::ops::Range;
use std::os::fd::BorrowedFd;
use std::sync::Mutex;

use libbpf_rs::btf::Btf;
use libbpf_rs::btf::types::{DataSec, Var};
use libbpf_rs::{
    Link, MapCore, MapFlags, Object, ObjectBuilder, OpenObject, PrintLevel, ProgramInput,
    ProgramMut, set_print,
};

use crate::value::Value;

/// A BPF object that is part of this program.
#[derive(Clone, Copy, Debug)]
pub struct ObjectFile {
    /// Its name, the file's without `.bpf.c`.
    pub name: &'static str,
    /// The object file.
    pub bytes: &'static [u8],
}

/// Declares a constant for each object that the build script made: its name
/// there, then the file's without `.bpf.c`.
#[macro_export]
macro_rules! sources {
    ($($constant:ident = $name:literal;)*) => {
        $(
            /// See the `.bpf.c` file of this name.
            pub(crate) const $constant: $crate::object::ObjectFile = $crate::object::ObjectFile {
                name: $name,
                bytes: include_bytes!(concat!(env!("OUT_DIR"), "/", $name, ".bpf.o")),
            };
        )*
    };
}

/// Why the kernel did not take an object.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{reason}")]
pub struct ObjectRefused {
    /// In one line.
    pub reason: String,
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

impl ObjectRefused {
    /// A refusal that is not libbpf's.
    pub fn because(reason: impl Into<String>) -> Self {
        Self {
            reason: reason.into(),
        }
    }

    /// The error with libbpf's most telling line: the verifier's complaint,
    /// or else the last that names a cause.
    fn new(err: &libbpf_rs::Error) -> Self {
        let said = SAID
            .lock()
            .map(|mut said| std::mem::take(&mut *said))
            .unwrap_or_default();
        Self::because(match telling_line(&said) {
            _ if err.kind() == libbpf_rs::ErrorKind::PermissionDenied
                && !nix::unistd::geteuid().is_root() =>
            {
                "this user may not load BPF programs".into()
            }
            Some(line) => format!("{err} ({line})"),
            None => err.to_string(),
        })
    }
}

fn telling_line(said: &str) -> Option<&str> {
    let tells_nothing = |line: &str| {
        line.is_empty()
            || line.starts_with("processed ")
            || line.contains("PROG LOAD LOG")
            || line.contains("failed to load object")
            || line.contains("BPF program load failed")
    };
    said.lines()
        .map(|line| line.trim_start_matches("libbpf: ").trim())
        .rfind(|line| !tells_nothing(line))
}

/// How large the maps of an object are to be, by name.
pub type Sizes<'a> = &'a [(&'a str, usize)];

/// An object in the kernel. The kernel takes its programs and timers away
/// when this value is dropped or the process ends, however it ends.
#[derive(Debug)]
pub struct LoadedObject {
    /// As libbpf has it.
    pub object: Object,
    links: Vec<Link>,
}

impl ObjectFile {
    /// Loads the object. Maps named in `shared` are those of an object loaded
    /// before; `sizes` gives the number of entries of others; `prepare` may
    /// set what is read-only later.
    ///
    /// # Errors
    /// When the kernel does not take it.
    pub fn load(
        self,
        shared: &[(&str, BorrowedFd<'_>)],
        sizes: Sizes<'_>,
        prepare: impl FnOnce(&mut OpenObject) -> libbpf_rs::Result<()>,
    ) -> Result<LoadedObject, ObjectRefused> {
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
            Ok(object) => Ok(LoadedObject {
                object,
                links: Vec::new(),
            }),
            Err(err) => Err(ObjectRefused::new(&err)),
        }
    }

    /// Gives one of the object's inputs, the variables that are read-only once
    /// it is loaded, a value. To be called in the `prepare` of its load.
    ///
    /// # Errors
    /// When there is no such variable, or its size is another.
    pub fn set_input(
        self,
        open: &mut OpenObject,
        name: &str,
        value: &[u8],
    ) -> libbpf_rs::Result<()> {
        let place = self.input(name)?;
        let mut inputs = open
            .maps_mut()
            .find(|map| map.name().to_string_lossy().ends_with(INPUTS));
        let all = inputs.as_mut().and_then(|map| map.initial_value_mut());
        match all.and_then(|all| all.get_mut(place)) {
            Some(variable) if variable.len() == value.len() => {
                variable.copy_from_slice(value);
                Ok(())
            }
            _ => Err(self.no_input(name)),
        }
    }

    /// Where an input lies among all.
    fn input(self, name: &str) -> libbpf_rs::Result<Range<usize>> {
        let btf = Btf::from_raw(self.name, self.bytes)?.ok_or_else(|| self.no_input(name))?;
        let is_wanted = |section: &DataSec<'_>| section.name().is_some_and(|one| one == INPUTS);
        let section = btf.type_by_kind::<DataSec<'_>>().find(is_wanted);
        let section = section.ok_or_else(|| self.no_input(name))?;
        let mut all = (0..section.len()).filter_map(|index| section.get(index));
        let found = all.find(|one| {
            let variable = btf.type_by_id::<Var<'_>>(one.ty);
            variable.is_some_and(|variable| variable.name().is_some_and(|one| one == name))
        });
        found
            .map(|one| one.offset as usize..one.offset as usize + one.size)
            .ok_or_else(|| self.no_input(name))
    }

    fn no_input(self, name: &str) -> libbpf_rs::Error {
        let what = format!("object `{}` has no input `{name}` of this size", self.name);
        io::Error::new(io::ErrorKind::InvalidInput, what).into()
    }
}

/// The section of an object's inputs.
const INPUTS: &str = ".rodata";

impl LoadedObject {
    /// Attaches every program that a tracepoint calls.
    ///
    /// # Errors
    /// When the kernel refuses one.
    pub fn attach(&mut self) -> Result<(), ObjectRefused> {
        self.attach_those(|_| true)
    }

    /// Attaches those of its programs that are named.
    ///
    /// # Errors
    /// When the kernel refuses one.
    pub fn attach_some(&mut self, names: &[&str]) -> Result<(), ObjectRefused> {
        self.attach_those(|name| names.iter().any(|one| name == OsStr::new(one)))
    }

    fn attach_those(&mut self, is_wanted: impl Fn(&OsStr) -> bool) -> Result<(), ObjectRefused> {
        for program in self.object.progs_mut() {
            if program.section().to_string_lossy().starts_with("tp_btf/")
                && program.autoload()
                && is_wanted(program.name())
            {
                self.links
                    .push(program.attach().map_err(|err| ObjectRefused::new(&err))?);
            }
        }
        Ok(())
    }

    /// The map of this name.
    ///
    /// # Errors
    /// When there is none.
    pub fn map(&self, name: &str) -> Result<libbpf_rs::Map<'_>, ObjectRefused> {
        self.object
            .maps()
            .find(|map| map.name() == OsStr::new(name))
            .ok_or_else(|| ObjectRefused::because(format!("the object has no map `{name}`")))
    }

    /// The program of this name.
    ///
    /// # Errors
    /// When there is none.
    pub fn program(&self, name: &str) -> Result<ProgramMut<'_>, ObjectRefused> {
        self.object
            .progs_mut()
            .find(|program| program.name() == OsStr::new(name))
            .ok_or_else(|| ObjectRefused::because(format!("the object has no program `{name}`")))
    }

    /// Entry `key` of an array whose values are `T`.
    ///
    /// # Errors
    /// When there is no such map or entry, or its values are another type's.
    pub fn value<T: Value>(&self, map: &str, key: u32) -> Result<T, ObjectRefused> {
        let found = self.map(map)?.lookup(&key.to_ne_bytes(), MapFlags::ANY);
        let bytes = found.map_err(|err| ObjectRefused::because(err.to_string()))?;
        bytes
            .filter(|bytes| bytes.len() == T::BYTES)
            .and_then(|bytes| T::from_bytes(&bytes))
            .ok_or_else(|| ObjectRefused::because(format!("map `{map}` has no such entry {key}")))
    }

    /// Sets entry `key` of an array whose values are `T`.
    ///
    /// # Errors
    /// When there is no such map or entry, or its values are another type's.
    pub fn set_value<T: Value>(&self, map: &str, key: u32, value: &T) -> Result<(), ObjectRefused> {
        self.map(map)?
            .update(&key.to_ne_bytes(), &value.to_bytes(), MapFlags::ANY)
            .map_err(|err| ObjectRefused::because(err.to_string()))
    }

    /// Runs a program of section `syscall` with `args`, on this CPU; what it
    /// writes to them can be read afterwards.
    ///
    /// # Errors
    /// When it cannot be run, or gives an error number.
    pub fn call(&self, name: &str, args: &mut [u8]) -> Result<(), ObjectRefused> {
        let output = self
            .program(name)?
            .test_run(ProgramInput {
                context_in: (!args.is_empty()).then_some(args),
                ..ProgramInput::default()
            })
            .map_err(|err| ObjectRefused::new(&err))?;
        match i32::from_ne_bytes(output.return_value.to_ne_bytes()) {
            0 => Ok(()),
            code => Err(ObjectRefused::because(format!(
                "{name}: {}",
                io::Error::from_raw_os_error(code)
            ))),
        }
    }

    /// The same with arguments of a type; what they are afterwards.
    ///
    /// # Errors
    /// When it cannot be run, or gives an error number.
    pub fn call_with<T: Value>(&self, name: &str, args: &T) -> Result<T, ObjectRefused> {
        let mut bytes = args.to_bytes();
        self.call(name, &mut bytes)?;
        T::from_bytes(&bytes).ok_or_else(|| ObjectRefused::because(format!("{name}: no arguments")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_verifiers_complaint_tells_more_than_what_follows_it() {
        let said = "libbpf: prog 'p': BPF program load failed: EINVAL\n\
            libbpf: prog 'p': -- BEGIN PROG LOAD LOG --\n\
            R1 type=scalar expected=fp\n\
            processed 7 insns (limit 1000000)\n\
            -- END PROG LOAD LOG --\n\
            libbpf: failed to load object 'o'\n";

        assert_eq!(telling_line(said), Some("R1 type=scalar expected=fp"));
        assert_eq!(telling_line("libbpf: failed to load object 'o'\n"), None);
    }
}
