//! Mapping of a process that contains an address.
//!
//! Linux 6.11 or later reports the mapping of one address (`PROCMAP_QUERY`). Older kernels write
//! the whole list in pieces of 4 KiB. While a kernel without preemption writes a piece, the CPU
//! runs nothing else.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, BufReader, Read as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::ffi::OsStringExt as _;

use nix::errno::Errno;

/// Maximum length in bytes of the list of mappings. The kernel's default limit of 65,530 mappings
/// takes 8 MB with paths of the usual length; a process can make its paths 4 KiB long.
const MAX_LIST_BYTES: u64 = 32 << 20;
/// Maximum length of a path that the kernel writes.
const PATH_MAX: usize = 4096;
/// `_IOWR('f', 17, struct procmap_query)` of the kernel's `include/uapi/linux/fs.h`.
const PROCMAP_QUERY: libc::c_ulong = 0xc068_6611;

/// Device and inode of a mapping's file, as in the kernel's list. On btrfs and overlayfs they can
/// differ from the output of `stat`.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct MappedInode {
    pub(super) major: u32,
    pub(super) minor: u32,
    pub(super) inode: u64,
}

/// Range of addresses of a process.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Mapping {
    pub(super) start: u64,
    pub(super) end: u64,
    /// Offset of `start` in the file, bytes.
    pub(super) offset: u64,
    /// File of the mapping; `None` for memory without a file.
    pub(super) file: Option<MappedInode>,
    /// Path of the file or a name such as `[vdso]`; may be empty.
    pub(super) name: OsString,
}

impl Mapping {
    const fn contains(&self, address: u64) -> bool {
        self.start <= address && address < self.end
    }
}

/// Finds the mappings that contain `addresses`, which are in ascending order, and returns each
/// with its addresses. An address outside of all mappings is omitted.
///
/// `maps` is `/proc/PID/maps`, just opened.
pub(super) fn find(maps: &File, addresses: &[u64]) -> io::Result<Vec<(Mapping, Vec<u64>)>> {
    match query_each(maps, addresses) {
        // Reply of older kernels to an unknown request.
        Err(err) if err.raw_os_error() == Some(libc::ENOTTY) => {
            search(BufReader::new(maps.take(MAX_LIST_BYTES)), addresses)
        }
        answer => answer,
    }
}

fn query_each(maps: &File, addresses: &[u64]) -> io::Result<Vec<(Mapping, Vec<u64>)>> {
    let mut mappings: Vec<(Mapping, Vec<u64>)> = Vec::new();
    for &address in addresses {
        match mappings.last_mut() {
            Some((mapping, inside)) if mapping.contains(address) => inside.push(address),
            _ => {
                if let Some(mapping) = query(maps, address)? {
                    mappings.push((mapping, vec![address]));
                }
            }
        }
    }
    Ok(mappings)
}

/// `struct procmap_query`.
#[repr(C)]
#[derive(Default)]
struct Query {
    bytes: u64,
    flags: u64,
    address: u64,
    start: u64,
    end: u64,
    vma_flags: u64,
    page_bytes: u64,
    offset: u64,
    inode: u64,
    major: u32,
    minor: u32,
    name_bytes: u32,
    build_id_bytes: u32,
    name_address: u64,
    build_id_address: u64,
}

const _: () = assert!(size_of::<Query>() == 104, "matches struct procmap_query");

fn query(maps: &File, address: u64) -> io::Result<Option<Mapping>> {
    let mut name = vec![0_u8; PATH_MAX];
    match query_with(maps, address, &mut name) {
        // The path is longer than the kernel writes it. The file is known without it.
        Err(Errno::ENAMETOOLONG) => Ok(query_with(maps, address, &mut [])?),
        answer => Ok(answer?),
    }
}

fn query_with(maps: &File, address: u64, name: &mut [u8]) -> Result<Option<Mapping>, Errno> {
    let mut query = Query {
        bytes: size_of::<Query>() as u64,
        address,
        name_bytes: u32::try_from(name.len()).unwrap_or(0),
        name_address: if name.is_empty() {
            0
        } else {
            name.as_mut_ptr().expose_provenance() as u64
        },
        ..Query::default()
    };
    // SAFETY: the request takes a valid `struct procmap_query` and writes at most `name_bytes`
    // bytes to `name`, which is valid for them.
    let failed = unsafe {
        libc::ioctl(
            maps.as_raw_fd(),
            PROCMAP_QUERY as libc::Ioctl,
            &raw mut query,
        )
    };
    match Errno::result(failed) {
        Ok(_) => {}
        Err(Errno::ENOENT) => return Ok(None),
        Err(err) => return Err(err),
    }
    // The length includes the 0 at the end.
    let written = (query.name_bytes as usize).min(name.len());
    let text = &name[..written];
    let text = text.strip_suffix(b"\0").unwrap_or(text);
    Ok(Some(Mapping {
        start: query.start,
        end: query.end,
        offset: query.offset,
        file: mapped_inode(query.major, query.minor, query.inode),
        name: OsString::from_vec(text.to_vec()),
    }))
}

