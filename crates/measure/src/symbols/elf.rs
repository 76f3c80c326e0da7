//! Function names from the symbol tables of an ELF file.
//!
//! The file belongs to the user who runs it and can contain anything. It is therefore read in
//! pieces and never mapped (if a mapped file shrinks, SIGBUS would end the reader). Every count
//! in it has a limit, and memory use grows with the number of offsets, not with the file. Links
//! to other files (`.gnu_debuglink`) are not followed. Layout: System V ABI, chapters 4
//! (sections, symbol table) and 5 (program header).

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;

use super::label::{self, MAX_MANGLED_BYTES};

/// Maximum size of a file in bytes.
const MAX_FILE_BYTES: u64 = 16 << 30;
/// Maximum number of symbols in a table. A browser with full symbols has about 2 million.
const MAX_SYMBOLS: u64 = 10_000_000;
/// Maximum number of section headers, and of program headers.
const MAX_HEADERS: u64 = 65_536;
const SYMBOLS_PER_READ: u64 = 4096;

const PT_LOAD: u32 = 1;
const SHT_SYMTAB: u32 = 2;
const SHT_DYNSYM: u32 = 11;
const SHN_UNDEF: u16 = 0;
const SHN_ABS: u16 = 0xfff1;
/// Type of a label of an assembler, which can be a function.
const STT_NOTYPE: u8 = 0;
const STT_FUNC: u8 = 2;
const STT_GNU_IFUNC: u8 = 10;
/// `e_phnum` if the number does not fit; section 0 then holds it.
const PN_XNUM: u64 = 0xffff;

/// Reason why the name of a function is unknown.
pub(super) type Unknown = String;

/// ELF file in this machine's byte order.
#[derive(Debug)]
pub(super) struct ElfFile<'a> {
    file: &'a File,
    is_64: bool,
    segments: Vec<Segment>,
    /// Full table first, then the dynamic one.
    tables: Vec<SymbolTable>,
}

/// Part of the file that is loaded into memory.
#[derive(Clone, Copy, Debug)]
struct Segment {
    offset: u64,
    bytes: u64,
    address: u64,
}

#[derive(Clone, Copy, Debug)]
struct SymbolTable {
    is_dynamic: bool,
    offset: u64,
    count: u64,
    names_offset: u64,
    names_bytes: u64,
}

/// Fields of a section header.
#[derive(Clone, Copy, Debug)]
struct Section {
    kind: u32,
    offset: u64,
    bytes: u64,
    link: u32,
    info: u32,
}

#[derive(Clone, Copy, Debug)]
struct ElfSymbol {
    name: u32,
    kind: u8,
    section: u16,
    address: u64,
    bytes: u64,
}

/// Functions that start at the same address, the last start before a given address.
#[derive(Clone, Copy, Debug, Default)]
struct NearestFunctions {
    address: u64,
    /// Size in bytes and name of the longest function.
    sized: Option<(u64, u32)>,
    /// Name of a function of unknown size.
    unsized_name: Option<u32>,
}

impl<'a> ElfFile<'a> {
    /// Reads the headers.
    ///
    /// # Errors
    ///
    /// Returns the reason if the file is not a readable ELF file.
    pub(super) fn open(file: &'a File, bytes: u64) -> Result<Self, Unknown> {
        if bytes > MAX_FILE_BYTES {
            return Err(format!("the file is larger than {MAX_FILE_BYTES} bytes"));
        }
        let mut start = [0; 20];
        read(file, 0, &mut start)?;
        if !start.starts_with(b"\x7fELF") {
            return Err("it is not an ELF file".into());
        }
        let is_64 = match start[4] {
            1 => false,
            2 => true,
            class => return Err(format!("its ELF class {class} is unknown")),
        };
        let own_order = if cfg!(target_endian = "little") { 1 } else { 2 };
        if start[5] != own_order {
            return Err("it has another byte order than this machine".into());
        }
        let mut elf = Self {
            file,
            is_64,
            segments: Vec::new(),
            tables: Vec::new(),
        };
        elf.read_headers()?;
        Ok(elf)
    }

