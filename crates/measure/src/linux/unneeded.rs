//! Pages that no measuring thread needs, given back though memory is locked.
//!
//! `mlockall` of what is mapped brings in all of it, and so the whole stack of every
//! thread that is there, and of those that have ended: the C library keeps them for
//! threads to come. A stack that is mapped afterwards has only the pages that it uses
//! (`MCL_ONFAULT`).

use std::ffi::{c_int, c_void};

use nix::unistd::{SysconfVar, sysconf};

/// Below where a thread is now, bytes of its stack that stay: what it uses next.
const KEPT_STACK: usize = 64 << 10;

/// Gives back what the calling thread does not use of its stack now. For threads that
/// may wait for a page: what they use later is theirs again.
pub fn let_stack_go() {
    if let Some(lowest) = lowest_of_stack() {
        let here = std::hint::black_box(&raw const lowest).addr();
        give_back(lowest, here.saturating_sub(KEPT_STACK));
    }
}

/// Gives back the tables by which a program that panics finds its way up.
pub(super) fn let_unwinding_go() {
    if let Some((from, to)) = unwinding() {
        give_back(from, to);
    }
}

/// From where to where this program's tables for unwinding are.
fn unwinding() -> Option<(usize, usize)> {
    unsafe extern "C" fn look(
        info: *mut libc::dl_phdr_info,
        _: libc::size_t,
        found: *mut c_void,
    ) -> c_int {
        // SAFETY: what `dl_iterate_phdr` passes is whole; `found` is ours, below.
        let (info, found) = unsafe { (&*info, &mut *found.cast::<Option<(usize, usize)>>()) };
        if !info.dlpi_phdr.is_null() {
            // SAFETY: there are as many headers as it says.
            let headers =
                unsafe { std::slice::from_raw_parts(info.dlpi_phdr, info.dlpi_phnum.into()) };
            *found = tables(headers, number(info.dlpi_addr));
        }
        // The first is the program itself; libraries are small.
        1
    }
    let mut found: Option<(usize, usize)> = None;
    // SAFETY: `found` outlives the call, and nobody else has it.
    unsafe { libc::dl_iterate_phdr(Some(look), (&raw mut found).cast()) };
    // Linkers put them behind all constants. Where one does not, they stay: measuring
    // threads read constants.
    static CONSTANT: [u8; 1] = [1];
    let constant = std::hint::black_box(&raw const CONSTANT).addr();
    found.filter(|(from, _)| constant < *from)
}

/// Where the tables are in a program that was loaded at `base`: up to the end of what
/// can only be read.
fn tables(headers: &[libc::Elf64_Phdr], base: usize) -> Option<(usize, usize)> {
    let range = |header: &libc::Elf64_Phdr| {
        let from = number(header.p_vaddr);
        (from, from.saturating_add(number(header.p_memsz)))
    };
    let index = headers
        .iter()
        .find(|one| one.p_type == libc::PT_GNU_EH_FRAME)?;
    let (from, _) = range(index);
    let part = headers.iter().find(|one| {
        let (begin, end) = range(one);
        one.p_type == libc::PT_LOAD && one.p_flags == libc::PF_R && (begin..end).contains(&from)
    })?;
    let (_, to) = range(part);
    Some((base.wrapping_add(from), base.wrapping_add(to)))
}

fn number(value: u64) -> usize {
    usize::try_from(value).unwrap_or(usize::MAX)
}

/// The lowest address of the calling thread's stack, above its guard.
fn lowest_of_stack() -> Option<usize> {
    let mut attributes = std::mem::MaybeUninit::<libc::pthread_attr_t>::uninit();
    let (mut lowest, mut bytes) = (std::ptr::null_mut(), 0);
    // SAFETY: the first call, where it succeeds, writes what the second reads and the
    //         third frees.
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

/// Gives back the whole pages between two addresses: of a file, or of a stack below
/// all that is in use.
fn give_back(from: usize, to: usize) {
    let page = sysconf(SysconfVar::PAGE_SIZE).ok().flatten();
    let Some(page) = page.and_then(|page| usize::try_from(page).ok()) else {
        return;
    };
    let (from, to) = (from.next_multiple_of(page), to / page * page);
    if from >= to {
        return;
    }
    let start = std::ptr::with_exposed_provenance_mut::<c_void>(from);
    // SAFETY: whole pages, of which nothing is lost: those of a file are read again,
    //         and of the others nobody has anything. A refusal costs memory only.
    unsafe {
        libc::munlock(start, to - from);
        libc::madvise(start, to - from, libc::MADV_DONTNEED);
    }
}

#[cfg(test)]
mod tests {
    use super::super::policy;
    use super::*;

    /// Of the mapping at `address`: bytes in memory, and whether it is locked.
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

    /// In a process of its own: other tests lock and unlock all memory of this one.
    #[test]
    fn tables_and_a_stack_that_nobody_uses_are_not_locked_and_all_else_is() {
        const ALONE: &str = "LAGGARD_TEST_ALONE";
        const NAME: &str = "linux::unneeded::tests::\
                            tables_and_a_stack_that_nobody_uses_are_not_locked_and_all_else_is";
        if std::env::var_os(ALONE).is_some() {
            return look_alone();
        }
        let own = std::env::current_exe().unwrap();
        let output = std::process::Command::new(own)
            .args(["--exact", "--nocapture", NAME])
            .env(ALONE, "1")
            .output()
            .unwrap();

        let said = String::from_utf8_lossy(&output.stdout);
        let wrong = String::from_utf8_lossy(&output.stderr);
        for line in said.lines().filter(|line| line.starts_with("skipped:")) {
            println!("{line}");
        }
        assert!(output.status.success(), "{said}\n{wrong}");
        assert!(said.contains("1 passed"), "{said}");
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
            // It begins a line, where the harness has begun one.
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
    fn tables_are_from_their_index_to_the_end_of_what_can_only_be_read() {
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

        let found = tables(&[constants, code, index], 0x10_0000);

        assert_eq!(found, Some((0x10_3000, 0x10_4800)));
        assert_eq!(tables(&[constants, code], 0), None);
        let among_code = header(libc::PT_GNU_EH_FRAME, libc::PF_R, 0x6000, 0x100);
        assert_eq!(tables(&[constants, code, among_code], 0), None);
    }
}
