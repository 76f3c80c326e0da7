//! Loading of objects, and attaching and calling of their programs.
//!
//! Every optional ability is a separate object, because a program that the kernel refuses makes
//! its whole object fail. No decision depends on the kernel's version: each ability is tried.

use std::ffi::OsStr;
use std::io::{self, Read as _};
use std::ops::Range;
use std::os::fd::BorrowedFd;
use std::sync::Mutex;

use flate2::read::ZlibDecoder;
use libbpf_rs::btf::Btf;
use libbpf_rs::btf::types::{DataSec, Var};
use libbpf_rs::{
    Link, MapCore, MapFlags, Object, ObjectBuilder, OpenObject, PrintLevel, ProgramInput,
    ProgramMut, set_print,
};

use crate::value::Value;

/// BPF object that is part of this program.
#[derive(Clone, Copy, Debug)]
pub struct ObjectFile {
    /// Name of the file without `.bpf.c`.
    pub name: &'static str,
    /// Returns the content of the object file, which is decompressed once.
    pub bytes: fn() -> &'static [u8],
}

/// Returns the content of an object file that the build script compressed.
///
/// # Panics
///
/// Panics if it is damaged, which the build excludes.
#[must_use]
pub fn decompress(object: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    ZlibDecoder::new(object)
        .read_to_end(&mut bytes)
        .expect("the build script compressed it");
    bytes
}

/// Declares a constant for each object of the build script: the name of the constant, then the
/// name of the file without `.bpf.c`.
#[macro_export]
macro_rules! sources {
    ($($constant:ident = $name:literal;)*) => {
        $(
            /// Object of the `.bpf.c` file with this name.
            pub(crate) const $constant: $crate::object::ObjectFile = $crate::object::ObjectFile {
                name: $name,
                bytes: || {
                    static BYTES: ::std::sync::LazyLock<::std::vec::Vec<u8>> =
                        ::std::sync::LazyLock::new(|| {
                            $crate::object::decompress(include_bytes!(concat!(
                                env!("OUT_DIR"), "/", $name, ".bpf.zlib"
                            )))
                        });
                    &BYTES
                },
            };
        )*
    };
}

/// Reason why the kernel did not accept an object.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{reason}")]
pub struct ObjectRefused {
    /// Reason in one line.
    pub reason: String,
}

/// Output of libbpf since the last load.
static OUTPUT: Mutex<String> = Mutex::new(String::new());

fn listen() {
    set_print(Some((PrintLevel::Warn, |_, text| {
        if let Ok(mut said) = OUTPUT.lock() {
            said.push_str(&text);
        }
    })));
}

impl ObjectRefused {
    /// Creates a refusal that does not come from libbpf.
    pub fn because(reason: impl Into<String>) -> Self {
        Self {
            reason: reason.into(),
        }
    }

