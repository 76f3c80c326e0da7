//! Layout of a structure's fields according to BTF.

use std::ffi::OsStr;

use libbpf_rs::btf::types::{Array, Composite, Enum, Int, IntEncoding, MemberAttr, Struct};
use libbpf_rs::btf::{Btf, BtfKind, BtfType, HasSize as _};

/// Prefix of kernel types in a value (`bpf_timer`, `bpf_wq`). Only their size matters.
const KERNEL_PREFIX: &str = "bpf_";

/// Structure without padding.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Layout {
    /// Name in C.
    pub(super) name: String,
    pub(super) bytes: usize,
    /// Fields in order; each starts where the previous one ends.
    pub(super) fields: Vec<Field>,
}

#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Field {
    pub(super) name: String,
    /// Offset in bytes from the start of the structure.
    pub(super) offset: usize,
    pub(super) kind: FieldKind,
}

#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) enum FieldKind {
    /// Integer.
    Int { bytes: usize, is_signed: bool },
    /// Structure with this name and size.
    Struct(String, usize),
    /// Array of this type and length.
    Array(Box<Self>, usize),
}

impl FieldKind {
    pub(super) fn bytes(&self) -> usize {
        match self {
            Self::Int { bytes, .. } | Self::Struct(_, bytes) => *bytes,
            Self::Array(element, count) => element.bytes() * count,
        }
    }

    /// Returns the element type of an array, or the type itself.
    pub(super) fn element(&self) -> &Self {
        match self {
            Self::Array(element, _) => element.element(),
            Self::Int { .. } | Self::Struct(..) => self,
        }
    }

    fn from_btf(btf_type: BtfType<'_>) -> Result<Self, String> {
        let btf_type = btf_type.skip_mods_and_typedefs();
        let unknown = || format!("has an unsupported kind ({:?})", btf_type.kind());
        match btf_type.kind() {
            BtfKind::Int => {
                let int = Int::try_from(btf_type).map_err(|_| unknown())?;
                match int.encoding {
                    IntEncoding::None | IntEncoding::Char | IntEncoding::Signed => Ok(Self::Int {
                        bytes: usize::from(int.bits) / 8,
                        is_signed: matches!(int.encoding, IntEncoding::Signed),
                    }),
                    IntEncoding::Bool => {
                        Err("is a bool, and not every byte is a valid bool; use a number".into())
                    }
                }
            }
            BtfKind::Enum => {
                let btf_type = Enum::try_from(btf_type).map_err(|_| unknown())?;
                Ok(Self::Int {
                    bytes: btf_type.size(),
                    is_signed: btf_type.is_signed(),
                })
            }
            BtfKind::Array => {
                let array = Array::try_from(btf_type).map_err(|_| unknown())?;
                let element = Self::from_btf(array.contained_type())?;
                Ok(Self::Array(Box::new(element), array.capacity()))
            }
            BtfKind::Struct => {
                let composite = Composite::try_from(btf_type).map_err(|_| unknown())?;
                let name = btf_type.name().and_then(OsStr::to_str);
                match name {
                    Some(name) if name.starts_with(KERNEL_PREFIX) => {
                        let word = Self::Int {
                            bytes: 8,
                            is_signed: false,
                        };
                        Ok(Self::Array(Box::new(word), composite.size() / 8))
                    }
                    Some(name) => Ok(Self::Struct(name.into(), composite.size())),
                    None => Err("is a structure without a name".into()),
                }
            }
            _ => Err(unknown()),
        }
    }
}

impl Layout {
    /// Returns the layout of `structure`. `Err` is the problem and its remedy.
    pub(super) fn from_struct(
        btf: &Btf<'_>,
        name: &str,
        structure: &Struct<'_>,
    ) -> Result<Self, String> {
        let mut fields: Vec<Field> = Vec::new();
        let mut end = 0;
        for member in structure.iter() {
            let Some(field) = member.name.and_then(OsStr::to_str) else {
                return Err("a member has no name; give it one".into());
            };
            let offset = match member.attr {
                MemberAttr::Normal { offset } => offset as usize / 8,
                MemberAttr::BitField { .. } => {
                    return Err(format!("`{field}` is a bitfield; use a separate number"));
                }
            };
            if offset != end {
                return Err(format!(
                    "{} bytes of padding before `{field}`; name them, or order the fields by size",
                    offset - end
                ));
            }
            let member_type: BtfType<'_> = btf
                .type_by_id(member.ty)
                .ok_or_else(|| format!("`{field}` has no type"))?;
            let kind =
                FieldKind::from_btf(member_type).map_err(|reason| format!("`{field}` {reason}"))?;
            end = offset + kind.bytes();
            fields.push(Field {
                name: field.into(),
                offset,
                kind,
            });
        }
        match structure.size() - end {
            0 => Ok(Self {
                name: name.into(),
                bytes: end,
                fields,
            }),
            padding => Err(format!("{padding} bytes of padding at its end; name them")),
        }
    }
}