    fn read_headers(&mut self) -> Result<(), Unknown> {
        let mut header = [0; 64];
        let header = &mut header[..if self.is_64 { 64 } else { 52 }];
        read(self.file, 0, header)?;
        let fields = Fields(header);
        // Positions of the program headers, the section headers, and their sizes and counts.
        let (programs, sections, sizes) = if self.is_64 {
            (fields.u64(32), fields.u64(40), 54)
        } else {
            (fields.u32(28).into(), fields.u32(32).into(), 42)
        };
        let size = |offset| u64::from(fields.u16(offset));
        let (program_bytes, mut program_count) = (size(sizes), size(sizes + 2));
        let (section_bytes, mut section_count) = (size(sizes + 4), size(sizes + 6));
        if sections != 0 && (section_count == 0 || program_count == PN_XNUM) {
            let first = self.section(sections, section_bytes, 0)?;
            if section_count == 0 {
                section_count = first.bytes;
            }
            if program_count == PN_XNUM {
                program_count = first.info.into();
            }
        }
        if program_count.max(section_count) > MAX_HEADERS {
            return Err(format!("it has more than {MAX_HEADERS} headers"));
        }
        for number in 0..program_count {
            self.read_segment(programs, program_bytes, number)?;
        }
        if sections == 0 {
            return Ok(());
        }
        for number in 0..section_count {
            let section = self.section(sections, section_bytes, number)?;
            let is_dynamic = section.kind == SHT_DYNSYM;
            let is_known = self
                .tables
                .iter()
                .any(|table| table.is_dynamic == is_dynamic);
            if (is_dynamic || section.kind == SHT_SYMTAB) && !is_known {
                if u64::from(section.link) >= section_count {
                    return Err("its symbol table has no names".into());
                }
                let names = self.section(sections, section_bytes, section.link.into())?;
                self.tables.push(SymbolTable {
                    is_dynamic,
                    offset: section.offset,
                    count: section.bytes / self.symbol_bytes(),
                    names_offset: names.offset,
                    names_bytes: names.bytes,
                });
            }
        }
        self.tables.sort_by_key(|table| table.is_dynamic);
        Ok(())
    }

    const fn symbol_bytes(&self) -> u64 {
        if self.is_64 { 24 } else { 16 }
    }

    fn read_segment(&mut self, programs: u64, bytes: u64, number: u64) -> Result<(), Unknown> {
        let mut header = [0; 56];
        let header = &mut header[..if self.is_64 { 56 } else { 32 }];
        read_entry(self.file, programs, bytes, number, header)?;
        let fields = Fields(header);
        let segment = if self.is_64 {
            Segment {
                offset: fields.u64(8),
                bytes: fields.u64(32),
                address: fields.u64(16),
            }
        } else {
            Segment {
                offset: fields.u32(4).into(),
                bytes: fields.u32(16).into(),
                address: fields.u32(8).into(),
            }
        };
        if fields.u32(0) == PT_LOAD {
            self.segments.push(segment);
        }
        Ok(())
    }

    fn section(&self, sections: u64, bytes: u64, number: u64) -> Result<Section, Unknown> {
        let mut header = [0; 64];
        let header = &mut header[..if self.is_64 { 64 } else { 40 }];
        read_entry(self.file, sections, bytes, number, header)?;
        let fields = Fields(header);
        Ok(if self.is_64 {
            Section {
                kind: fields.u32(4),
                offset: fields.u64(24),
                bytes: fields.u64(32),
                link: fields.u32(40),
                info: fields.u32(44),
            }
        } else {
            Section {
                kind: fields.u32(4),
                offset: fields.u32(16).into(),
                bytes: fields.u32(20).into(),
                link: fields.u32(24),
                info: fields.u32(28),
            }
        })
    }

