//! The Rust types of what BPF programs and user space share, written from the
//! description (BTF) that the compiler puts into the programs' objects.
//!
//! So a layout is written once, in C. A structure is either memory that both
//! sides use at the same time, all of whose fields are atomic, or a value that
//! is copied in or out. A layout that Rust cannot follow (padding that has no
//! name, bitfields, unions, pointers) is an error, as are two objects that
//! disagree.
//!
//! A structure reaches the description as a map's value, a program's argument
//! or the type of a variable; an enumeration as the type of a variable.

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

/// Why types cannot be written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TypesError {
    /// No object has the description of this type.
    #[error(
        "no object describes `{0}`: make it a map's value, a program's argument or the type of a variable"
    )]
    Absent(String),
    /// Two objects were compiled with different layouts.
    #[error("`struct {name}` is not the same in {} and {}", one.display(), other.display())]
    Differs {
        /// The structure.
        name: String,
        /// An object that describes it.
        one: PathBuf,
        /// Another that describes it differently.
        other: PathBuf,
    },
    /// Rust cannot have this field where C has it.
    #[error("`struct {name}`: {reason}")]
    Layout {
        /// The structure.
        name: String,
        /// What is wrong, and what to do.
        reason: String,
    },
    /// An object cannot be read.
    #[error("read the description in {}", path.display())]
    Object {
        /// The object.
        path: PathBuf,
        /// What libbpf said.
        source: libbpf_rs::Error,
    },
    /// The types cannot be written to the folder of the build.
    #[error("write {}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

/// The types of a crate's objects, of which those that are named are written.
#[derive(Debug)]
pub struct Types {
    objects: Vec<(PathBuf, Btf<'static>)>,
    written: BTreeSet<String>,
    text: String,
}

impl Types {
    /// Reads what `objects` describe.
    ///
    /// # Errors
    /// When one cannot be read.
    pub fn of(objects: &[PathBuf]) -> Result<Self, TypesError> {
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

    /// Adds structures that lie in memory which both sides use at once, and
    /// those inside of them. The module that has them needs an `unsafe trait
    /// Shared`, which says that a type is atomics without padding.
    ///
    /// # Errors
    /// When there is no such structure, or Rust cannot have its layout.
    pub fn shared(self, names: &[&str]) -> Result<Self, TypesError> {
        self.add(names, write::shared)
    }

    /// Adds structures that are copied in or out, and those inside of them, with
    /// [`crate::value::Value`].
    ///
    /// # Errors
    /// When there is no such structure, or Rust cannot have its layout.
    pub fn values(self, names: &[&str]) -> Result<Self, TypesError> {
        self.add(names, write::value)
    }

    /// Adds the constants of enumerations.
    ///
    /// # Errors
    /// When there is no such enumeration.
    pub fn constants(mut self, names: &[&str]) -> Result<Self, TypesError> {
        for name in names {
            let text = {
                let mut all = self.objects.iter().flat_map(|(_, btf)| {
                    let all = btf.type_by_kind::<Enum<'_>>();
                    all.filter(|one| one.name().is_some_and(|found| found == *name))
                });
                let first = all.next();
                let first = first.ok_or_else(|| TypesError::Absent(format!("enum {name}")))?;
                write::constants(name, &first)
            };
            self.text.push_str(&text);
        }
        Ok(self)
    }

    /// What has been added so far.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Writes it to a file of the build's folder, for `include!`.
    ///
    /// # Errors
    /// When the file cannot be written.
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

    /// The layout of a structure, on which all objects agree.
    fn layout(&self, name: &str) -> Result<Layout, TypesError> {
        let mut found: Option<(&Path, Layout)> = None;
        for (path, btf) in &self.objects {
            let all = btf.type_by_kind::<Struct<'_>>();
            for one in all.filter(|one| one.name().is_some_and(|found| found == name)) {
                let layout = Layout::of(btf, name, &one).map_err(|reason| TypesError::Layout {
                    name: name.into(),
                    reason,
                })?;
                match &found {
                    Some((other, before)) if *before != layout => {
                        return Err(TypesError::Differs {
                            name: name.into(),
                            one: other.to_path_buf(),
                            other: path.clone(),
                        });
                    }
                    _ => found = Some((path, layout)),
                }
            }
        }
        let absent = || TypesError::Absent(format!("struct {name}"));
        found.map(|(_, layout)| layout).ok_or_else(absent)
    }
}
