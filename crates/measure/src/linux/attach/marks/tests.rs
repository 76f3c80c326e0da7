//! Tests with rings of this process, of children and of hostile programs.

use std::fs::{self, File, OpenOptions};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::FileExt as _;

use laggard_marks::{Marks, layout};
use laggard_model::{MarkKind, Tid};
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::unistd::ftruncate;

use super::*;

/// Serializes the tests, because rings of this process are found by name.
static ONE: std::sync::Mutex<()> = std::sync::Mutex::new(());

fn own() -> BTreeSet<u32> {
    [std::process::id()].into()
}

fn this_thread() -> u32 {
    nix::unistd::gettid().as_raw().cast_unsigned()
}

fn read(reader: &mut MarkReader, second: u64) -> Vec<ThreadMark> {
    let mut marks = Vec::new();
    reader.read(&own(), Nanos::from_secs(second), &mut marks);
    marks
}

#[test]
fn marks_are_read_in_order_and_overwritten_ones_are_counted() {
    let _one = ONE.lock();
    let marks = Marks::open().unwrap();
    let mut reader = MarkReader::default();
    marks.begin(1);
    assert_eq!(read(&mut reader, 0), [], "nobody listened");

    marks.begin(2);
    marks.end(2);
    let marks_read = read(&mut reader, 20);
    let kinds: Vec<_> = marks_read
        .iter()
        .map(|mark| (mark.kind, mark.number))
        .collect();
    assert_eq!(kinds, [(MarkKind::Begin, 2), (MarkKind::End, 2)]);
    assert!(marks_read[0].at <= marks_read[1].at);
    assert!(
        marks_read
            .iter()
            .all(|mark| mark.thread == Tid(this_thread()))
    );
    assert_eq!((reader.lost, reader.refused), (0, 0));

    let slots = u64::from(layout::SLOTS);
    (0..slots + 5).for_each(|number| marks.begin(number));
    let marks_read = read(&mut reader, 40);
    assert_eq!(marks_read.len() as u64, slots);
    assert_eq!((marks_read[0].number, reader.lost), (5, 5));

    reader.end();
    marks.begin(9);
    let mut next = MarkReader::default();
    let _ = read(&mut next, 60);
    assert_eq!(read(&mut next, 80), [], "it was not heard");
}

/// A program that forks has its parent's ring and its own.
#[test]
fn a_ring_that_several_have_is_read_once_and_a_mark_is_its_thread_s() {
    let _one = ONE.lock();
    let name = std::ffi::CString::new(layout::NAME).unwrap();
    let ring = || File::from(memfd_create(name.as_c_str(), MFdFlags::empty()).unwrap());
    let (first, second) = (ring(), ring());
    prepared(&first, 64);
    prepared(&second, 64);
    let mut child = std::process::Command::new("sleep")
        .arg("60")
        .spawn()
        .unwrap();
    let both: BTreeSet<u32> = [std::process::id(), child.id()].into();
    let mut reader = MarkReader::default();
    let mut marks = Vec::new();
    reader.read(&both, Nanos::ZERO, &mut marks);

    // Marks of the child, of this thread, and of a thread that has neither ring.
    put(&first, 0, child.id());
    put(&first, 1, this_thread());
    put(&first, 2, 1);
    put(&second, 0, this_thread());
    reader.read(&both, Nanos::from_ms(50), &mut marks);
    child.kill().unwrap();
    child.wait().unwrap();

    let mut whose: Vec<_> = marks
        .iter()
        .map(|mark| (mark.process, mark.thread))
        .collect();
    let this = (Some(std::process::id()), Tid(this_thread()));
    let its = (Some(child.id()), Tid(child.id()));
    let mut expected = vec![its, this, this];
    whose.sort_unstable();
    expected.sort_unstable();
    assert_eq!(whose, expected);
    assert_eq!((reader.lost, reader.refused), (1, 0));
    // The thread has ended. Two processes had the ring, so the owner of the mark is unknown.
    put(&first, 3, child.id());
    marks.clear();
    reader.read(&own(), Nanos::from_secs(20), &mut marks);
    let whose: Vec<_> = marks
        .iter()
        .map(|mark| (mark.process, mark.thread))
        .collect();
    assert_eq!(whose, [(None, Tid(child.id()))]);
}

