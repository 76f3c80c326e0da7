use std::fs::File;
use std::io::Write as _;
use std::os::fd::AsRawFd as _;

use super::super::finder::Finder;
use super::*;
use laggard_model::Address;

/// Runs the process that reads symbols if [`command`] started this program. Otherwise does
/// nothing.
#[test]
fn process_that_reads() {
    if std::env::var_os(NAME).is_some() {
        let _ = child::answer();
        std::process::exit(0);
    }
}

/// Returns the C library as this process has it mapped, and the offset of `getpid` in it.
fn libc_of_this_process() -> (HeldFile, u64) {
    let getpid = Address(libc::getpid as *const () as u64);
    let located = Finder::default().locate(
        std::process::id(),
        &[getpid].into(),
        &mut Patience::default(),
        &AtomicBool::new(false),
    );
    let mut located = located.unwrap();
    let (file, offset) = located.places.remove(0).1.unwrap();
    (located.files.remove(file).file, offset)
}

fn hold(file: &File) -> HeldFile {
    let mapped = libc_of_this_process().0.mapped;
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    let flags = nix::fcntl::OFlag::O_PATH | nix::fcntl::OFlag::O_CLOEXEC;
    let held = nix::fcntl::open(path.as_str(), flags, nix::sys::stat::Mode::empty()).unwrap();
    let state = crate::linux::file_state::file_state(&held).unwrap();
    HeldFile {
        held,
        mapped,
        state,
    }
}

fn read_now(asks: &[FileQuery<'_>], interrupted: bool) -> Vec<Vec<Name>> {
    SymbolReader::new(Patience::default(), &AtomicBool::new(interrupted)).read(asks, true)
}

fn ask(file: &HeldFile, offset: u64) -> FileQuery<'_> {
    FileQuery {
        file,
        offsets: vec![offset],
    }
}

#[test]
fn file_other_than_the_mapped_one_has_no_names_and_the_next_file_has() {
    let mut other = tempfile::tempfile().unwrap();
    other.write_all(b"other").unwrap();
    let other = hold(&other);
    let (libc, getpid) = libc_of_this_process();

    let names = read_now(&[ask(&other, 0), ask(&libc, getpid)], false);

    let reason = names[0][0].as_ref().unwrap_err();
    assert_eq!(reason, "a different file is at its path now");
    assert!(
        names[1][0].as_ref().unwrap().contains("getpid"),
        "{names:?}"
    );
}

#[test]
fn file_that_was_changed_since_it_was_held_has_no_names() {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(b"before").unwrap();
    let held = hold(&file);
    file.write_all(b"and after").unwrap();

    let names = read_now(&[ask(&held, 0)], false);

    let reason = names[0][0].as_ref().unwrap_err();
    assert_eq!(reason, "the file changed during the measurement");
}

/// Sends more offsets than the limit, which ends the reader.
#[test]
fn process_that_ends_leaves_a_reason_for_each_file() {
    let (libc, getpid) = libc_of_this_process();
    let asks = [FileQuery {
        file: &libc,
        offsets: vec![getpid; MAX_OFFSETS + 1],
    }];

    let names = read_now(&asks, false);

    let reason = names[0][0].as_ref().unwrap_err();
    assert!(
        reason.contains("the process that reads symbols ended"),
        "{reason}"
    );
}

#[test]
fn file_in_progress_is_blamed_and_keeps_its_received_names() {
    let (libc, getpid) = libc_of_this_process();
    let files = [
        ask(&libc, getpid),
        FileQuery {
            offsets: vec![1, 2],
            ..ask(&libc, 0)
        },
    ];
    let mut round = Round::new(&files, vec![0, 1]);
    let first = ReaderMessage::Function(1, 0, Ok("name\n".into()));

    for answer in [ReaderMessage::Start(1), first] {
        round.note(answer).unwrap();
    }
    assert_eq!(round.blame(&Failure::Interrupted), None);
    round.note(ReaderMessage::Start(1)).unwrap();
    assert_eq!(round.blame(&Failure::TookTooLong), Some(1));

    let answered: Vec<_> = round.answered().collect();
    let reason = "reading its symbols took longer than 5 s".to_owned();
    assert_eq!(answered, [(1, vec![Ok("name\\n".into()), Err(reason)])]);
}

#[test]
fn messages_that_match_no_request_are_damage() {
    let (libc, getpid) = libc_of_this_process();
    let files = [ask(&libc, getpid)];
    let name = || Ok("name".into());

    for answers in [
        vec![ReaderMessage::Start(1)],
        vec![ReaderMessage::Function(0, 0, name())],
        vec![
            ReaderMessage::Start(0),
            ReaderMessage::Function(0, 1, name()),
        ],
        vec![ReaderMessage::Start(0), ReaderMessage::End(1)],
        vec![
            ReaderMessage::Start(0),
            ReaderMessage::End(0),
            ReaderMessage::Function(0, 0, name()),
        ],
        vec![ReaderMessage::Refused(0, String::new())],
    ] {
        let mut round = Round::new(&files, vec![0]);
        let notes: Vec<_> = answers
            .iter()
            .map(|answer| round.note(answer.clone()))
            .collect();
        assert_eq!(notes.last(), Some(&None), "{answers:?}");
    }
}
