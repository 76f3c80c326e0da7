//! Messages between laggard and the process that reads symbols.
//!
//! laggard sends files, then one request; the reader replies with [`ReaderMessage`]s. Both sides
//! check every message: the reader has parsed hostile files, and any user can start a reader.

use std::fs::File;
use std::io::{self, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::ptr;

use super::super::label::MAX_LABEL_BYTES;
use super::super::mappings::MappedInode;
use crate::linux::file_state::FileState;

/// Maximum number of files in a request.
pub(crate) const MAX_FILES: usize = 256;
/// Maximum number of offsets in a request, in all files together.
pub(crate) const MAX_OFFSETS: usize = 200_000;

/// Byte that accompanies each file, and the byte after the last file.
const FILE: u8 = b'F';
const NO_MORE_FILES: u8 = b'.';

/// File whose symbols are requested.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct FileRequest {
    pub(super) mapped: MappedInode,
    pub(super) state: FileState,
    /// Offsets in the file in bytes.
    pub(super) offsets: Vec<u64>,
}

/// Part of a reply. Numbers are indices into the request.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) enum ReaderMessage {
    /// The reader starts to open or read this file.
    Start(usize),
    /// Reason why the file cannot be read.
    Refused(usize, String),
    /// Function at an offset of the file, or the reason why its name is unknown.
    Function(usize, usize, Result<String, String>),
    /// End of the reply for this file.
    End(usize),
}

pub(super) fn send_file(stream: &UnixStream, file: BorrowedFd<'_>) -> io::Result<()> {
    let mut byte = [FILE];
    let mut part = libc::iovec {
        iov_base: byte.as_mut_ptr().cast(),
        iov_len: byte.len(),
    };
    let mut control = Control([0; 64]);
    let mut message = message(&mut part, &mut control);
    // SAFETY: the buffer is aligned and has room for the header and one descriptor.
    unsafe {
        let header = libc::CMSG_FIRSTHDR(&raw const message);
        (*header).cmsg_level = libc::SOL_SOCKET;
        (*header).cmsg_type = libc::SCM_RIGHTS;
        (*header).cmsg_len = libc::CMSG_LEN(DESCRIPTOR_BYTES) as _;
        ptr::write_unaligned(libc::CMSG_DATA(header).cast(), file.as_raw_fd());
    }
    message.msg_controllen = control_bytes() as _;
    // SAFETY: the message and the memory that it points to are valid.
    let sent = unsafe { libc::sendmsg(stream.as_raw_fd(), &raw const message, libc::MSG_NOSIGNAL) };
    match sent {
        1 => Ok(()),
        -1 => Err(io::Error::last_os_error()),
        _ => Err(io::ErrorKind::WriteZero.into()),
    }
}

/// Marks the end of the files.
pub(super) fn send_no_more_files(mut stream: &UnixStream) -> io::Result<()> {
    stream.write_all(&[NO_MORE_FILES])
}

pub(super) fn receive_files(stream: &UnixStream) -> io::Result<Vec<OwnedFd>> {
    let mut files = Vec::new();
    loop {
        match receive_file(stream)? {
            (FILE, Some(file)) if files.len() < MAX_FILES => files.push(file),
            (NO_MORE_FILES, None) => return Ok(files),
            _ => return Err(damaged()),
        }
    }
}

fn receive_file(stream: &UnixStream) -> io::Result<(u8, Option<OwnedFd>)> {
    let mut byte = [0];
    let mut part = libc::iovec {
        iov_base: byte.as_mut_ptr().cast(),
        iov_len: byte.len(),
    };
    let mut control = Control([0; 64]);
    let mut message = message(&mut part, &mut control);
    message.msg_controllen = control_bytes() as _;
    // SAFETY: the message and the memory that it points to are valid.
    let received =
        unsafe { libc::recvmsg(stream.as_raw_fd(), &raw mut message, libc::MSG_CMSG_CLOEXEC) };
    match received {
        1 => {}
        -1 => return Err(io::Error::last_os_error()),
        _ => return Err(io::ErrorKind::UnexpectedEof.into()),
    }
    // SAFETY: the kernel has filled in the message.
    let file = unsafe {
        let header = libc::CMSG_FIRSTHDR(&raw const message);
        let is_file = !header.is_null()
            && (*header).cmsg_level == libc::SOL_SOCKET
            && (*header).cmsg_type == libc::SCM_RIGHTS;
        is_file.then(|| OwnedFd::from_raw_fd(ptr::read_unaligned(libc::CMSG_DATA(header).cast())))
    };
    // The kernel has closed descriptors that did not fit.
    match message.msg_flags & libc::MSG_CTRUNC {
        0 => Ok((byte[0], file)),
        _ => Err(damaged()),
    }
}

