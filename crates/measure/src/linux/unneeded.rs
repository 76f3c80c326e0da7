//! Pages that no measuring thread needs, released although memory is locked.
//!
//! `mlockall` of existing mappings loads all of them, including the whole stack of every thread,
//! also of ended threads: the C library keeps these stacks for later threads. A stack that is
//! mapped afterwards has only the pages that it uses (`MCL_ONFAULT`).

use std::ffi::{c_int, c_void};

/// Size in bytes of the stack below the current frame that stays, because the thread uses it
/// next.
const KEPT_STACK: usize = 64 << 10;

/// Releases the part of the calling thread's stack that it does not use now. For threads that may
/// wait for a page: a later use maps it again.
pub fn let_stack_go() {
    if let Some(lowest) = lowest_of_stack() {
        let here = std::hint::black_box(&raw const lowest).addr();
        give_back(lowest, here.saturating_sub(KEPT_STACK));
    }
}

/// Releases the tables that a panic uses to unwind.
pub(super) fn let_unwinding_go() {
    if let Some((from, to)) = unwinding() {
        give_back(from, to);
    }
}

/// Returns the address range of this program's unwinding tables.
fn unwinding() -> Option<(usize, usize)> {
    unsafe extern "C" fn look(
        info: *mut libc::dl_phdr_info,
        _: libc::size_t,
        range: *mut c_void,
    ) -> c_int {
        // SAFETY: `dl_iterate_phdr` passes a valid structure; `range` points to the variable
        // below.
        let (info, range) = unsafe { (&*info, &mut *range.cast::<Option<(usize, usize)>>()) };
        if !info.dlpi_phdr.is_null() {
            // SAFETY: the structure states the number of headers.
            let headers =
                unsafe { std::slice::from_raw_parts(info.dlpi_phdr, info.dlpi_phnum.into()) };
            *range = tables(headers, number(info.dlpi_addr));
        }
        // The first object is the program itself; libraries are small.
        1
    }
    let mut range: Option<(usize, usize)> = None;
    // SAFETY: `range` outlives the call, and nothing else uses it.
    unsafe { libc::dl_iterate_phdr(Some(look), (&raw mut range).cast()) };
    // Linkers place them behind all constants. With another layout they stay, because measuring
    // threads read constants.
    static CONSTANT: [u8; 1] = [1];
    let constant = std::hint::black_box(&raw const CONSTANT).addr();
    range.filter(|(from, _)| constant < *from)
}

/// Returns the range of the tables in a program that was loaded at `base`: up to the end of the
/// read-only part.
fn tables(headers: &[libc::Elf64_Phdr], base: usize) -> Option<(usize, usize)> {
    let range = |header: &libc::Elf64_Phdr| {
        let from = number(header.p_vaddr);
        (from, from.saturating_add(number(header.p_memsz)))
    };
    let index = headers
        .iter()
        .find(|header| header.p_type == libc::PT_GNU_EH_FRAME)?;
    let (from, _) = range(index);
    let part = headers.iter().find(|header| {
        let (begin, end) = range(header);
        header.p_type == libc::PT_LOAD
            && header.p_flags == libc::PF_R
            && (begin..end).contains(&from)
    })?;
    let (_, to) = range(part);
    Some((base.wrapping_add(from), base.wrapping_add(to)))
}

fn number(value: u64) -> usize {
    usize::try_from(value).unwrap_or(usize::MAX)
}

/// Returns the lowest address of the calling thread's stack, above its guard.
fn lowest_of_stack() -> Option<usize> {
    let mut attributes = std::mem::MaybeUninit::<libc::pthread_attr_t>::uninit();
    let (mut lowest, mut bytes) = (std::ptr::null_mut(), 0);
    // SAFETY: if the first call succeeds, it writes the value that the second reads and the third
    // frees.
    unsafe {
        let own = libc::pthread_self();
        if libc::pthread_getattr_np(own, attributes.as_mut_ptr()) != 0 {
            return None;
        }
        let refused =
            libc::pthread_attr_getstack(attributes.as_ptr(), &raw mut lowest, &raw mut bytes);
        libc::pthread_attr_destroy(attributes.as_mut_ptr());
        (refused == 0).then_some(lowest.addr())
    }
}

/// Releases the whole pages between two addresses: of a file, or of a stack below the used part.
fn give_back(from: usize, to: usize) {
    let page = laggard_files::page_bytes();
    let (from, to) = (from.next_multiple_of(page), to / page * page);
    if from >= to {
        return;
    }
    let start = std::ptr::with_exposed_provenance_mut::<c_void>(from);
    // SAFETY: these are whole pages without data to lose: pages of a file are read again, and the
    // others are unused. If the call fails, laggard only uses more memory.
    unsafe {
        libc::munlock(start, to - from);
        libc::madvise(start, to - from, libc::MADV_DONTNEED);
    }
}

