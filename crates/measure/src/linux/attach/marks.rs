//! Marks that programs make of their cycles, read from outside.
//!
//! What lies in such a file is whatever the program wrote: it is copied, not mapped, so
//! that one that is cut short under our hands is an error of reading.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::{FileExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use laggard_marks::layout;
use laggard_model::{MarkKind, Nanos, ThreadMark, Tid};

/// Rings that are read at a time; more are counted.
const MOST_RINGS: usize = 256;
/// A process is looked at again after a quarter of the time for which it is known, but
/// not before this,
const SHORTEST_WAIT: Nanos = Nanos::from_ms(100);
/// and after this.
const LONGEST_WAIT: Nanos = Nanos::from_secs(10);
/// A ring has no more marks than that.
const MOST_SLOTS: u32 = 1 << 20;

/// Reads the marks of processes.
#[derive(Debug, Default)]
pub struct MarkReader {
    processes: BTreeMap<u32, MarkedProcess>,
    /// Marks that were overwritten before they were read, or are none.
    pub lost: u64,
    /// Processes whose marks are not read: there are too many, or they refuse it.
    pub refused: u64,
}

#[derive(Debug)]
struct MarkedProcess {
    ring: Option<MarkRing>,
    known_since: Nanos,
    look_at: Nanos,
}

#[derive(Debug)]
struct MarkRing {
    file: File,
    path: PathBuf,
    /// Which file it is: its device and its number there.
    identity: (u64, u64),
    slots: u32,
    read: u64,
    /// Threads by the numbers that they have in their own namespace; `None`: they have
    /// no other.
    threads: Option<BTreeMap<u32, u32>>,
}

impl MarkReader {
    /// Appends what `processes` marked since the last call; the others are forgotten.
    pub fn read(&mut self, processes: &BTreeSet<u32>, now: Nanos, into: &mut Vec<ThreadMark>) {
        let gone: Vec<u32> = self.processes.keys().copied().collect();
        for process in gone.into_iter().filter(|one| !processes.contains(one)) {
            // What it marked last.
            if let Some(MarkedProcess {
                ring: Some(mut ring),
                ..
            }) = self.processes.remove(&process)
            {
                self.lose(ring.read(process, into));
            }
        }
        let mut rings = self
            .processes
            .values()
            .filter(|one| one.ring.is_some())
            .count();
        for &process in processes {
            let one = self.processes.entry(process).or_insert(MarkedProcess {
                ring: None,
                known_since: now,
                look_at: now,
            });
            if one.look_at <= now {
                let quarter = now.saturating_sub(one.known_since).ns() / 4;
                one.look_at = now + Nanos::from_ns(quarter).clamp(SHORTEST_WAIT, LONGEST_WAIT);
                if one.ring.as_ref().is_some_and(|ring| !ring.is_there()) {
                    one.ring = None;
                }
                if one.ring.is_none() {
                    match MarkRing::find(process) {
                        Ok(Some(_)) if rings >= MOST_RINGS => self.refused += 1,
                        Ok(found) => {
                            rings += usize::from(found.is_some());
                            one.ring = found;
                        }
                        // Once is enough.
                        Err(_) => {
                            self.refused += 1;
                            one.look_at = Nanos::MAX;
                        }
                    }
                }
            }
            if let Some(ring) = &mut one.ring {
                let lost = ring.read(process, into);
                self.lose(lost);
            }
        }
    }

    /// What a ring says may be anything.
    const fn lose(&mut self, marks: u64) {
        self.lost = self.lost.saturating_add(marks);
    }

    /// Says that nobody listens any more. Another who does says so again.
    pub fn end(&mut self) {
        for ring in self.processes.values().filter_map(|one| one.ring.as_ref()) {
            ring.listen(0);
        }
    }
}

