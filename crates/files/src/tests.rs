//! Files named by a user, on Unix.

use std::fs::{self, File, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::{
    FileTypeExt as _, MetadataExt as _, PermissionsExt as _, chown, lchown, symlink,
};
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, geteuid};

use super::*;

#[test]
fn pipe_is_written_to_and_not_replaced() {
    let dir = tempfile::tempdir().unwrap();
    let pipe = dir.path().join("pipe");
    assert!(
        Command::new("mkfifo")
            .arg(&pipe)
            .status()
            .unwrap()
            .success()
    );
    let from = pipe.clone();
    let reader = std::thread::spawn(move || {
        let is_pipe = || fs::metadata(&from).unwrap().file_type().is_fifo();
        is_pipe().then(|| fs::read_to_string(&from).unwrap())
    });

    write(&pipe, "picture", b"drawn").unwrap();

    assert!(fs::metadata(&pipe).unwrap().file_type().is_fifo());
    assert_eq!(reader.join().unwrap().as_deref(), Some("drawn"));
    assert_eq!(fs::read_dir(&dir).unwrap().count(), 1);
}

#[test]
fn target_of_a_link_is_replaced_and_the_link_stays() {
    let dir = tempfile::tempdir().unwrap();
    let (file, link) = (dir.path().join("file"), dir.path().join("link"));
    fs::write(&file, "before").unwrap();
    symlink(&file, &link).unwrap();

    write(&link, "picture", b"after").unwrap();

    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    assert_eq!(fs::read_to_string(&file).unwrap(), "after");
}

fn part_of(dir: &tempfile::TempDir) -> (PathBuf, PathBuf) {
    (
        dir.path().join("page.html"),
        dir.path().join("page.html.part"),
    )
}

#[test]
fn part_of_a_killed_program_is_replaced() {
    let dir = tempfile::tempdir().unwrap();
    let (page, part) = part_of(&dir);
    fs::write(&part, "half of another, longer than this one").unwrap();

    write(&page, "report", b"whole").unwrap();

    assert_eq!(fs::read_to_string(&page).unwrap(), "whole");
    assert!(!part.exists());
}

#[test]
fn part_of_a_running_program_is_not_touched() {
    let dir = tempfile::tempdir().unwrap();
    let (page, part) = part_of(&dir);
    let mut other = NewFile::create(&page, false).unwrap();
    other.write_all(b"theirs").unwrap();

    let refused = write(&page, "report", b"ours").unwrap_err();

    let message = format!("{refused:#}");
    assert!(
        message.contains("another laggard is writing it"),
        "{message}"
    );
    assert_eq!(fs::read_to_string(&part).unwrap(), "theirs");
    other.keep().unwrap();
    assert_eq!(fs::read_to_string(&page).unwrap(), "theirs");
}

/// Any user with write access to the directory could have created the link.
#[test]
fn no_file_is_written_through_a_planted_link() {
    let dir = tempfile::tempdir().unwrap();
    let (page, part) = part_of(&dir);
    let precious = dir.path().join("precious");
    fs::write(&precious, "theirs").unwrap();

    let links: [fn(&Path, &Path) -> io::Result<()>; 2] = [
        |from, to| symlink(from, to),
        |from, to| fs::hard_link(from, to),
    ];
    for link in links {
        link(&precious, &part).unwrap();

        let refused = write(&page, "report", b"ours").unwrap_err();

        let message = format!("{refused:#}");
        assert!(
            message.contains("page.html.part` is in the way"),
            "{message}"
        );
        assert_eq!(fs::read_to_string(&precious).unwrap(), "theirs");
        fs::remove_file(&part).unwrap();
    }
}

/// File that a second instance of this program starts and does not finish.
const BEGUN: &str = "LAGGARD_TEST_BEGUN";
/// A limit against hanging.
const LONG: Duration = Duration::from_secs(60);