#[cfg(test)]
mod tests {
    use super::super::policy;
    use super::*;

    /// Returns the resident bytes of the mapping at `address`, and whether it is locked.
    fn mapping(address: usize) -> (usize, bool) {
        let maps = std::fs::read_to_string("/proc/self/smaps").unwrap();
        let mut is_it = false;
        let mut resident = 0;
        for line in maps.lines() {
            let first = line.split(' ').next().unwrap();
            if let Some((from, to)) = first.split_once('-') {
                let number = |text| usize::from_str_radix(text, 16).unwrap();
                is_it = (number(from)..number(to)).contains(&address);
            } else if is_it && let Some(rest) = line.strip_prefix("Rss:") {
                let kib = rest.trim().strip_suffix(" kB").unwrap();
                resident = kib.parse::<usize>().unwrap() << 10;
            } else if is_it && let Some(flags) = line.strip_prefix("VmFlags:") {
                return (resident, flags.split(' ').any(|flag| flag == "lo"));
            }
        }
        panic!("nothing is mapped at {address:x}");
    }

    /// Runs in a separate process, because other tests lock and unlock all memory of this one.
    #[test]
    fn unused_tables_and_stack_are_not_locked_and_the_rest_is() {
        const ALONE: &str = "LAGGARD_TEST_ALONE";
        const NAME: &str = "linux::unneeded::tests::\
                            unused_tables_and_stack_are_not_locked_and_the_rest_is";
        if std::env::var_os(ALONE).is_some() {
            return look_alone();
        }
        let own = std::env::current_exe().unwrap();
        let output = std::process::Command::new(own)
            .args(["--exact", "--nocapture", NAME])
            .env(ALONE, "1")
            .output()
            .unwrap();

        let stdout = String::from_utf8_lossy(&output.stdout);
        let wrong = String::from_utf8_lossy(&output.stderr);
        for line in stdout.lines().filter(|line| line.starts_with("skipped:")) {
            println!("{line}");
        }
        assert!(output.status.success(), "{stdout}\n{wrong}");
        assert!(stdout.contains("1 passed"), "{stdout}");
    }

    fn look_alone() {
        let (tell, locked) = std::sync::mpsc::channel();
        let thread = std::thread::Builder::new().stack_size(2 << 20);
        let there = thread.spawn(move || {
            locked.recv().unwrap();
            let lowest = lowest_of_stack().unwrap() + (64 << 10);
            let before = mapping(lowest);
            let_stack_go();
            (before, mapping(lowest))
        });
        let there = there.unwrap();
        if let Err(err) = policy::lock_memory() {
            // Starts a new line, because the harness has written to the current one.
            println!("\nskipped: memory cannot be locked: {err}");
            return;
        }
        tell.send(()).unwrap();
        let (before, after) = there.join().unwrap();
        let (from, to) = unwinding().expect("a program that can unwind");
        let code = mapping(let_stack_go as *const () as usize);

        assert!(code.1, "the program's code is not locked");
        assert!(to - from > 100 << 10, "{from:x} to {to:x}");
        assert!(!mapping(from + (to - from) / 2).1, "tables are locked");
        assert!(before.1 && before.0 > 1 << 20, "{before:?}");
        assert!(!after.1 && after.0 == 0, "{after:?}");
    }

    #[test]
    fn tables_reach_from_their_index_to_the_end_of_the_read_only_part() {
        let header = |p_type, p_flags, p_vaddr, p_memsz| libc::Elf64_Phdr {
            p_type,
            p_flags,
            p_offset: 0,
            p_vaddr,
            p_paddr: 0,
            p_filesz: p_memsz,
            p_memsz,
            p_align: 0,
        };
        let code = header(libc::PT_LOAD, libc::PF_R | libc::PF_X, 0x5000, 0x9000);
        let constants = header(libc::PT_LOAD, libc::PF_R, 0, 0x4800);
        let index = header(libc::PT_GNU_EH_FRAME, libc::PF_R, 0x3000, 0x100);

        let range = tables(&[constants, code, index], 0x10_0000);

        assert_eq!(range, Some((0x10_3000, 0x10_4800)));
        assert_eq!(tables(&[constants, code], 0), None);
        let among_code = header(libc::PT_GNU_EH_FRAME, libc::PF_R, 0x6000, 0x100);
        assert_eq!(tables(&[constants, code, among_code], 0), None);
    }
}