/// Creates a ring with `slots`, like a program does.
fn prepared(file: &File, slots: u32) {
    file.set_len(layout::bytes(slots) as u64).unwrap();
    file.write_all_at(&layout::MAGIC, 0).unwrap();
    for (offset, word) in [
        (layout::VERSION_AT, layout::VERSION),
        (layout::SLOTS_AT, slots),
    ] {
        file.write_all_at(&word.to_ne_bytes(), offset as u64)
            .unwrap();
    }
}

/// Writes the start of a cycle by `thread`.
fn put(file: &File, nth: u64, thread: u32) {
    let mut mark = [0; layout::MARK_BYTES];
    mark[..8].copy_from_slice(&(nth + 1).to_ne_bytes());
    mark[24..28].copy_from_slice(&thread.to_ne_bytes());
    mark[28..].copy_from_slice(&layout::BEGIN.to_ne_bytes());
    let offset = layout::RING_AT as u64 + nth * layout::MARK_BYTES as u64;
    file.write_all_at(&mark, offset).unwrap();
    count(file, nth + 1);
}

#[test]
fn an_invalid_ring_is_refused_and_a_truncated_one_ends() {
    let _one = ONE.lock();
    let name = std::ffi::CString::new(layout::NAME).unwrap();
    let garbage = memfd_create(name.as_c_str(), MFdFlags::MFD_CLOEXEC).unwrap();
    ftruncate(&garbage, 4_096).unwrap();
    let file = File::from(garbage);
    file.write_all_at(&layout::MAGIC, 0).unwrap();
    file.write_all_at(&u32::MAX.to_ne_bytes(), layout::SLOTS_AT as u64)
        .unwrap();
    let mut reader = MarkReader::default();
    assert_eq!(read(&mut reader, 0), []);
    assert_eq!(reader.refused, 1);
    drop(file);

    let marks = Marks::open().unwrap();
    let mut reader = MarkReader::default();
    let _ = read(&mut reader, 0);
    marks.begin(1);
    let fds = fs::read_dir("/proc/self/fd").unwrap().flatten();
    let ring = fds
        .map(|entry| entry.path())
        .find(|path| {
            let target = fs::read_link(path).unwrap_or_default();
            target.to_string_lossy().contains(layout::NAME)
        })
        .unwrap();
    let file = OpenOptions::new().write(true).open(ring).unwrap();
    assert!(file.as_raw_fd() > 0);
    // The file ends after the header, so no marks are left.
    file.set_len(layout::RING_AT as u64).unwrap();
    assert_eq!(read(&mut reader, 1), []);
    assert_eq!(reader.lost, 1);
    // Lets `drop` access valid memory.
    file.set_len(layout::bytes(layout::SLOTS) as u64).unwrap();
}

/// Sets the counter of a hostile program's ring to `next`.
fn count(file: &File, next: u64) {
    file.write_all_at(&next.to_ne_bytes(), layout::NEXT_AT as u64)
        .unwrap();
}

#[test]
fn a_ring_that_says_anything_of_its_count_is_read_and_counted_on() {
    let _one = ONE.lock();
    let name = std::ffi::CString::new(layout::NAME).unwrap();
    let file = File::from(memfd_create(name.as_c_str(), MFdFlags::MFD_CLOEXEC).unwrap());
    prepared(&file, 8);
    let mut reader = MarkReader::default();
    assert_eq!(read(&mut reader, 0), []);

    count(&file, u64::MAX);
    assert_eq!(read(&mut reader, 1), []);
    let lost = reader.lost;
    count(&file, 4);
    assert_eq!(read(&mut reader, 2), []);
    count(&file, u64::MAX);
    assert_eq!(read(&mut reader, 3), []);

    assert!(lost > u64::MAX / 2, "{lost}");
    assert_eq!(reader.lost, u64::MAX);
    let mut mark = [0; layout::MARK_BYTES];
    mark[..8].copy_from_slice(&6_u64.to_ne_bytes());
    mark[24..28].copy_from_slice(&this_thread().to_ne_bytes());
    mark[28..].copy_from_slice(&layout::BEGIN.to_ne_bytes());
    count(&file, 5);
    assert_eq!(read(&mut reader, 4), []);
    let offset = layout::RING_AT + 5 * layout::MARK_BYTES;
    file.write_all_at(&mark, offset as u64).unwrap();
    count(&file, 6);
    assert_eq!(read(&mut reader, 5).len(), 1, "it is read again");
}
