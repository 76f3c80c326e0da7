//! The process under memory pressure. It is forked from a process with several threads, so it
//! allocates nothing. It reports plain numbers.

use std::fs::File;
use std::io::{self, Write as _};
use std::num::NonZeroUsize;
use std::os::fd::BorrowedFd;
use std::ptr::NonNull;

use laggard_model::Nanos;
use nix::errno::Errno;
use nix::sys::mman::{MapFlags, ProtFlags, mlock, mmap};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::signal::Signal;
use nix::unistd::{Pid, getppid};

use laggard_measure::linux::clock;

/// Number of pages of each mapping.
pub(super) const PAGES: usize = 1_024;
/// Size of the rest of the file, in sizes of one mapping. It is read through a mapping: with
/// the multi-generational LRU (Linux 6.1 and later) the kernel evicts pages of plain reads
/// before mapped pages, however many there are.
pub(super) const READ: u64 = 16;

/// Input of the process.
pub(super) struct PressureInput<'a> {
    /// File with the pages of two mappings and of the rest.
    pub(super) file: &'a File,
    /// File that moves a process into the group when it writes `0`.
    pub(super) door: &'a File,
    /// Size of a page, bytes.
    pub(super) page: u64,
    /// Minimum duration of the pressure, which lasts until half of the plain pages are evicted.
    pub(super) least: Nanos,
    /// Maximum duration of the pressure.
    pub(super) most: Nanos,
}

/// Report of the process.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(super) struct PressureReport {
    /// Step that was refused, from 1; 0 if none was.
    step: u64,
    /// Error of that step.
    errno: u64,
    /// Locked mapping: resident pages before and after, major and minor faults.
    pub(super) locked: [u64; 4],
    /// Plain mapping: the same.
    pub(super) plain: [u64; 4],
    /// Amount read from the rest of the file, bytes.
    pub(super) read_bytes: u64,
}

const NUMBERS: usize = 11;
/// Size of a report, bytes.
pub(super) const REPORT_BYTES: usize = NUMBERS * 8;
/// Names of the steps.
const STEPS: [&str; 4] = ["a control group", "a mapping", "mlock", "mincore"];

impl PressureReport {
    fn to_bytes(self) -> [u8; REPORT_BYTES] {
        let mut numbers = [0; NUMBERS];
        numbers[0] = self.step;
        numbers[1] = self.errno;
        numbers[2..6].copy_from_slice(&self.locked);
        numbers[6..10].copy_from_slice(&self.plain);
        numbers[10] = self.read_bytes;
        let mut bytes = [0; REPORT_BYTES];
        for (eight, number) in bytes.chunks_exact_mut(8).zip(numbers) {
            eight.copy_from_slice(&number.to_ne_bytes());
        }
        bytes
    }

    pub(super) fn from_bytes(bytes: &[u8; REPORT_BYTES]) -> Self {
        let number = |index: usize| {
            let mut eight = [0; 8];
            eight.copy_from_slice(&bytes[index * 8..][..8]);
            u64::from_ne_bytes(eight)
        };
        let four = |index: usize| {
            [
                number(index),
                number(index + 1),
                number(index + 2),
                number(index + 3),
            ]
        };
        Self {
            step: number(0),
            errno: number(1),
            locked: four(2),
            plain: four(6),
            read_bytes: number(10),
        }
    }

    /// Returns the step that was refused, and the error.
    pub(super) fn refusal(&self) -> Option<(&'static str, io::Error)> {
        let step = usize::try_from(self.step).ok()?.checked_sub(1)?;
        let errno = i32::try_from(self.errno).unwrap_or_default();
        let what = STEPS.get(step).unwrap_or(&"a call");
        Some((what, io::Error::from_raw_os_error(errno)))
    }
}

/// Runs the process under pressure and reports.
pub(super) fn press(pressed: &PressureInput<'_>, parent: Pid, tell: BorrowedFd<'_>) {
    if nix::sys::prctl::set_pdeathsig(Signal::SIGKILL).is_err() || getppid() != parent {
        return;
    }
    let mut report = PressureReport::default();
    if let Err((step, errno)) = pressed.pressed(&mut report) {
        report.step = step;
        report.errno = u64::try_from(errno as i32).unwrap_or_default();
    }
    // If this fails, the parent is gone.
    let _ = nix::unistd::write(tell, &report.to_bytes());
}

type StepRefused = (u64, Errno);