    /// Looks up the function at each offset in the file.
    ///
    /// # Errors
    ///
    /// The outer error means that the symbols cannot be read, the inner one that no function is
    /// at the offset.
    pub(super) fn names(&self, offsets: &[u64]) -> Result<Vec<Result<String, Unknown>>, Unknown> {
        if self.tables.is_empty() {
            return Err("the file has no symbols".into());
        }
        let mut names: Vec<Result<String, Unknown>> = offsets
            .iter()
            .map(|_| Err("the file has no function at this offset".into()))
            .collect();
        for table in &self.tables {
            // Addresses without a name so far, each with the index of its offset.
            let mut wanted: Vec<(u64, usize)> = (0..offsets.len())
                .filter(|&index| names[index].is_err())
                .filter_map(|index| Some((self.address_of(offsets[index])?, index)))
                .collect();
            wanted.sort_unstable();
            let nearest = self.nearest(table, &wanted)?;
            for (&(address, index), nearest) in wanted.iter().zip(&nearest) {
                if let Some(name) = nearest.name_at(address, table.is_dynamic) {
                    names[index] = self.name(table, name);
                }
            }
        }
        Ok(names)
    }

    /// Returns the address that the file's symbols use, which differs from the address in a
    /// process.
    fn address_of(&self, offset: u64) -> Option<u64> {
        self.segments.iter().find_map(|segment| {
            let within = offset.checked_sub(segment.offset)?;
            (within < segment.bytes).then(|| segment.address.checked_add(within))?
        })
    }

    /// Reads the table once. For each wanted address, in ascending order, keeps the functions
    /// with the last start before it.
    fn nearest(
        &self,
        table: &SymbolTable,
        wanted: &[(u64, usize)],
    ) -> Result<Vec<NearestFunctions>, Unknown> {
        if table.count > MAX_SYMBOLS {
            return Err(format!("the file has more than {MAX_SYMBOLS} symbols"));
        }
        let mut nearest = vec![NearestFunctions::default(); wanted.len()];
        if wanted.is_empty() {
            return Ok(nearest);
        }
        let symbol_bytes = self.symbol_bytes();
        let mut buffer = vec![0; usize::try_from(SYMBOLS_PER_READ * symbol_bytes).unwrap_or(0)];
        let mut number = 0;
        while number < table.count {
            let count = SYMBOLS_PER_READ.min(table.count - number);
            let bytes = usize::try_from(count * symbol_bytes).unwrap_or(0);
            let piece = &mut buffer[..bytes];
            read_entry(self.file, table.offset, symbol_bytes, number, piece)?;
            for fields in piece.chunks_exact(usize::try_from(symbol_bytes).unwrap_or(1)) {
                let symbol = self.symbol(&Fields(fields));
                if symbol.is_function() {
                    let first = wanted.partition_point(|&(address, _)| address < symbol.address);
                    if let Some(nearest) = nearest.get_mut(first) {
                        nearest.note(&symbol);
                    }
                }
            }
            number += count;
        }
        // The last start before an address may have been stored for a smaller address.
        for index in 1..nearest.len() {
            let before = nearest[index - 1];
            if !before.is_empty()
                && (nearest[index].is_empty() || nearest[index].address < before.address)
            {
                nearest[index] = before;
            }
        }
        Ok(nearest)
    }

    fn symbol(&self, fields: &Fields<'_>) -> ElfSymbol {
        if self.is_64 {
            ElfSymbol {
                name: fields.u32(0),
                kind: fields.0[4] & 0xf,
                section: fields.u16(6),
                address: fields.u64(8),
                bytes: fields.u64(16),
            }
        } else {
            ElfSymbol {
                name: fields.u32(0),
                kind: fields.0[12] & 0xf,
                section: fields.u16(14),
                address: fields.u32(4).into(),
                bytes: fields.u32(8).into(),
            }
        }
    }