const DESCRIPTOR_BYTES: u32 = 4;

/// Buffer for one descriptor, aligned as its header requires.
#[repr(C, align(8))]
struct Control([u8; 64]);

fn control_bytes() -> usize {
    // SAFETY: this computes a length.
    let bytes = unsafe { libc::CMSG_SPACE(DESCRIPTOR_BYTES) } as usize;
    assert!(bytes <= size_of::<Control>(), "room for one descriptor");
    bytes
}

fn message(part: &mut libc::iovec, control: &mut Control) -> libc::msghdr {
    // SAFETY: zeros are a valid message without parts.
    let mut message: libc::msghdr = unsafe { MaybeUninit::zeroed().assume_init() };
    message.msg_iov = part;
    message.msg_iovlen = 1;
    message.msg_control = control.0.as_mut_ptr().cast();
    message.msg_controllen = control_bytes() as _;
    message
}

/// Sends the request for the files that were sent before.
pub(super) fn send_request(mut out: impl Write, files: &[FileRequest]) -> io::Result<()> {
    let mut words = vec![files.len() as u64];
    for file in files {
        let FileRequest {
            mapped,
            state,
            offsets,
        } = file;
        words.extend([u64::from(mapped.major), mapped.minor.into(), mapped.inode]);
        let (major, minor) = state.device;
        words.extend([u64::from(major), minor.into(), state.inode, state.bytes]);
        words.push(state.modified.0.cast_unsigned());
        words.extend([u64::from(state.modified.1), offsets.len() as u64]);
        words.extend(offsets);
    }
    let bytes: Vec<u8> = words.into_iter().flat_map(u64::to_le_bytes).collect();
    out.write_all(&bytes)
}

pub(super) fn receive_request(mut from: impl Read) -> io::Result<Vec<FileRequest>> {
    let mut word = || -> io::Result<u64> {
        let mut bytes = [0; 8];
        from.read_exact(&mut bytes)?;
        Ok(u64::from_le_bytes(bytes))
    };
    let small = |word: u64| u32::try_from(word).map_err(|_| damaged());
    let count = |word: u64, most| match usize::try_from(word) {
        Ok(count) if count <= most => Ok(count),
        _ => Err(damaged()),
    };
    let files = count(word()?, MAX_FILES)?;
    let mut room = MAX_OFFSETS;
    let mut requests = Vec::new();
    for _ in 0..files {
        let mapped = MappedInode {
            major: small(word()?)?,
            minor: small(word()?)?,
            inode: word()?,
        };
        let state = FileState {
            device: (small(word()?)?, small(word()?)?),
            inode: word()?,
            is_regular: true,
            bytes: word()?,
            modified: (word()?.cast_signed(), small(word()?)?),
        };
        let offsets = count(word()?, room)?;
        room -= offsets;
        let offsets = (0..offsets).map(|_| word()).collect::<io::Result<_>>()?;
        requests.push(FileRequest {
            mapped,
            state,
            offsets,
        });
    }
    Ok(requests)
}

/// Bytes before the text of a message: kind, file, offset, length of the text.
const HEADER_BYTES: usize = 1 + 4 + 4 + 2;

impl ReaderMessage {
    pub(super) fn send(&self, mut out: impl Write) -> io::Result<()> {
        let (kind, file, offset, text) = match self {
            Self::Start(file) => (0, *file, 0, ""),
            Self::Refused(file, reason) => (1, *file, 0, reason.as_str()),
            Self::Function(file, offset, Ok(name)) => (2, *file, *offset, name.as_str()),
            Self::Function(file, offset, Err(reason)) => (3, *file, *offset, reason.as_str()),
            Self::End(file) => (4, *file, 0, ""),
        };
        let small = |number| u32::try_from(number).map_err(|_| damaged());
        let length = u16::try_from(text.len()).map_err(|_| damaged())?;
        let mut bytes = vec![kind];
        bytes.extend(small(file)?.to_le_bytes());
        bytes.extend(small(offset)?.to_le_bytes());
        bytes.extend(length.to_le_bytes());
        bytes.extend(text.as_bytes());
        out.write_all(&bytes)
    }