#[test]
fn signal_that_ends_the_program_leaves_no_incomplete_file() {
    if let Some(page) = std::env::var_os(BEGUN) {
        let mut new = NewFile::create(Path::new(&page), false).unwrap();
        new.write_all(b"half").unwrap();
        return std::thread::sleep(LONG);
    }
    let dir = tempfile::tempdir().unwrap();
    let (page, part) = part_of(&dir);
    for signal in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP] {
        let name = "tests::signal_that_ends_the_program_leaves_no_incomplete_file";
        // With `nohup`, or behind other commands, some signals are ignored, and ignored
        // signals end no program.
        let mut program = Command::new("env")
            .arg("--default-signal")
            .arg(std::env::current_exe().unwrap())
            .args(["--exact", name])
            .env(BEGUN, &page)
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        while !part.exists() && program.try_wait().unwrap().is_none() {
            std::thread::sleep(Duration::from_millis(1));
        }

        let id = Pid::from_raw(program.id().try_into().unwrap());
        kill(id, signal).unwrap();

        let ended = program.wait().unwrap();
        assert_eq!(ended.signal(), Some(signal as i32), "{ended}");
        assert_eq!(fs::read_dir(&dir).unwrap().count(), 0, "{signal}");
    }
}

#[test]
fn unfinished_file_is_removed() {
    let dir = tempfile::tempdir().unwrap();
    let (page, part) = part_of(&dir);

    let mut new = NewFile::create(&page, false).unwrap();
    new.write_all(b"half").unwrap();
    assert!(part.exists());
    drop(new);

    assert_eq!(fs::read_dir(&dir).unwrap().count(), 0);
}

/// Another user.
const STRANGER: u32 = 65_534;

/// Returns a directory like `/tmp`, with a file of this user outside it; `None`, with a
/// message, if this user cannot create files of another one.
fn shared() -> Option<(tempfile::TempDir, PathBuf, PathBuf)> {
    if !geteuid().is_root() {
        println!("skipped: it takes root to create files of another user");
        return None;
    }
    let dir = tempfile::tempdir().unwrap();
    let (shared, precious) = (dir.path().join("shared"), dir.path().join("precious"));
    fs::create_dir(&shared).unwrap();
    fs::set_permissions(&shared, Permissions::from_mode(0o1777)).unwrap();
    fs::write(&precious, "precious").unwrap();
    fs::set_permissions(&precious, Permissions::from_mode(0o600)).unwrap();
    Some((dir, shared, precious))
}

fn planted_link(to: &Path, link: &Path) {
    symlink(to, link).unwrap();
    lchown(link, Some(STRANGER), Some(STRANGER)).unwrap();
}

fn fifo(path: &Path) {
    let made = Command::new("mkfifo").arg(path).status().unwrap();
    assert!(made.success());
}

#[test]
fn planted_file_in_a_shared_directory_is_refused() {
    let Some((dir, shared, precious)) = shared() else {
        return;
    };
    let names = ["link", "fifo", "file", "dangling", "within/link", "to/file"]
        .map(|name| shared.join(name));
    let [link, pipe, file, dangling, within, _] = &names;
    planted_link(&precious, link);
    fifo(pipe);
    fs::write(file, "theirs").unwrap();
    for path in [pipe, file] {
        chown(path, Some(STRANGER), None).unwrap();
    }
    planted_link(&dir.path().join("new"), dangling);
    let theirs = shared.join("within");
    fs::create_dir(&theirs).unwrap();
    chown(&theirs, Some(STRANGER), None).unwrap();
    planted_link(&precious, within);
    planted_link(dir.path(), &shared.join("to"));
    // A link of this user to a link of another one.
    let through = dir.path().join("through");
    symlink(link, &through).unwrap();

    for path in names.iter().chain([&through]) {
        let refused = write(path, "report", b"ours").unwrap_err();

        let shown = format!("{refused:#}");
        assert!(shown.contains("belongs to user 65534"), "{shown}");
        assert!(
            shown.ends_with("remove it, or give another name"),
            "{shown}"
        );
        let early = check(path, "report").unwrap_err();
        assert!(
            format!("{early:#}").contains("belongs to user"),
            "{early:#}"
        );
    }
    assert_eq!(fs::read_to_string(&precious).unwrap(), "precious");
    assert_eq!(precious.metadata().unwrap().mode() & 0o777, 0o600);
    assert_eq!(fs::read_to_string(file).unwrap(), "theirs");
    assert!(!dir.path().join("new").exists() && !dir.path().join("file").exists());
    // A recording is not reached through a link of another user either.
    assert!(OpenDir::search(&shared.join("to")).is_err());
    assert!(
        OpenDir::search(&shared)
            .unwrap()
            .has_planted("within".as_ref())
            .unwrap()
    );
}