    /// Creates the error with libbpf's most informative line: the verifier's complaint, or
    /// otherwise the last line that names a cause.
    fn new(err: &libbpf_rs::Error) -> Self {
        let output = OUTPUT
            .lock()
            .map(|mut output| std::mem::take(&mut *output))
            .unwrap_or_default();
        Self::because(match telling_line(&output) {
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

fn telling_line(output: &str) -> Option<&str> {
    let tells_nothing = |line: &str| {
        line.is_empty()
            || line.starts_with("processed ")
            || line.contains("PROG LOAD LOG")
            || line.contains("failed to load object")
            || line.contains("BPF program load failed")
    };
    output
        .lines()
        .map(|line| line.trim_start_matches("libbpf: ").trim())
        .rfind(|line| !tells_nothing(line))
}

/// Numbers of entries of an object's maps, by name.
pub type Sizes<'a> = &'a [(&'a str, usize)];

/// Object in the kernel. The kernel removes its programs and timers when this value is dropped or
/// the process ends in any way.
#[derive(Debug)]
pub struct LoadedObject {
    pub object: Object,
    links: Vec<Link>,
}

impl ObjectFile {
    /// Loads the object. Maps named in `shared` are taken from an object that was loaded before;
    /// `sizes` has the number of entries of others; `prepare` may set inputs that become read-only.
    ///
    /// # Errors
    ///
    /// Returns an error if the kernel does not accept it.
    pub fn load(
        self,
        shared: &[(&str, BorrowedFd<'_>)],
        sizes: Sizes<'_>,
        prepare: impl FnOnce(&mut OpenObject) -> libbpf_rs::Result<()>,
    ) -> Result<LoadedObject, ObjectRefused> {
        listen();
        let open = || -> libbpf_rs::Result<Object> {
            let mut open = ObjectBuilder::default().open_memory((self.bytes)())?;
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

    /// Sets an input of the object, a variable that is read-only once the object is loaded. Call
    /// it in the `prepare` of its load.
    ///
    /// # Errors
    ///
    /// Returns an error if the variable does not exist, or if its size differs.
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
        let values = inputs.as_mut().and_then(|map| map.initial_value_mut());
        match values.and_then(|values| values.get_mut(place)) {
            Some(variable) if variable.len() == value.len() => {
                variable.copy_from_slice(value);
                Ok(())
            }
            _ => Err(self.no_input(name)),
        }
    }

    /// Returns the names of the tracepoints of its programs.
    ///
    /// # Errors
    ///
    /// Returns an error if the object is damaged.
    pub fn tracepoints(self) -> Result<Vec<String>, ObjectRefused> {
        let open = ObjectBuilder::default().open_memory((self.bytes)());
        let open = open.map_err(|err| ObjectRefused::new(&err))?;
        let sections = open.progs().map(|program| program.section().to_owned());
        let names = sections.filter_map(|section| {
            let section = section.to_string_lossy().into_owned();
            section.strip_prefix("tp_btf/").map(str::to_owned)
        });
        Ok(names.collect())
    }

    /// Returns the byte range of an input among all inputs.
    fn input(self, name: &str) -> libbpf_rs::Result<Range<usize>> {
        let btf = Btf::from_raw(self.name, (self.bytes)())?.ok_or_else(|| self.no_input(name))?;
        let is_wanted = |section: &DataSec<'_>| {
            section
                .name()
                .is_some_and(|section_name| section_name == INPUTS)
        };
        let section = btf.type_by_kind::<DataSec<'_>>().find(is_wanted);
        let section = section.ok_or_else(|| self.no_input(name))?;
        let mut variables = (0..section.len()).filter_map(|index| section.get(index));
        let input = variables.find(|name_found| {
            let variable = btf.type_by_id::<Var<'_>>(name_found.ty);
            variable.is_some_and(|variable| {
                variable.name().is_some_and(|name_found| name_found == name)
            })
        });
        input
            .map(|name_found| {
                name_found.offset as usize..name_found.offset as usize + name_found.size
            })
            .ok_or_else(|| self.no_input(name))
    }

    fn no_input(self, name: &str) -> libbpf_rs::Error {
        let what = format!("object `{}` has no input `{name}` of this size", self.name);
        io::Error::new(io::ErrorKind::InvalidInput, what).into()
    }
}

/// Section of an object's inputs.
const INPUTS: &str = ".rodata";

impl LoadedObject {
    /// Attaches every program of a tracepoint or function.
    ///
    /// # Errors
    ///
    /// Returns an error if the kernel refuses one.
    pub fn attach(&mut self) -> Result<(), ObjectRefused> {
        self.attach_those(|_| true)
    }

    /// Attaches the named programs.
    ///
    /// # Errors
    ///
    /// Returns an error if the kernel refuses one.
    pub fn attach_some(&mut self, names: &[&str]) -> Result<(), ObjectRefused> {
        self.attach_those(|name| names.iter().any(|wanted| name == OsStr::new(wanted)))
    }

    fn attach_those(&mut self, is_wanted: impl Fn(&OsStr) -> bool) -> Result<(), ObjectRefused> {
        for program in self.object.progs_mut() {
            let section = program.section().to_string_lossy();
            let is_attached =
                section.starts_with("tp_btf/") || matches!(&*section, "fentry" | "fexit");
            if is_attached && program.autoload() && is_wanted(program.name()) {
                self.links
                    .push(program.attach().map_err(|err| ObjectRefused::new(&err))?);
            }
        }
        Ok(())
    }

    /// Detaches all programs.
    pub fn detach(&mut self) {
        self.links.clear();
    }

    /// Returns the map with this name.
    ///
    /// # Errors
    ///
    /// Returns an error if it does not exist.
    pub fn map(&self, name: &str) -> Result<libbpf_rs::Map<'_>, ObjectRefused> {
        self.object
            .maps()
            .find(|map| map.name() == OsStr::new(name))
            .ok_or_else(|| ObjectRefused::because(format!("the object has no map `{name}`")))
    }

    /// Returns the program with this name.
    ///
    /// # Errors
    ///
    /// Returns an error if it does not exist.
    pub fn program(&self, name: &str) -> Result<ProgramMut<'_>, ObjectRefused> {
        self.object
            .progs_mut()
            .find(|program| program.name() == OsStr::new(name))
            .ok_or_else(|| ObjectRefused::because(format!("the object has no program `{name}`")))
    }

    /// Returns entry `key` of an array of `T`.
    ///
    /// # Errors
    ///
    /// Returns an error if the map or entry does not exist, or if its values have another type.
    pub fn value<T: Value>(&self, map: &str, key: u32) -> Result<T, ObjectRefused> {
        let entry = self.map(map)?.lookup(&key.to_ne_bytes(), MapFlags::ANY);
        let bytes = entry.map_err(|err| ObjectRefused::because(err.to_string()))?;
        bytes
            .filter(|bytes| bytes.len() == T::BYTES)
            .and_then(|bytes| T::from_bytes(&bytes))
            .ok_or_else(|| ObjectRefused::because(format!("map `{map}` has no entry {key}")))
    }

    /// Sets entry `key` of an array of `T`.
    ///
    /// # Errors
    ///
    /// Returns an error if the map or entry does not exist, or if its values have another type.
    pub fn set_value<T: Value>(&self, map: &str, key: u32, value: &T) -> Result<(), ObjectRefused> {
        self.map(map)?
            .update(&key.to_ne_bytes(), &value.to_bytes(), MapFlags::ANY)
            .map_err(|err| ObjectRefused::because(err.to_string()))
    }

    /// Runs a program of section `syscall` with `args` on this CPU. The program may write to
    /// `args`.
    ///
    /// # Errors
    ///
    /// Returns an error if it cannot be run, or if it returns an error number.
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

    /// Runs a program with typed arguments and returns them after the run.
    ///
    /// # Errors
    ///
    /// Returns an error if it cannot be run, or if it returns an error number.
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
    fn complaint_of_the_verifier_is_preferred_to_later_lines() {
        let output = "libbpf: prog 'p': BPF program load failed: EINVAL\n\
            libbpf: prog 'p': -- BEGIN PROG LOAD LOG --\n\
            R1 type=scalar expected=fp\n\
            processed 7 insns (limit 1000000)\n\
            -- END PROG LOAD LOG --\n\
            libbpf: failed to load object 'o'\n";

        assert_eq!(telling_line(output), Some("R1 type=scalar expected=fp"));
        assert_eq!(telling_line("libbpf: failed to load object 'o'\n"), None);
    }
}