    /// Takes a message from the front of the received bytes. Returns `None` if it is incomplete.
    ///
    /// # Errors
    ///
    /// Returns an error if the bytes are not a message.
    pub(super) fn take(received: &mut Vec<u8>) -> io::Result<Option<Self>> {
        let Some(header) = received.first_chunk::<HEADER_BYTES>() else {
            return Ok(None);
        };
        let &[kind, a, b, c, d, e, f, g, h, i, j] = header;
        let number = |bytes| u32::from_le_bytes(bytes) as usize;
        let (file, offset) = (number([a, b, c, d]), number([e, f, g, h]));
        let length = usize::from(u16::from_le_bytes([i, j]));
        if length > MAX_LABEL_BYTES {
            return Err(damaged());
        }
        if received.len() < HEADER_BYTES + length {
            return Ok(None);
        }
        let message: Vec<u8> = received.drain(..HEADER_BYTES + length).collect();
        let text = std::str::from_utf8(&message[HEADER_BYTES..]).map_err(|_| damaged())?;
        Ok(Some(match (kind, text) {
            (0, "") => Self::Start(file),
            (1, reason) => Self::Refused(file, reason.into()),
            (2, name) => Self::Function(file, offset, Ok(name.into())),
            (3, reason) => Self::Function(file, offset, Err(reason.into())),
            (4, "") => Self::End(file),
            _ => return Err(damaged()),
        }))
    }
}

fn damaged() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "a message is damaged")
}

/// Converts a descriptor to a file.
pub(super) fn to_file(descriptor: OwnedFd) -> File {
    File::from(descriptor)
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd as _;

    use super::*;

    #[test]
    fn files_and_request_arrive_unchanged() {
        let (sender, receiver) = UnixStream::pair().unwrap();
        let null = File::open("/dev/null").unwrap();
        let request = FileRequest {
            mapped: MappedInode {
                major: 8,
                minor: 1,
                inode: 77,
            },
            state: FileState {
                device: (8, 2),
                inode: 78,
                is_regular: true,
                bytes: 4096,
                modified: (-1, 5),
            },
            offsets: vec![1, u64::MAX],
        };

        for _ in 0..2 {
            send_file(&sender, null.as_fd()).unwrap();
        }
        send_no_more_files(&sender).unwrap();
        send_request(&sender, std::slice::from_ref(&request)).unwrap();

        let files = receive_files(&receiver).unwrap();
        assert_eq!(files.len(), 2);
        for file in files {
            let state = crate::linux::file_state::file_state(&file).unwrap();
            assert_eq!(state, crate::linux::file_state::file_state(&null).unwrap());
        }
        assert_eq!(receive_request(&receiver).unwrap(), [request]);
    }

    #[test]
    fn messages_arrive_in_pieces_and_damage_is_an_error() {
        let answers = [
            ReaderMessage::Start(3),
            ReaderMessage::Function(3, 70_000, Ok("main".into())),
            ReaderMessage::Function(3, 0, Err("no function".into())),
            ReaderMessage::Refused(4, String::new()),
            ReaderMessage::End(3),
        ];
        let mut bytes = Vec::new();
        for answer in &answers {
            answer.send(&mut bytes).unwrap();
        }

        let (mut received, mut taken) = (Vec::new(), Vec::new());
        for byte in &bytes {
            received.push(*byte);
            taken.extend(ReaderMessage::take(&mut received).unwrap());
        }

        assert_eq!(taken, answers);
        let long = [[2, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff]].concat();
        let unknown = [[9, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]].concat();
        let no_text = [&[2, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0][..], &[0xff]].concat();
        for mut damaged in [long, unknown, no_text] {
            assert!(ReaderMessage::take(&mut damaged).is_err());
        }
    }

    #[test]
    fn request_beyond_its_limits_is_refused() {
        let words = |words: &[u64]| -> Vec<u8> {
            words.iter().flat_map(|word| word.to_le_bytes()).collect()
        };
        let mut offsets = vec![1, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        offsets.push(MAX_OFFSETS as u64 + 1);

        for request in [words(&[MAX_FILES as u64 + 1]), words(&offsets)] {
            let error = receive_request(&request[..]).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidData);
        }
    }
}
