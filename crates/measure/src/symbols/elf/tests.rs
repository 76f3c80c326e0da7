use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use blazesym::symbolize::source::{Elf, Source};
use blazesym::symbolize::{Input, Symbolizer};

use super::*;

/// Offset and address of the code in [`file_with`].
const CODE: (u64, u64) = (0x1000, 0x40_1000);
const CODE_BYTES: u64 = 0x1000;
const SECTIONS_AT: u64 = 64 + 56;
const SYMBOLS_AT: u64 = SECTIONS_AT + 3 * 64;

/// Symbol table of an ELF file for tests.
#[derive(Clone, Debug)]
struct Table {
    kind: u32,
    /// Name, address and size in bytes of each function.
    functions: Vec<(&'static str, u64, u64)>,
}

impl Default for Table {
    fn default() -> Self {
        Self {
            kind: SHT_SYMTAB,
            functions: vec![("first", 0x40_1000, 0x10), ("second", 0x40_1020, 0)],
        }
    }
}

/// Returns a 64-bit ELF file with one segment and one symbol table.
fn bytes_of(table: &Table) -> Vec<u8> {
    let mut names = vec![0];
    let mut symbols = Vec::new();
    for (name, address, bytes) in &table.functions {
        let offset = u32::try_from(names.len()).unwrap();
        symbols.extend(offset.to_ne_bytes());
        symbols.extend([STT_FUNC, 0, 1, 0]);
        symbols.extend(address.to_ne_bytes());
        symbols.extend(bytes.to_ne_bytes());
        names.extend(name.bytes().chain([0]));
    }
    let names_at = SYMBOLS_AT + symbols.len() as u64;
    let mut file = b"\x7fELF\x02\x01\x01".to_vec();
    file.resize(16, 0);
    let header: [&[u8]; 12] = [
        &3_u16.to_ne_bytes(),
        &62_u16.to_ne_bytes(),
        &1_u32.to_ne_bytes(),
        &0_u64.to_ne_bytes(),
        &64_u64.to_ne_bytes(),
        &SECTIONS_AT.to_ne_bytes(),
        &0_u32.to_ne_bytes(),
        &64_u16.to_ne_bytes(),
        &56_u16.to_ne_bytes(),
        &1_u16.to_ne_bytes(),
        &64_u16.to_ne_bytes(),
        &3_u16.to_ne_bytes(),
    ];
    file.extend(header.concat());
    file.extend([0; 2]);
    let segment = [0, CODE.0, CODE.1, CODE.1, CODE_BYTES, CODE_BYTES, 0x1000];
    file.extend(PT_LOAD.to_ne_bytes());
    file.extend(5_u32.to_ne_bytes());
    file.extend(segment[1..].iter().flat_map(|word| word.to_ne_bytes()));
    let section = |kind: u32, offset: u64, bytes: u64, link: u32| {
        let words = [0, 0, offset, bytes].map(u64::to_ne_bytes).concat();
        let start = [0_u32.to_ne_bytes(), kind.to_ne_bytes()].concat();
        let end = [link.to_ne_bytes(), 0_u32.to_ne_bytes()].concat();
        [start, words, end, vec![0; 16]].concat()
    };
    file.extend(section(0, 0, 0, 0));
    file.extend(section(table.kind, SYMBOLS_AT, symbols.len() as u64, 2));
    file.extend(section(3, names_at, names.len() as u64, 0));
    assert_eq!(file.len() as u64, SYMBOLS_AT);
    file.extend(symbols);
    file.extend(names);
    file
}

fn file_with(bytes: &[u8]) -> File {
    let file = tempfile::tempfile().unwrap();
    file.write_all_at(bytes, 0).unwrap();
    file
}

fn names_in(file: &File, offsets: &[u64]) -> Result<Vec<Result<String, Unknown>>, Unknown> {
    ElfFile::open(file, file.metadata().unwrap().len())?.names(offsets)
}

#[test]
fn function_covers_the_bytes_of_its_symbol() {
    let offsets = [0xfff, 0x1000, 0x100f, 0x1010, 0x1020, 0x1fff, 0x2000];
    let full = bytes_of(&Table::default());
    let dynamic = bytes_of(&Table {
        kind: SHT_DYNSYM,
        ..Table::default()
    });

    let names = |bytes: &[u8]| -> Vec<Option<String>> {
        let names = names_in(&file_with(bytes), &offsets).unwrap();
        names.into_iter().map(Result::ok).collect()
    };

    let (first, second) = (Some("first".to_owned()), Some("second".to_owned()));
    let [a, b] = [&first, &second];
    let expected = [None, a.clone(), a.clone(), None, b.clone(), b.clone(), None];
    assert_eq!(names(&full), expected);
    let expected = [None, a.clone(), a.clone(), None, b.clone(), None, None];
    assert_eq!(names(&dynamic), expected);
}

/// Returns the start of the function at each offset, with the same search as for names.
fn starts(elf: &ElfFile<'_>, offsets: &[u64]) -> Vec<Option<u64>> {
    let mut starts = vec![None; offsets.len()];
    for table in &elf.tables {
        let mut wanted: Vec<(u64, usize)> = (0..offsets.len())
            .filter(|&index| starts[index].is_none())
            .filter_map(|index| Some((elf.address_of(offsets[index])?, index)))
            .collect();
        wanted.sort_unstable();
        let nearest = elf.nearest(table, &wanted).unwrap();
        for (&(address, index), nearest) in wanted.iter().zip(nearest) {
            let name = nearest.name_at(address, table.is_dynamic);
            starts[index] = name.map(|_| nearest.address);
        }
    }
    starts
}

/// Checks one offset in every 2,003 bytes of the code of this program and of its C library.
#[test]
fn functions_match_those_of_another_reader() {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let code = maps.lines().filter_map(|line| {
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        let [range, "r-xp", offset, _, _, path] = words[..] else {
            return None;
        };
        let (start, end) = range.split_once('-')?;
        let number = |text| u64::from_str_radix(text, 16).ok();
        let offset = number(offset)?;
        Some((path, offset..offset + number(end)? - number(start)?))
    });
    let mut compared = 0;
    for (path, code) in code.filter(|(path, _)| path.starts_with('/')) {
        let file = File::open(path).unwrap();
        let elf = ElfFile::open(&file, file.metadata().unwrap().size()).unwrap();
        // The mapping consists of whole pages, which contain more of the file than code.
        let page = code.start..code.start + 4096;
        let is_code = |segment: &&Segment| page.contains(&segment.offset);
        let segment = elf.segments.iter().find(is_code).unwrap();
        let code = segment.offset..segment.offset + segment.bytes;
        let offsets: Vec<u64> = code.step_by(2003).collect();

        let ours = elf.names(&offsets).unwrap();

        let symbolizer = Symbolizer::builder().enable_code_info(false).build();
        let source = Source::Elf(Elf::new(Path::new(path)));
        let theirs = symbolizer
            .symbolize(&source, Input::FileOffset(&offsets))
            .unwrap();
        let starts = starts(&elf, &offsets);
        for (((offset, ours), theirs), start) in offsets.iter().zip(&ours).zip(&theirs).zip(starts)
        {
            let theirs = theirs.as_sym();
            assert_eq!(start, theirs.map(|sym| sym.addr), "{path}: {offset:#x}");
            // Several functions may start at this address. Names of any length are cut here.
            assert_eq!(ours.is_ok(), theirs.is_some(), "{path}: {offset:#x}");
            compared += usize::from(theirs.is_some_and(|sym| ours.as_deref() == Ok(&*sym.name)));
        }
    }
    assert!(compared > 100, "only {compared} names are the same");
}

/// Uses a file of 2.4 GB that takes 4 KiB of disk.
#[test]
fn table_of_100_million_symbols_is_refused_before_it_is_read() {
    let mut bytes = bytes_of(&Table::default());
    let count: u64 = 100_000_000;
    let size_at = usize::try_from(SECTIONS_AT).unwrap() + 64 + 32;
    bytes[size_at..][..8].copy_from_slice(&(count * 24).to_ne_bytes());
    let file = file_with(&bytes);
    file.set_len(count * 24 + SYMBOLS_AT).unwrap();

    let error = names_in(&file, &[0x1000]).unwrap_err();

    assert_eq!(error, "the file has more than 10000000 symbols");
}

#[test]
fn name_without_an_end_is_cut_and_control_characters_are_escaped() {
    let mut bytes = bytes_of(&Table {
        functions: vec![("\u{1b}[2J", 0x40_1000, 8), ("endless", 0x40_1008, 8)],
        ..Table::default()
    });
    let names_bytes_at = usize::try_from(SECTIONS_AT).unwrap() + 2 * 64 + 32;
    bytes[names_bytes_at..][..8].copy_from_slice(&(1_u64 << 30).to_ne_bytes());
    // Extends the name to a gigabyte.
    bytes.pop();
    bytes.resize(bytes.len() + (1 << 20), b'x');
    let file = file_with(&bytes);
    file.set_len(1 << 31).unwrap();

    let names = names_in(&file, &[0x1000, 0x1008]).unwrap();

    assert_eq!(names[0].as_deref(), Ok("\\x1b[2J"));
    let endless = names[1].as_ref().unwrap();
    assert!(endless.starts_with("endlessxxx") && endless.ends_with("..."));
    assert!(endless.len() <= label::MAX_LABEL_BYTES);
}

#[test]
fn truncated_file_is_refused_or_read() {
    let bytes = bytes_of(&Table::default());
    let whole = names_in(&file_with(&bytes), &[0x1000]).unwrap();

    for length in 0..bytes.len() {
        // Without the last 0 the name still ends with the string table.
        if let Ok(names) = names_in(&file_with(&bytes[..length]), &[0x1000]) {
            assert!(names[0].is_err() || names == whole, "{length} bytes");
        }
    }
}

proptest::proptest! {
    /// Checks that any content of the headers gives a result.
    #[test]
    fn damaged_headers_give_a_result(
        changes in proptest::collection::vec((0_usize..312, proptest::num::u8::ANY), 1..8),
        extreme in proptest::option::of(0_usize..38),
    ) {
        let mut bytes = bytes_of(&Table::default());
        for (offset, value) in changes {
            // Keeps the magic number of the ELF file.
            if offset >= 6 {
                bytes[offset] = value;
            }
        }
        if let Some(word) = extreme {
            bytes[8 + word * 8..][..8].fill(0xff);
        }
        let file = file_with(&bytes);

        if let Ok(names) = names_in(&file, &[0, 0x1000, u64::MAX]) {
            assert_eq!(names.len(), 3);
        }
    }
}