impl MarkRing {
    /// That of a process; `None`: it has none that is known.
    fn find(process: u32) -> io::Result<Option<Self>> {
        let folder = format!("/proc/{process}/fd");
        // It may have ended.
        let Ok(entries) = fs::read_dir(&folder) else {
            return Ok(None);
        };
        let mut paths = entries.flatten().map(|entry| entry.path());
        let Some(path) = paths.find(|path| is_ring(path)) else {
            return Ok(None);
        };
        let Some(file) = opened(&path)? else {
            return Ok(None);
        };
        let mut head = [0; layout::RING_AT];
        // Not made whole yet: the next look will see.
        if file.read_exact_at(&mut head, 0).is_err() || head[..8] != layout::MAGIC {
            return Ok(None);
        }
        let slots = word(&head, layout::SLOTS_AT);
        let is_known = word(&head, layout::VERSION_AT) == layout::VERSION;
        let is_possible = slots.is_power_of_two() && slots <= MOST_SLOTS;
        let metadata = file.metadata()?;
        if !is_known || !is_possible || metadata.len() < layout::bytes(slots) as u64 {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let ring = Self {
            identity: (metadata.dev(), metadata.ino()),
            path,
            slots,
            read: long(&head, layout::NEXT_AT),
            threads: is_elsewhere(process).then(BTreeMap::new),
            file,
        };
        ring.listen(1);
        Ok(Some(ring))
    }

    /// Whether the process still has it: it may have become another by exec.
    fn is_there(&self) -> bool {
        fs::metadata(&self.path).is_ok_and(|now| (now.dev(), now.ino()) == self.identity)
    }

    fn listen(&self, word: u32) {
        let at = layout::LISTENING_AT as u64;
        // Who sealed it against writing, or cut it short, is not heard.
        let _ = self.file.write_all_at(&word.to_ne_bytes(), at);
    }

    /// Appends what came since; how many were lost.
    fn read(&mut self, process: u32, into: &mut Vec<ThreadMark>) -> u64 {
        // Another who listened may have ended, and said so.
        self.listen(1);
        let mut head = [0; layout::RING_AT];
        if self.file.read_exact_at(&mut head, 0).is_err() {
            return 0;
        }
        let next = long(&head, layout::NEXT_AT);
        let room = u64::from(self.slots);
        if next < self.read {
            // No program counts down: what it counted meanwhile nobody knows.
            self.read = next;
            return 1;
        }
        let first = self.read.max(next.saturating_sub(room));
        let mut lost = first - self.read;
        let mut place = first;
        while place < next {
            // To the end of the ring at most.
            let slot = place % room;
            let count = (next - place).min(room - slot);
            let Ok(length) = usize::try_from(count * layout::MARK_BYTES as u64) else {
                return lost;
            };
            let at = layout::RING_AT as u64 + slot * layout::MARK_BYTES as u64;
            // Twice: what is written meanwhile differs.
            let (mut marks, mut again) = (vec![0; length], vec![0; length]);
            let copied = self.file.read_exact_at(&mut marks, at);
            if copied.and(self.file.read_exact_at(&mut again, at)).is_err() {
                return lost + (next - place);
            }
            let both = marks
                .chunks(layout::MARK_BYTES)
                .zip(again.chunks(layout::MARK_BYTES));
            for (mark, again) in both {
                match long(mark, 0) {
                    // Begun, and not written yet: it is waited for, as long as others do
                    // not fill the ring meanwhile.
                    0 if next - place <= room / 2 => {
                        self.read = place;
                        return lost;
                    }
                    whole if whole == place + 1 && mark == again => {
                        match self.mark(process, mark) {
                            Some(mark) => into.push(mark),
                            None => lost += 1,
                        }
                    }
                    _ => lost += 1,
                }
                place += 1;
            }
        }
        self.read = next;
        lost
    }

    /// What a mark says; `None`: it is none that is known.
    fn mark(&mut self, process: u32, mark: &[u8]) -> Option<ThreadMark> {
        let kind = match word(mark, 28) {
            layout::BEGIN => MarkKind::Begin,
            layout::END => MarkKind::End,
            _ => return None,
        };
        let own = word(mark, 24);
        let thread = match &mut self.threads {
            None => own,
            Some(threads) => {
                if !threads.contains_key(&own) {
                    *threads = numbered(process);
                }
                *threads.get(&own)?
            }
        };
        Some(ThreadMark {
            process,
            thread: Tid(thread),
            at: Nanos::from_ns(long(mark, 8)),
            number: long(mark, 16),
            kind,
        })
    }
}

/// Whether it is named as a ring is.
fn is_ring(path: &Path) -> bool {
    let target = fs::read_link(path).unwrap_or_default();
    let target = target.to_string_lossy();
    let name = target.strip_suffix(" (deleted)").unwrap_or(&target);
    name.strip_prefix("/memfd:") == Some(layout::NAME)
}

/// Opens what is open there in another process, which may put something else there at
/// any time: it is held before it is looked at, and then nothing else is opened. `None`:
/// it is no ring.
fn opened(path: &Path) -> io::Result<Option<File>> {
    let held = OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_PATH)
        .open(path)?;
    let own = PathBuf::from(format!("/proc/self/fd/{}", held.as_raw_fd()));
    if !held.metadata()?.is_file() || !is_ring(&own) {
        return Ok(None);
    }
    let file = OpenOptions::new().read(true).write(true).open(&own)?;
    Ok(Some(file))
}

/// Whether a process calls its threads otherwise than is done here.
fn is_elsewhere(process: u32) -> bool {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    own_number(&status).is_some_and(|own| own != process)
}

/// By what its threads call themselves, what they are called here.
fn numbered(process: u32) -> BTreeMap<u32, u32> {
    let folder = format!("/proc/{process}/task");
    let Ok(entries) = fs::read_dir(&folder) else {
        return BTreeMap::new();
    };
    let threads = entries.flatten().filter_map(|entry| {
        let here: u32 = entry.file_name().to_str()?.parse().ok()?;
        let status = fs::read_to_string(entry.path().join("status")).ok()?;
        Some((own_number(&status)?, here))
    });
    threads.collect()
}