    fn name(&self, table: &SymbolTable, offset: u32) -> Result<String, Unknown> {
        let offset = u64::from(offset);
        let Some(left) = table
            .names_bytes
            .checked_sub(offset)
            .filter(|&left| left > 0)
        else {
            return Err("the name of its function is outside the file's string table".into());
        };
        let mut name = [0; MAX_MANGLED_BYTES];
        let bytes = usize::try_from(left).unwrap_or(usize::MAX).min(name.len());
        let name = &mut name[..bytes];
        let offset = table.names_offset.checked_add(offset);
        read(self.file, offset.unwrap_or(u64::MAX), name)?;
        let end = name.iter().position(|&byte| byte == 0);
        match &name[..end.unwrap_or(bytes)] {
            [] => Err("its function has no name".into()),
            name => Ok(label::function(name, end.is_none())),
        }
    }
}

impl ElfSymbol {
    const fn is_function(&self) -> bool {
        matches!(self.kind, STT_NOTYPE | STT_FUNC | STT_GNU_IFUNC)
            && !matches!(self.section, SHN_UNDEF | SHN_ABS)
    }
}

impl NearestFunctions {
    const fn is_empty(&self) -> bool {
        self.sized.is_none() && self.unsized_name.is_none()
    }

    fn note(&mut self, symbol: &ElfSymbol) {
        if self.is_empty() || self.address < symbol.address {
            *self = Self {
                address: symbol.address,
                ..Self::default()
            };
        }
        if self.address != symbol.address {
            return;
        }
        if symbol.bytes == 0 {
            self.unsized_name.get_or_insert(symbol.name);
        } else if self.sized.is_none_or(|(bytes, _)| bytes < symbol.bytes) {
            self.sized = Some((symbol.bytes, symbol.name));
        }
    }

    /// Returns the name of the function that contains `address`. A dynamic table has few of the
    /// functions, so a function of unknown size counts only for its first byte.
    fn name_at(&self, address: u64, is_dynamic: bool) -> Option<u32> {
        let within = address.checked_sub(self.address)?;
        match self.sized {
            Some((bytes, name)) if within < bytes => Some(name),
            _ => self.unsized_name.filter(|_| !is_dynamic || within == 0),
        }
    }
}

/// Fields of a structure in this machine's byte order.
struct Fields<'a>(&'a [u8]);

impl Fields<'_> {
    fn bytes<const N: usize>(&self, offset: usize) -> [u8; N] {
        self.0[offset..][..N]
            .try_into()
            .expect("a slice of N bytes")
    }

    fn u16(&self, offset: usize) -> u16 {
        u16::from_ne_bytes(self.bytes(offset))
    }

    fn u32(&self, offset: usize) -> u32 {
        u32::from_ne_bytes(self.bytes(offset))
    }

    fn u64(&self, offset: usize) -> u64 {
        u64::from_ne_bytes(self.bytes(offset))
    }
}

/// Reads entries of a table from entry `number`. Each entry has `bytes` bytes.
fn read_entry(
    file: &File,
    table: u64,
    bytes: u64,
    number: u64,
    entry: &mut [u8],
) -> Result<(), Unknown> {
    let within = bytes.checked_mul(number);
    let offset = within.and_then(|within| table.checked_add(within));
    read(file, offset.unwrap_or(u64::MAX), entry)
}

fn read(file: &File, offset: u64, bytes: &mut [u8]) -> Result<(), Unknown> {
    // A larger value is not a valid file offset for the kernel.
    if i64::try_from(offset).is_err() {
        return Err("the ELF file is damaged: an offset is too large".into());
    }
    file.read_exact_at(bytes, offset).map_err(|err| {
        if err.kind() == io::ErrorKind::UnexpectedEof {
            "the ELF file is truncated".into()
        } else {
            format!("the file cannot be read: {}", crate::linux::reason_of(&err))
        }
    })
}

#[cfg(test)]
mod tests;