#[test]
fn own_links_and_files_outside_shared_directories_are_written_to() {
    let Some((dir, shared, precious)) = shared() else {
        return;
    };
    let (own, other) = (shared.join("own"), dir.path().join("other"));
    symlink(&precious, &own).unwrap();
    planted_link(&precious, &other);
    for (number, path) in [&own, &other].into_iter().enumerate() {
        write(path, "report", number.to_string().as_bytes()).unwrap();

        assert_eq!(fs::read_to_string(&precious).unwrap(), number.to_string());
        assert!(path.symlink_metadata().unwrap().is_symlink());
        assert_eq!(precious.metadata().unwrap().mode() & 0o777, 0o600);
    }
    let kept = shared.join("kept");
    fs::write(&kept, "before").unwrap();
    write(&kept, "report", b"after").unwrap();
    assert_eq!(fs::read_to_string(&kept).unwrap(), "after");
}

#[test]
fn dangling_link_stays_and_its_target_is_created() {
    let dir = tempfile::tempdir().unwrap();
    let (file, link) = (dir.path().join("file"), dir.path().join("link"));
    symlink("file", &link).unwrap();

    write(&link, "report", b"whole").unwrap();

    assert!(link.symlink_metadata().unwrap().is_symlink());
    assert_eq!(fs::read_to_string(&file).unwrap(), "whole");
}

#[test]
fn circular_links_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let (a, b) = (dir.path().join("a"), dir.path().join("b"));
    symlink(&b, &a).unwrap();
    symlink(&a, &b).unwrap();

    let refused = write(&a, "report", b"whole").unwrap_err();

    assert!(
        format!("{refused:#}").contains("more than 40 links"),
        "{refused:#}"
    );
}

#[test]
fn owner_and_mode_of_a_replaced_file_stay() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("file");
    let owner = if geteuid().is_root() {
        STRANGER
    } else {
        geteuid().as_raw()
    };
    for mode in [0o600, 0o640, 0o604, 0o755] {
        fs::write(&file, "before").unwrap();
        fs::set_permissions(&file, Permissions::from_mode(mode)).unwrap();
        chown(&file, Some(owner), None).unwrap();

        write(&file, "report", b"after").unwrap();

        let data = file.metadata().unwrap();
        assert_eq!(
            (data.uid(), data.mode() & 0o7777),
            (owner, mode),
            "{mode:o}"
        );
        assert_eq!(fs::read_to_string(&file).unwrap(), "after");
    }
}

#[test]
fn set_user_id_bit_does_not_stay() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("file");
    fs::write(&file, "before").unwrap();
    fs::set_permissions(&file, Permissions::from_mode(0o4755)).unwrap();

    write(&file, "report", b"after").unwrap();

    assert_eq!(file.metadata().unwrap().mode() & 0o7777, 0o755);
}

#[test]
fn other_name_of_a_file_keeps_the_old_content() {
    let dir = tempfile::tempdir().unwrap();
    let (file, other) = (dir.path().join("file"), dir.path().join("other"));
    fs::write(&other, "before").unwrap();
    fs::hard_link(&other, &file).unwrap();

    write(&file, "report", b"after").unwrap();

    assert_eq!(fs::read_to_string(&file).unwrap(), "after");
    assert_eq!(fs::read_to_string(&other).unwrap(), "before");
}

#[test]
fn path_that_cannot_be_a_file_is_refused_with_a_remedy() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("file");
    fs::write(&file, "before").unwrap();
    let below = |name: &str| dir.path().join(name);
    for (path, why) in [
        (dir.path().to_owned(), "give the name of a file"),
        (below("."), "give the name of a file"),
        (below("none/file"), "No such file"),
        (below("file/"), "Not a directory"),
        (below("new/"), "No such file"),
        (below("file/inner"), "Not a directory"),
        (PathBuf::new(), ""),
    ] {
        let refused = write(&path, "report", b"after").unwrap_err();

        assert!(
            format!("{refused:#}").contains(why),
            "{path:?}: {refused:#}"
        );
    }
    assert_eq!(fs::read_to_string(&file).unwrap(), "before");
    assert_eq!(fs::read_dir(&dir).unwrap().count(), 1);
}

/// File that this program, started again in its directory and as another user, writes.
const WRITTEN: &str = "LAGGARD_TEST_WRITTEN";