fn mapped_inode(major: u32, minor: u32, inode: u64) -> Option<MappedInode> {
    (inode != 0).then_some(MappedInode {
        major,
        minor,
        inode,
    })
}

/// Searches the list of all mappings, which is in ascending order.
fn search(mut list: impl io::BufRead, addresses: &[u64]) -> io::Result<Vec<(Mapping, Vec<u64>)>> {
    let mut mappings = Vec::new();
    let mut rest = addresses;
    let mut line = Vec::new();
    while !rest.is_empty() {
        line.clear();
        if list.read_until(b'\n', &mut line)? == 0 {
            break;
        }
        let Some(mapping) = line.strip_suffix(b"\n").and_then(parse) else {
            // The limit cut the line.
            return Err(io::Error::other(format!(
                "its list of mappings is longer than {MAX_LIST_BYTES} bytes"
            )));
        };
        let before = rest.partition_point(|&address| address < mapping.start);
        let end = rest.partition_point(|&address| address < mapping.end);
        let inside = &rest[before..end];
        rest = &rest[end..];
        if !inside.is_empty() {
            mappings.push((mapping, inside.to_vec()));
        }
    }
    Ok(mappings)
}

/// Parses a line such as `7f10-7f20 r-xp 00001000 fd:01 1234     /usr/lib/libc.so.6`.
fn parse(line: &[u8]) -> Option<Mapping> {
    let mut rest = line;
    let mut word = || -> Option<&str> {
        let from = rest.iter().position(|&byte| byte != b' ')?;
        let word = &rest[from..];
        let end = word.iter().position(|&byte| byte == b' ');
        let end = end.unwrap_or(word.len());
        rest = &word[end..];
        std::str::from_utf8(&word[..end]).ok()
    };
    let hexadecimal = |text| u64::from_str_radix(text, 16).ok();
    let (start, end) = word()?.split_once('-')?;
    let (_rights, offset) = (word()?, word()?);
    let (major, minor) = word()?.split_once(':')?;
    let inode = word()?.parse().ok()?;
    let name = rest.trim_ascii_start();
    Some(Mapping {
        start: hexadecimal(start)?,
        end: hexadecimal(end)?,
        offset: hexadecimal(offset)?,
        file: mapped_inode(
            u32::from_str_radix(major, 16).ok()?,
            u32::from_str_radix(minor, 16).ok()?,
            inode,
        ),
        name: OsString::from_vec(without_escapes(name)),
    })
}

/// Replaces `\012`, which the kernel writes for a newline in a path.
fn without_escapes(name: &[u8]) -> Vec<u8> {
    const NEW_LINE: &[u8] = b"\\012";
    let mut path = Vec::with_capacity(name.len());
    let mut rest = name;
    while let Some((&first, others)) = rest.split_first() {
        match rest.strip_prefix(NEW_LINE) {
            Some(behind) => {
                path.push(b'\n');
                rest = behind;
            }
            None => {
                path.push(first);
                rest = others;
            }
        }
    }
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn list_of_mappings_gives_file_offset_and_name_of_each_address() {
        let list = b"1000-3000 r-xp 00000400 fd:01 77                 /opt/a b\\012c (deleted)\n\
                     4000-5000 rw-p 00000000 00:00 0\n\
                     6000-7000 r-xp 00000000 00:00 0                          [vdso]\n";

        let mappings = search(&list[..], &[0x500, 0x1000, 0x2fff, 0x3000, 0x4001, 0x6fff]).unwrap();

        let file = Some(MappedInode {
            major: 0xfd,
            minor: 1,
            inode: 77,
        });
        let shown: Vec<_> = mappings
            .iter()
            .map(|(mapping, inside)| (mapping.file, mapping.name.to_str().unwrap(), &inside[..]))
            .collect();
        assert_eq!(
            shown,
            [
                (file, "/opt/a b\nc (deleted)", &[0x1000, 0x2fff][..]),
                (None, "", &[0x4001]),
                (None, "[vdso]", &[0x6fff]),
            ]
        );
        assert_eq!(mappings[0].0.offset, 0x400);
    }

    #[test]
    fn truncated_list_is_an_error() {
        let error = search(&b"1000-3000 r-xp 0000"[..], &[0x9000]).unwrap_err();

        assert!(error.to_string().contains("longer than"), "{error}");
    }

    #[test]
    fn kernel_and_list_give_the_same_mappings() {
        let maps = || File::open("/proc/self/maps").unwrap();
        let stack = 0_u8;
        let mut addresses = [
            libc::getpid as *const () as u64,
            find as *const () as u64,
            (&raw const stack).expose_provenance() as u64,
            8,
        ];
        addresses.sort_unstable();

        let listed = search(BufReader::new(maps()), &addresses).unwrap();
        match query_each(&maps(), &addresses) {
            Ok(queried) => assert_eq!(queried, listed),
            Err(err) => println!("skipped: this kernel only lists all mappings ({err})"),
        }

        let count: usize = listed.iter().map(|(_, inside)| inside.len()).sum();
        assert_eq!(count, 3);
    }
}