/// The last number of `NSpid`: that in its own namespace.
fn own_number(status: &str) -> Option<u32> {
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("NSpid:"))?;
    line.split_whitespace().last()?.parse().ok()
}

fn word(bytes: &[u8], at: usize) -> u32 {
    let mut word = [0; 4];
    word.copy_from_slice(&bytes[at..at + 4]);
    u32::from_ne_bytes(word)
}

fn long(bytes: &[u8], at: usize) -> u64 {
    let mut long = [0; 8];
    long.copy_from_slice(&bytes[at..at + 8]);
    u64::from_ne_bytes(long)
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsRawFd as _;

    use laggard_marks::Marks;
    use nix::sys::memfd::{MFdFlags, memfd_create};
    use nix::unistd::ftruncate;

    use super::*;

    /// Rings of this process are found by name: one test at a time has one.
    static ONE: std::sync::Mutex<()> = std::sync::Mutex::new(());

    fn own() -> BTreeSet<u32> {
        [std::process::id()].into()
    }

    fn read(reader: &mut MarkReader, second: u64) -> Vec<ThreadMark> {
        let mut all = Vec::new();
        reader.read(&own(), Nanos::from_secs(second), &mut all);
        all
    }

    #[test]
    fn marks_are_read_in_order_once_somebody_listens_and_those_overwritten_are_counted() {
        let _one = ONE.lock();
        let marks = Marks::open().unwrap();
        let mut reader = MarkReader::default();
        marks.begin(1);
        assert_eq!(read(&mut reader, 0), [], "nobody listened");

        marks.begin(2);
        marks.end(2);
        let told = read(&mut reader, 20);
        let seen: Vec<_> = told.iter().map(|one| (one.kind, one.number)).collect();
        assert_eq!(seen, [(MarkKind::Begin, 2), (MarkKind::End, 2)]);
        assert!(told[0].at <= told[1].at);
        let thread = nix::unistd::gettid().as_raw().cast_unsigned();
        assert!(told.iter().all(|one| one.thread == Tid(thread)));
        assert_eq!((reader.lost, reader.refused), (0, 0));

        let slots = u64::from(layout::SLOTS);
        (0..slots + 5).for_each(|number| marks.begin(number));
        let told = read(&mut reader, 40);
        assert_eq!(told.len() as u64, slots);
        assert_eq!((told[0].number, reader.lost), (5, 5));

        reader.end();
        marks.begin(9);
        reader.processes.clear();
        let _ = read(&mut reader, 60);
        assert_eq!(read(&mut reader, 80), [], "it was not heard");
    }

    #[test]
    fn a_ring_that_is_none_is_refused_and_one_cut_short_tells_nothing_more() {
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
        // Behind the head: the marks are gone.
        file.set_len(layout::RING_AT as u64).unwrap();
        assert_eq!(read(&mut reader, 1), []);
        assert_eq!(reader.lost, 1);
        // So that dropping it touches nothing that is not there.
        file.set_len(layout::bytes(layout::SLOTS) as u64).unwrap();
    }

    /// A ring of a hostile program, which says that there were `next` marks.
    fn count(file: &File, next: u64) {
        file.write_all_at(&next.to_ne_bytes(), layout::NEXT_AT as u64)
            .unwrap();
    }

    #[test]
    fn a_ring_that_says_anything_of_its_count_is_read_and_counted_on() {
        let _one = ONE.lock();
        let name = std::ffi::CString::new(layout::NAME).unwrap();
        let file = File::from(memfd_create(name.as_c_str(), MFdFlags::MFD_CLOEXEC).unwrap());
        let slots = 8_u32;
        file.set_len(layout::bytes(slots) as u64).unwrap();
        file.write_all_at(&layout::MAGIC, 0).unwrap();
        for (at, word) in [
            (layout::VERSION_AT, layout::VERSION),
            (layout::SLOTS_AT, slots),
        ] {
            file.write_all_at(&word.to_ne_bytes(), at as u64).unwrap();
        }
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
        mark[28..].copy_from_slice(&layout::BEGIN.to_ne_bytes());
        count(&file, 5);
        assert_eq!(read(&mut reader, 4), []);
        let at = layout::RING_AT + 5 * layout::MARK_BYTES;
        file.write_all_at(&mark, at as u64).unwrap();
        count(&file, 6);
        assert_eq!(read(&mut reader, 5).len(), 1, "it is read again");
    }

    /// What is named so is a ring; what is put there instead is not opened.
    #[test]
    fn what_is_no_ring_is_not_opened() {
        let path = |file: &File| PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()));
        let folder = File::open("/").unwrap();
        let plain = tempfile::tempfile().unwrap();

        assert!(opened(&path(&folder)).unwrap().is_none());
        assert!(opened(&path(&plain)).unwrap().is_none());
        assert!(opened(Path::new("/proc/self/fd/9999")).is_err());
    }
}