/// Runs the test `name` of this program as another user in `dir`.
fn as_stranger(name: &str, dir: &Path, file: &str) -> String {
    // A user who may not enter the program's directory can still run its copy.
    let program = dir.join("program");
    fs::copy(std::env::current_exe().unwrap(), &program).unwrap();
    let output = Command::new("setpriv")
        .args(["--reuid=65534", "--regid=65534", "--clear-groups"])
        .arg(&program)
        .args(["--exact", name, "--nocapture"])
        .env(WRITTEN, file)
        .current_dir(dir)
        .output()
        .unwrap();
    fs::remove_file(&program).unwrap();
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// As in a container, or if root gave a user one file.
#[test]
fn file_in_a_directory_without_write_access_is_overwritten_when_complete() {
    let name = "tests::file_in_a_directory_without_write_access_is_overwritten_when_complete";
    if let Some(file) = std::env::var_os(WRITTEN) {
        let written = write(Path::new(&file), "report", b"after");
        return println!(
            "{:#}",
            written.err().unwrap_or_else(|| anyhow::anyhow!("written"))
        );
    }
    if !geteuid().is_root() {
        return println!("skipped: it takes root to be another user");
    }
    let dir = tempfile::tempdir().unwrap();
    fs::set_permissions(&dir, Permissions::from_mode(0o755)).unwrap();
    let (file, other) = (dir.path().join("file"), dir.path().join("other"));
    fs::write(&file, "before, and longer").unwrap();
    chown(&file, Some(STRANGER), None).unwrap();

    let output = as_stranger(name, dir.path(), "file");

    assert!(output.contains("written"), "{output}");
    assert_eq!(fs::read_to_string(&file).unwrap(), "after");
    fs::write(&file, "before").unwrap();
    fs::hard_link(&file, &other).unwrap();
    let output = as_stranger(name, dir.path(), "file");
    assert!(output.contains("another hard link"), "{output}");
    assert_eq!(fs::read_to_string(&file).unwrap(), "before");
    let output = as_stranger(name, dir.path(), "new");
    assert!(
        output.contains("choose a directory where you may create files"),
        "{output}"
    );
    assert_eq!(fs::read_dir(&dir).unwrap().count(), 2);
}

/// Containers mount single files in this way.
#[test]
fn mount_point_is_overwritten() {
    let dir = tempfile::tempdir().unwrap();
    let (file, source) = (dir.path().join("file"), dir.path().join("source"));
    fs::write(&file, "").unwrap();
    fs::write(&source, "before, and longer").unwrap();
    let mounted = Command::new("mount")
        .arg("--bind")
        .args([&source, &file])
        .status();
    if !mounted.is_ok_and(|status| status.success()) {
        return println!("skipped: it takes root to mount a file");
    }

    let written = write(&file, "report", b"after");

    assert!(
        Command::new("umount")
            .arg(&file)
            .status()
            .unwrap()
            .success()
    );
    written.unwrap();
    assert_eq!(fs::read_to_string(&source).unwrap(), "after");
    assert_eq!(fs::read_dir(&dir).unwrap().count(), 2);
}

#[test]
fn open_file_is_written_to_by_its_name_in_proc() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("file");
    let open = File::create(&file).unwrap();
    use std::os::fd::AsRawFd as _;
    let link = PathBuf::from(format!("/proc/self/fd/{}", open.as_raw_fd()));

    write(&link, "report", b"whole").unwrap();

    assert_eq!(fs::read_to_string(&file).unwrap(), "whole");
    assert_eq!(fs::read_dir(&dir).unwrap().count(), 1);
    write(Path::new("/dev/null"), "report", b"whole").unwrap();
    assert!(
        fs::metadata("/dev/null")
            .unwrap()
            .file_type()
            .is_char_device()
    );
    let full = write(Path::new("/dev/full"), "report", b"whole").unwrap_err();
    assert!(format!("{full:#}").contains("No space left"), "{full:#}");
}

#[test]
fn log_is_new_and_follows_no_link() {
    let dir = tempfile::tempdir().unwrap();
    let (file, link) = (dir.path().join("file"), dir.path().join("link"));
    symlink(&file, &link).unwrap();

    let mut log = LogFile::create(&file).unwrap();
    log.write_all(b"line").unwrap();
    let again = LogFile::create(&link).unwrap_err();

    assert_eq!(again.kind(), io::ErrorKind::AlreadyExists);
    assert_eq!(fs::read_to_string(&file).unwrap(), "line");
    log.discard().unwrap();
    assert!(!file.exists());
}
