//! Where the fields of a structure lie, as BTF has it.

use std::ffi::OsStr;

use libbpf_rs::btf::types::{Array, Composite, Enum, Int, IntEncoding, MemberAttr, Struct};
use libbpf_rs::btf::{Btf, BtfKind, BtfType, HasSize as _};

/// What the kernel keeps in a value (`bpf_timer`, `bpf_wq`): nobody else's
/// concern but for its size.
const OF_THE_KERNEL: &str = "bpf_";

/// A structure without padding.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Layout {
    /// As C has it.
    pub(super) name: String,
    pub(super) bytes: usize,
    /// In order; each begins where the one before ends.
    pub(super) fields: Vec<Field>,
}

/// One field.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Field {
    pub(super) name: String,
    /// In bytes, from the beginning of the structure.
    pub(super) offset: usize,
    pub(super) kind: FieldKind,
}

/// What a field is.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) enum FieldKind {
    /// A whole number.
    Int { bytes: usize, is_signed: bool },
    /// A structure of this name and size.
    Struct(String, usize),
    /// So many of the same.
    Array(Box<Self>, usize),
}

impl FieldKind {
    pub(super) fn bytes(&self) -> usize {
        match self {
            Self::Int { bytes, .. } | Self::Struct(_, bytes) => *bytes,
            Self::Array(of, count) => of.bytes() * count,
        }
    }

    /// What it is made of, if it is an array.
    pub(super) fn element(&self) -> &Self {
        match self {
            Self::Array(of, _) => of.element(),
            Self::Int { .. } | Self::Struct(..) => self,
        }
    }

    fn of(of: BtfType<'_>) -> Result<Self, String> {
        let of = of.skip_mods_and_typedefs();
        let unknown = || format!("is of a kind that Rust is not told of ({:?})", of.kind());
        match of.kind() {
            BtfKind::Int => {
                let int = Int::try_from(of).map_err(|_| unknown())?;
                match int.encoding {
                    IntEncoding::None | IntEncoding::Char | IntEncoding::Signed => Ok(Self::Int {
                        bytes: usize::from(int.bits) / 8,
                        is_signed: matches!(int.encoding, IntEncoding::Signed),
                    }),
                    IntEncoding::Bool => {
                        Err("is a bool, of which not every byte is one; make it a number".into())
                    }
                }
            }
            BtfKind::Enum => {
                let of = Enum::try_from(of).map_err(|_| unknown())?;
                Ok(Self::Int {
                    bytes: of.size(),
                    is_signed: of.is_signed(),
                })
            }
            BtfKind::Array => {
                let array = Array::try_from(of).map_err(|_| unknown())?;
                let element = Self::of(array.contained_type())?;
                Ok(Self::Array(Box::new(element), array.capacity()))
            }
            BtfKind::Struct => {
                let one = Composite::try_from(of).map_err(|_| unknown())?;
                let name = of.name().and_then(OsStr::to_str);
                match name {
                    Some(name) if name.starts_with(OF_THE_KERNEL) => {
                        let word = Self::Int {
                            bytes: 8,
                            is_signed: false,
                        };
                        Ok(Self::Array(Box::new(word), one.size() / 8))
                    }
                    Some(name) => Ok(Self::Struct(name.into(), one.size())),
                    None => Err("is a structure without a name".into()),
                }
            }
            _ => Err(unknown()),
        }
    }
}

impl Layout {
    /// That of `of`. `Err`: what is wrong with it, and what to do.
    pub(super) fn of(btf: &Btf<'_>, name: &str, of: &Struct<'_>) -> Result<Self, String> {
        let mut fields: Vec<Field> = Vec::new();
        let mut end = 0;
        for member in of.iter() {
            let Some(field) = member.name.and_then(OsStr::to_str) else {
                return Err("a member has no name; give it one".into());
            };
            let offset = match member.attr {
                MemberAttr::Normal { offset } => offset as usize / 8,
                MemberAttr::BitField { .. } => {
                    return Err(format!(
                        "`{field}` is a bitfield; make it a number of its own"
                    ));
                }
            };
            if offset != end {
                return Err(format!(
                    "there are {} bytes of padding before `{field}`; give them a name, or order the fields by size",
                    offset - end
                ));
            }
            let of: BtfType<'_> = btf
                .type_by_id(member.ty)
                .ok_or_else(|| format!("`{field}` has no type"))?;
            let kind = FieldKind::of(of).map_err(|reason| format!("`{field}` {reason}"))?;
            end = offset + kind.bytes();
            fields.push(Field {
                name: field.into(),
                offset,
                kind,
            });
        }
        match of.size() - end {
            0 => Ok(Self {
                name: name.into(),
                bytes: end,
                fields,
            }),
            padding => Err(format!(
                "there are {padding} bytes of padding at its end; give them a name"
            )),
        }
    }
}
