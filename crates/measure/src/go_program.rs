//! Recognition of Go programs by the note that their linker writes.
//!
//! The kernel has loaded the note into the memory of the process, and it is read there. No file of
//! another user is opened.

use std::fs::File;
use std::io::{IoSliceMut, Read as _};

use nix::sys::uio::{RemoteIoVec, process_vm_readv};
use nix::unistd::Pid;

/// Keys of the auxiliary vector: include/uapi/linux/auxvec.h.
const AT_PHDR: u64 = 3;
const AT_PHNUM: u64 = 5;
/// Maximum length of the auxiliary vector.
const MAX_AUXV: u64 = 4_096;
/// Program header of a 64-bit program: elf(5).
const HEADER_BYTES: usize = 56;
const MAX_HEADERS: u64 = 64;
const PT_NOTE: u32 = 4;
const PT_PHDR: u32 = 6;
/// Maximum length of the notes.
const MAX_NOTE: u64 = 4_096;
/// Type and name of the note with the build ID of Go (cmd/internal/buildid).
const GO_NOTE: &[u8] = b"\x04\0\0\0Go\0\0";

#[derive(Clone, Copy, Debug)]
struct ProgramHeader {
    kind: u32,
    address: u64,
    length: u64,
}

/// Returns true if a process runs a 64-bit program that Go has linked.
pub(crate) fn is_go_program(process: u32) -> bool {
    notes(process).is_some_and(|notes| has_go_note(&notes))
}

/// Reads the notes of the program of a process. `None` if there are not any or they are not
/// readable.
fn notes(process: u32) -> Option<Vec<u8>> {
    let mut vector = Vec::new();
    let file = File::open(format!("/proc/{process}/auxv")).ok()?;
    file.take(MAX_AUXV).read_to_end(&mut vector).ok()?;
    let table = auxiliary(&vector, AT_PHDR)?;
    let count = auxiliary(&vector, AT_PHNUM)?.min(MAX_HEADERS);
    let length = usize::try_from(count).ok()? * HEADER_BYTES;
    let headers = program_headers(&read(process, table, length)?);
    let start = headers.iter().find(|header| header.kind == PT_PHDR);
    // A program at a fixed address may lack the header of the table.
    let base = start.map_or(0, |header| table.wrapping_sub(header.address));
    let notes = headers.iter().filter(|header| header.kind == PT_NOTE);
    let mut bytes = Vec::new();
    for note in notes {
        let length = usize::try_from(note.length.min(MAX_NOTE)).ok()?;
        bytes.extend(read(process, base.wrapping_add(note.address), length)?);
    }
    Some(bytes)
}

/// Returns a value of the auxiliary vector, which consists of pairs of 64-bit words.
fn auxiliary(vector: &[u8], key: u64) -> Option<u64> {
    let (pairs, _) = vector.as_chunks::<16>();
    let word = |bytes: &[u8]| bytes.try_into().map(u64::from_ne_bytes).ok();
    let pair = pairs.iter().find(|pair| word(&pair[..8]) == Some(key))?;
    word(&pair[8..])
}

fn program_headers(table: &[u8]) -> Vec<ProgramHeader> {
    let (headers, _) = table.as_chunks::<HEADER_BYTES>();
    let word = |header: &[u8; HEADER_BYTES], offset: usize| {
        header[offset..offset + 8]
            .try_into()
            .map_or(0, u64::from_ne_bytes)
    };
    let headers = headers.iter().map(|header| ProgramHeader {
        kind: header[..4].try_into().map_or(0, u32::from_ne_bytes),
        address: word(header, 16),
        length: word(header, 40),
    });
    headers.collect()
}

fn has_go_note(notes: &[u8]) -> bool {
    notes.windows(GO_NOTE.len()).any(|bytes| bytes == GO_NOTE)
}

fn read(process: u32, address: u64, length: usize) -> Option<Vec<u8>> {
    let mut bytes = vec![0; length];
    let remote = RemoteIoVec {
        base: usize::try_from(address).ok()?,
        len: length,
    };
    let process = Pid::from_raw(process.cast_signed());
    let count = process_vm_readv(process, &mut [IoSliceMut::new(&mut bytes)], &[remote]).ok()?;
    bytes.truncate(count);
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn program_with_a_note_of_go_is_a_go_program() {
        let note = b"\x04\0\0\0\x08\0\0\0\x04\0\0\0Go\0\0abcdefgh";
        let other = b"\x04\0\0\0\x08\0\0\0\x03\0\0\0GNU\0Go\0\0efgh";

        assert!(has_go_note(note));
        assert!(!has_go_note(other));
    }

    #[test]
    fn notes_of_a_running_program_are_read() {
        let own = notes(std::process::id());

        // The linker may be configured not to write a note.
        match own {
            Some(notes) if !notes.is_empty() => {
                assert!(notes.windows(4).any(|name| name == b"GNU\0"));
                assert!(!has_go_note(&notes));
            }
            Some(_) | None => println!("skipped: this program has no notes"),
        }
        assert!(notes(u32::MAX >> 1).is_none());
    }
}