impl PressureInput<'_> {
    fn pressed(&self, report: &mut PressureReport) -> Result<(), StepRefused> {
        let (mut door, file) = (self.door, self.file);
        door.write_all(b"0").map_err(|err| refused(1, &err))?;
        let mapped = |first: u64, pages: u64| {
            let mapping = Mapping::new(file, (first, pages), self.page);
            mapping.map_err(|errno| (2, errno))
        };
        let pages = PAGES as u64;
        let (locked, plain) = (mapped(0, pages)?, mapped(pages, pages)?);
        let others = mapped(2 * pages, READ * pages)?;
        locked.lock().map_err(|errno| (3, errno))?;
        plain.read();
        report.locked[0] = locked.resident().map_err(|errno| (4, errno))?;
        report.plain[0] = plain.resident().map_err(|errno| (4, errno))?;
        let begin = clock::now();
        loop {
            others.read();
            report.read_bytes += READ * pages * self.page;
            let took = clock::now().saturating_sub(begin);
            report.plain[1] = plain.resident().map_err(|errno| (4, errno))?;
            let is_pressed = report.plain[1] <= report.plain[0] / 2;
            if took >= self.most || (took >= self.least && is_pressed) {
                break;
            }
        }
        report.locked[1] = locked.resident().map_err(|errno| (4, errno))?;
        let (before, ()) = (Faults::now(), locked.read());
        let between = Faults::now();
        plain.read();
        let after = Faults::now();
        [report.locked[2], report.locked[3]] = between.since(before);
        [report.plain[2], report.plain[3]] = after.since(between);
        Ok(())
    }
}

fn refused(step: u64, err: &io::Error) -> StepRefused {
    (
        step,
        Errno::from_raw(err.raw_os_error().unwrap_or_default()),
    )
}

/// Page faults of the calling process since its start.
#[derive(Clone, Copy)]
struct Faults {
    major: u64,
    minor: u64,
}

impl Faults {
    fn now() -> Self {
        let number = |faults: i64| u64::try_from(faults).unwrap_or_default();
        // Cannot fail for this process.
        let usage = getrusage(UsageWho::RUSAGE_SELF).ok();
        Self {
            major: usage.map_or(0, |usage| number(usage.major_page_faults())),
            minor: usage.map_or(0, |usage| number(usage.minor_page_faults())),
        }
    }

    const fn since(self, before: Self) -> [u64; 2] {
        [
            self.major.saturating_sub(before.major),
            self.minor.saturating_sub(before.minor),
        ]
    }
}

/// Mapping of a part of the file until the process ends.
struct Mapping {
    start: NonNull<libc::c_void>,
    pages: usize,
    page: usize,
}

impl Mapping {
    /// Maps `pages` pages of `file`, starting at page `first`.
    fn new(file: &File, (first, pages): (u64, u64), page: u64) -> Result<Self, Errno> {
        let from = libc::off_t::try_from(first * page).map_err(|_| Errno::EINVAL)?;
        let page = usize::try_from(page).map_err(|_| Errno::EINVAL)?;
        let pages = usize::try_from(pages).map_err(|_| Errno::EINVAL)?;
        let bytes = NonZeroUsize::new(pages * page).ok_or(Errno::EINVAL)?;
        // SAFETY: the kernel chooses an address that overlaps no other mapping.
        let start = unsafe {
            mmap(
                None,
                bytes,
                ProtFlags::PROT_READ,
                MapFlags::MAP_SHARED,
                file,
                from,
            )
        }?;
        Ok(Self { start, pages, page })
    }

    fn lock(&self) -> Result<(), Errno> {
        // SAFETY: it is mapped.
        unsafe { mlock(self.start, self.pages * self.page) }
    }

    /// Reads a byte of each page.
    fn read(&self) {
        for page in 0..self.pages {
            // SAFETY: within the mapping of a file that no other process can truncate.
            unsafe {
                self.start
                    .cast::<u8>()
                    .add(page * self.page)
                    .read_volatile();
            }
        }
    }

    /// Counts the resident pages among the first [`PAGES`].
    fn resident(&self) -> Result<u64, Errno> {
        let mut pages = [0_u8; PAGES];
        let bytes = self.pages.min(PAGES) * self.page;
        // SAFETY: it is mapped, and there is a byte for each of these pages.
        Errno::result(unsafe { libc::mincore(self.start.as_ptr(), bytes, pages.as_mut_ptr()) })?;
        Ok(pages.iter().filter(|page| **page & 1 == 1).count() as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn report_is_the_same_after_the_pipe() {
        let report = PressureReport {
            step: 3,
            errno: 12,
            locked: [1, 2, 3, 4],
            plain: [5, 6, 7, 8],
            read_bytes: 1 << 40,
        };

        let back = PressureReport::from_bytes(&report.to_bytes());

        assert_eq!(back, report);
        let (what, err) = back.refusal().unwrap();
        assert_eq!((what, err.raw_os_error()), ("mlock", Some(12)));
        assert!(PressureReport::default().refusal().is_none());
    }
}
