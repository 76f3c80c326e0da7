//! Rust types that BPF programs and user space share, generated from the type information (BTF)
//! that the compiler writes to the objects.
//!
//! A layout is therefore written once, in C. A structure is either shared memory, all of whose
//! fields are atomic, or a value that is copied in or out. A layout that Rust cannot represent
//! (unnamed padding, bitfields, unions, pointers) is an error, and so are two objects that
//! disagree.
//!
//! A structure reaches BTF as the value of a map, the argument of a program or the type of a
//! variable; an enumeration as the type of a variable.

mod layout;
#[cfg(test)]
mod tests;
mod write;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

use libbpf_rs::btf::Btf;
use libbpf_rs::btf::types::{Enum, Struct};

use layout::{FieldKind, Layout};

/// Reason why types cannot be generated.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TypesError {
    /// No object describes this type.
    #[error(
        "no object describes `{0}`; use it as a map's value, a program's argument or the type of a variable"
    )]
    Absent(String),
    /// Two objects were compiled with different layouts.
    #[error("`struct {name}` differs between {} and {}", first.display(), other.display())]
    Differs {
        name: String,
        /// Object that describes it.
        first: PathBuf,
        /// Object that describes it differently.
        other: PathBuf,
    },
    /// Rust cannot represent this field at its offset in C.
    #[error("`struct {name}`: {reason}")]
    Layout {
        name: String,
        /// Problem and remedy.
        reason: String,
    },
    /// An object is not readable.
    #[error("cannot read the type information in {}", path.display())]
    Object {
        path: PathBuf,
        source: libbpf_rs::Error,
    },
    /// The types cannot be written to the output directory.
    #[error("cannot write {}", path.display())]
    Write {
        path: PathBuf,
        /// Error of the system.
        source: io::Error,
    },
}

/// Types of a crate's objects; only the named ones are generated.
#[derive(Debug)]
pub struct Types {
    objects: Vec<(PathBuf, Btf<'static>)>,
    written: BTreeSet<String>,
    text: String,
}

impl Types {
    /// Reads the type information of `objects`.
    ///
    /// # Errors
    ///
    /// Returns an error if an object is not readable.
    pub fn from_objects(objects: &[PathBuf]) -> Result<Self, TypesError> {
        let read = |path: &PathBuf| {
            let read = Btf::from_path(path).map_err(|source| TypesError::Object {
                path: path.clone(),
                source,
            });
            read.map(|btf| (path.clone(), btf))
        };
        Ok(Self {
            objects: objects.iter().map(read).collect::<Result<_, _>>()?,
            written: BTreeSet::new(),
            text: String::new(),
        })
    }

    /// Adds structures in shared memory, and the structures inside them. The including module
    /// needs an `unsafe trait Shared`, which states that a type consists of atomics without
    /// padding.
    ///
    /// # Errors
    ///
    /// Returns an error if the structure does not exist, or if Rust cannot represent its layout.
    pub fn shared(self, names: &[&str]) -> Result<Self, TypesError> {
        self.add(names, write::shared)
    }

    /// Adds structures that are copied in or out, and the structures inside them, with
    /// [`crate::value::Value`].
    ///
    /// # Errors
    ///
    /// Returns an error if the structure does not exist, or if Rust cannot represent its layout.
    pub fn values(self, names: &[&str]) -> Result<Self, TypesError> {
        self.add(names, write::value)
    }

    /// Adds the constants of enumerations.
    ///
    /// # Errors
    ///
    /// Returns an error if the enumeration does not exist.
    pub fn constants(mut self, names: &[&str]) -> Result<Self, TypesError> {
        for name in names {
            let text = {
                let mut enums = self.objects.iter().flat_map(|(_, btf)| {
                    let enums = btf.type_by_kind::<Enum<'_>>();
                    enums.filter(|btf_enum| {
                        btf_enum.name().is_some_and(|enum_name| enum_name == *name)
                    })
                });
                let first = enums.next();
                let first = first.ok_or_else(|| TypesError::Absent(format!("enum {name}")))?;
                write::constants(name, &first)
            };
            self.text.push_str(&text);
        }
        Ok(self)
    }

    /// Returns the generated text so far.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Writes the text to a file in the output directory, for `include!`.
    ///
    /// # Errors
    ///
    /// Returns an error if the file cannot be written.
    pub fn write(&self, file: &str) -> Result<(), TypesError> {
        let folder = env::var_os("OUT_DIR").unwrap_or_default();
        let path = Path::new(&folder).join(file);
        fs::write(&path, &self.text).map_err(|source| TypesError::Write { path, source })
    }

    fn add(
        mut self,
        names: &[&str],
        write: impl Fn(&Layout) -> String,
    ) -> Result<Self, TypesError> {
        let mut wanted: Vec<String> = names.iter().rev().map(|&name| name.into()).collect();
        while let Some(name) = wanted.pop() {
            if !self.written.insert(name.clone()) {
                continue;
            }
            let layout = self.layout(&name)?;
            let inner = layout
                .fields
                .iter()
                .filter_map(|field| match field.kind.element() {
                    FieldKind::Struct(inner, _) => Some(inner.clone()),
                    FieldKind::Int { .. } | FieldKind::Array(..) => None,
                });
            wanted.extend(inner);
            self.text.push_str(&write(&layout));
        }
        Ok(self)
    }

    /// Returns the layout of a structure. All objects must have the same layout.
    fn layout(&self, name: &str) -> Result<Layout, TypesError> {
        let mut known_layout: Option<(&Path, Layout)> = None;
        for (path, btf) in &self.objects {
            let structs = btf.type_by_kind::<Struct<'_>>();
            for structure in structs.filter(|structure| {
                structure
                    .name()
                    .is_some_and(|struct_name| struct_name == name)
            }) {
                let layout = Layout::from_struct(btf, name, &structure).map_err(|reason| {
                    TypesError::Layout {
                        name: name.into(),
                        reason,
                    }
                })?;
                match &known_layout {
                    Some((other, before)) if *before != layout => {
                        return Err(TypesError::Differs {
                            name: name.into(),
                            first: other.to_path_buf(),
                            other: path.clone(),
                        });
                    }
                    _ => known_layout = Some((path, layout)),
                }
            }
        }
        let absent = || TypesError::Absent(format!("struct {name}"));
        known_layout.map(|(_, layout)| layout).ok_or_else(absent)
    }
}
