//! Tests which recordings are removed, and which never are.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;

use super::held::lock_file;
use super::recordings::{mount_points, parse_name, size};
use super::*;

/// Creates a directory of 64 KiB that looks like a recording.
fn recording(dir: &Path, name: &str) {
    let path = dir.join(name);
    fs::create_dir(&path).unwrap();
    fs::write(path.join("data"), vec![7; 64 << 10]).unwrap();
}

fn keeper(dir: &Path, keep: u64, current: Option<&str>) -> StoreKeeper {
    StoreKeeper {
        dir: dir.to_owned(),
        keep,
        series: StoreSeries::default(),
        current: Arc::new(Mutex::new(current.map(str::to_owned))),
    }
}

fn names(dir: &Path) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[test]
fn oldest_recordings_are_removed_first_and_other_entries_stay() {
    let dir = tempfile::TempDir::new().unwrap();
    for name in [
        "serve-2026-01-01T00-00-00Z.laggard",
        "serve-2026-01-01T01-00-00Z.laggard",
        "serve-2026-01-01T02-00-00Z.laggard",
        "mine.laggard",
        "serve-baseline.laggard",
        "serve-2026-01-01T00-00-00Z-old.laggard",
        "serve-2026-01-01.laggard",
    ] {
        recording(dir.path(), name);
    }
    std::os::unix::fs::symlink(
        "mine.laggard",
        dir.path().join("serve-2025-01-01T00-00-00Z.laggard"),
    )
    .unwrap();
    let keeper = keeper(dir.path(), 160 << 10, None);

    keeper.tidy().unwrap();

    assert_eq!(
        names(dir.path()),
        [
            "mine.laggard",
            "serve-2025-01-01T00-00-00Z.laggard",
            "serve-2026-01-01.laggard",
            "serve-2026-01-01T00-00-00Z-old.laggard",
            "serve-2026-01-01T01-00-00Z.laggard",
            "serve-2026-01-01T02-00-00Z.laggard",
            "serve-baseline.laggard",
        ]
    );
    assert_eq!(keeper.series.removed.get(), 1);
}

#[test]
fn recording_in_progress_is_not_removed_even_with_the_oldest_name() {
    let dir = tempfile::TempDir::new().unwrap();
    let current = "serve-1999-01-01T00-00-00Z.laggard";
    recording(dir.path(), current);
    recording(dir.path(), "serve-2026-01-01T01-00-00Z.laggard");

    let refused = keeper(dir.path(), 1, Some(current)).tidy().unwrap_err();

    assert_eq!(names(dir.path()), [current]);
    assert!(refused.to_string().contains("--keep"), "{refused}");
}

/// The newest recordings were removed as if they were the oldest.
#[test]
fn recordings_from_before_a_clock_setback_are_removed_first() {
    let dir = tempfile::TempDir::new().unwrap();
    let before = ["2026-05-01T00-00-00Z", "2026-05-01T01-00-00Z"];
    let since = ["2026-04-01T00-00-00Z", "2026-04-01T01-00-00Z"];
    let name = |time: &str| format!("serve-{time}.laggard");
    for time in before.into_iter().chain(since) {
        recording(dir.path(), &name(time));
    }
    let keeper = keeper(dir.path(), 160 << 10, Some(&name(since[1])));

    keeper.tidy().unwrap();

    assert_eq!(names(dir.path()), since.map(name));
}

#[test]
fn full_disk_removes_only_as_many_of_the_oldest_as_needed() {
    let dir = tempfile::TempDir::new().unwrap();
    let name = |hour: u32| format!("serve-2026-01-01T0{hour}-00-00Z.laggard");
    for hour in 0..5 {
        recording(dir.path(), &name(hour));
    }
    let keeper = keeper(dir.path(), u64::MAX, Some(&name(4)));
    // Enough room when four are left.
    let free = |dir: &Path| Ok(MIN_RECORDING_SIZE + (4 << 16) - ((names(dir).len() as u64) << 16));

    assert_eq!(keeper.make_room(|dir| free(dir)).unwrap(), 1);
    assert_eq!(keeper.make_room(|dir| free(dir)).unwrap(), 0);
    assert_eq!(names(dir.path()), [1, 2, 3, 4].map(name));
    assert_eq!(keeper.series.removed.get(), 1);

    // The disk is full of other files: removing all recordings does not free enough.
    let full = keeper.make_room(|_| Ok(0)).unwrap_err();
    assert!(full.to_string().contains("other things"), "{full}");
    assert_eq!(names(dir.path()).len(), 4);
}

/// This was not printed.
#[test]
fn unremovable_recording_is_reported_and_others_are_removed() {
    let name = |hour: u32| format!("serve-2026-01-01T0{hour}-00-00Z.laggard");
    for is_bind in [false, true] {
        // A blank, which the kernel escapes.
        let dir = tempfile::Builder::new().prefix("a b").tempdir().unwrap();
        let (own, store) = (dir.path().join("own"), dir.path().join("store"));
        fs::create_dir(&own).unwrap();
        fs::write(own.join("precious"), "x").unwrap();
        fs::create_dir(&store).unwrap();
        for hour in 0..3 {
            recording(&store, &name(hour));
        }
        let mounted = store.join(name(0)).join("mounted");
        fs::create_dir(&mounted).unwrap();
        // Bind mount of the same file system, or another file system.
        let how = if is_bind {
            vec!["--bind", own.to_str().unwrap()]
        } else {
            vec!["-t", "tmpfs", "tmpfs"]
        };
        let run = |program: &str, args: &[&str]| {
            let mut command = std::process::Command::new(program);
            command.args(args).arg(&mounted).output()
        };
        if !run("mount", &how).is_ok_and(|output| output.status.success()) {
            println!("\nskipped: nothing can be mounted here");
            return;
        }

        let error = keeper(&store, 80 << 10, None).tidy();
        let left = names(&store);
        assert!(run("umount", &[]).unwrap().status.success());

        assert_eq!(left, [name(0), name(2)], "{how:?}");
        let error = error.unwrap_err().to_string();
        assert!(
            error.contains(&name(0)) && error.contains("mounted"),
            "{error}"
        );
        assert!(own.join("precious").exists(), "{how:?}");
    }
}

/// A mounted directory with any name, anywhere, prevented the removal of all recordings.
#[test]
fn mount_points_with_any_name_are_read() {
    let dir = tempfile::TempDir::new().unwrap();
    let file = dir.path().join("mountinfo");
    let odd =
        b"36 35 0:5 / /x\xffy rw - tmpfs tmpfs rw\n37 35 0:6 / /a\\040b rw - ext4 /dev/vda rw\n";
    fs::write(&file, odd).unwrap();

    let points = mount_points(&file).unwrap();

    let odd = OsString::from_vec(b"/x\xffy".to_vec());
    assert_eq!(points, [PathBuf::from(odd), PathBuf::from("/a b")]);
}

#[test]
fn store_has_one_writer_and_unique_names() {
    let dir = tempfile::TempDir::new().unwrap();
    let open = || Store::open(dir.path(), 1 << 20, StoreSeries::default());
    let store = open().unwrap();

    let refused = open().unwrap_err();

    assert!(refused.to_string().contains("another"), "{refused}");
    let first = store.next().path().to_owned();
    fs::create_dir(&first).unwrap();
    assert_ne!(store.next().path(), first);
}

fn open(dir: &Path) -> anyhow::Result<Store> {
    Store::open(dir, 1 << 20, StoreSeries::default())
}

/// Creates a store in a new directory, with a recording in progress.
fn recorded_store() -> (tempfile::TempDir, PathBuf, Store, String) {
    let around = tempfile::TempDir::new().unwrap();
    let dir = around.path().join("store");
    let store = open(&dir).unwrap();
    let name = store.next_name();
    begun(&dir, &name);
    store.note_recording(&name);
    (around, dir, store, name)
}

/// Creates a directory that looks like a recording in progress.
fn begun(dir: &Path, name: &str) {
    recording(dir, name);
    fs::write(dir.join(name).join("manifest-start.json"), "{}").unwrap();
    fs::create_dir(dir.join(name).join("samples")).unwrap();
}

/// Tries until there is a result. A child that another test starts inherits our open files between
/// its fork and its exec, and with them locks and disk space.
fn eventually<T>(mut result: impl FnMut() -> Option<T>) -> T {
    /// Limit that detects a hang, not an expected duration. It is therefore generous.
    const DEADLINE: Duration = Duration::from_secs(60);
    let began = Instant::now();
    loop {
        if let Some(result) = result() {
            return result;
        }
        assert!(began.elapsed() < DEADLINE, "no result in {DEADLINE:?}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn refusal(result: anyhow::Result<impl std::fmt::Debug>) -> String {
    format!("{:#}", result.unwrap_err())
}

fn is_root() -> bool {
    let is_root = geteuid().is_root();
    if !is_root {
        println!("\nskipped: only root can give files to other users");
    }
    is_root
}

#[test]
fn store_has_one_writer_for_all_spellings_of_its_path() {
    let around = tempfile::TempDir::new().unwrap();
    let dir = around.path().join("store");
    let _store = open(&dir).unwrap();
    let link = around.path().join("link");
    std::os::unix::fs::symlink(&dir, &link).unwrap();

    for path in [
        dir.clone(),
        dir.join("."),
        around.path().join("store/../store"),
        around.path().join(".//store/"),
        link.clone(),
        link.join("."),
    ] {
        let error = refusal(open(&path));
        assert!(
            error.contains("another `laggard serve` writes"),
            "{path:?}: {error}"
        );
    }
    // The file alone does not protect the store: other users may remove it.
    fs::remove_file(dir.join(LOCK)).unwrap();
    let error = refusal(open(&dir));
    assert!(error.contains("another"), "{error}");
}

#[test]
fn linked_store_is_opened_and_released() {
    let around = tempfile::TempDir::new().unwrap();
    let (dir, link) = (around.path().join("real"), around.path().join("link"));
    fs::create_dir(&dir).unwrap();
    std::os::unix::fs::symlink(&dir, &link).unwrap();

    let store = open(&link).unwrap();
    store.restore().unwrap();
    assert!(refusal(open(&dir)).contains("another"));
    drop(store);

    eventually(|| open(&dir).ok());
}

/// The store was lost for the rest of the run without a message.
#[test]
fn removed_store_is_detected_and_created_again() {
    let (_around, dir, store, _) = recorded_store();
    let mut tried = Instant::now();
    assert_eq!(store.check(&mut tried), None);

    fs::remove_dir_all(&dir).unwrap();
    let cut = store.check(&mut tried);
    store.restore().unwrap();

    let Some(EarlyEnd::StoreLost(why)) = cut else {
        panic!("{cut:?}")
    };
    assert!(why.contains("removed") && why.contains("store"), "{why}");
    assert!(
        refusal(open(&dir)).contains("another"),
        "it is locked again"
    );
    begun(&dir, "serve-2026-01-01T00-00-00Z.laggard");
    store.note_recording("serve-2026-01-01T00-00-00Z.laggard");
    assert_eq!(store.check(&mut tried), None);
}

#[test]
fn recording_removed_during_writing_is_detected() {
    for what in ["", "replaced", "samples", "manifest-start.json"] {
        let (_around, dir, store, name) = recorded_store();

        let part = dir.join(&name).join(what);
        match what {
            "manifest-start.json" => fs::remove_file(part).unwrap(),
            "samples" => fs::remove_dir(part).unwrap(),
            _ => fs::remove_dir_all(dir.join(&name)).unwrap(),
        }
        if what == "replaced" {
            std::os::unix::fs::symlink("/", dir.join(&name)).unwrap();
        }

        let cut = store.check(&mut Instant::now());
        let Some(EarlyEnd::StoreLost(why)) = cut else {
            panic!("{cut:?}")
        };
        assert!(why.contains(&name), "{why}");
        store.note_idle();
        assert_eq!(store.check(&mut Instant::now()), None);
    }
}

#[test]
fn lock_file_is_created_again_without_ending_the_recording() {
    let (_around, dir, store, _) = recorded_store();
    fs::remove_file(dir.join(LOCK)).unwrap();

    assert_eq!(store.check(&mut Instant::now()), None);

    assert!(dir.join(LOCK).is_file());
    // An earlier version checks this lock.
    let lock = lock_file(&dir.join(LOCK)).unwrap();
    assert!(matches!(lock.try_lock(), Err(fs::TryLockError::WouldBlock)));
}

#[test]
fn replacement_of_the_store_is_used_and_has_one_writer() {
    let (around, dir, store, name) = recorded_store();
    fs::rename(&dir, around.path().join("moved")).unwrap();
    fs::create_dir(&dir).unwrap();

    let cut = store.check(&mut Instant::now());
    store.restore().unwrap();

    let Some(EarlyEnd::StoreLost(why)) = cut else {
        panic!("{cut:?}")
    };
    assert!(why.contains("replaced"), "{why}");
    assert!(refusal(open(&dir)).contains("another"));
    // The recording that was moved away is not written any more.
    assert!(around.path().join("moved").join(&name).exists());
    eventually(|| open(&around.path().join("moved")).ok());
}

#[test]
fn store_with_another_writer_is_not_used_until_it_ends() {
    let (_around, dir, store, _) = recorded_store();
    fs::remove_dir_all(&dir).unwrap();
    let other = open(&dir).unwrap();

    let error = refusal(store.restore());
    store.note_failure();
    let mut tried = Instant::now().checked_sub(TRY_EVERY).unwrap();
    let during = store.check(&mut tried);
    drop(other);
    let due = || Instant::now().checked_sub(TRY_EVERY).unwrap();
    let after = eventually(|| store.check(&mut due()));

    assert!(error.contains("another `laggard serve`"), "{error}");
    assert_eq!((during, after), (None, EarlyEnd::StoreBack));
}

#[test]
fn replacement_by_another_user_is_refused() {
    const STRANGER: u32 = 65_534;
    if !is_root() {
        return;
    }
    for is_link in [false, true] {
        let (around, dir, store, _) = recorded_store();
        let target = around.path().join("precious");
        fs::create_dir(&target).unwrap();
        fs::remove_dir_all(&dir).unwrap();
        if is_link {
            std::os::unix::fs::symlink(&target, &dir).unwrap();
        } else {
            fs::create_dir(&dir).unwrap();
        }
        std::os::unix::fs::lchown(&dir, Some(STRANGER), None).unwrap();

        let error = refusal(store.try_to_write());

        assert!(error.contains("user 65534"), "{error}");
        assert_eq!(names(&target), [""; 0]);
        fs::remove_file(&dir)
            .or_else(|_| fs::remove_dir(&dir))
            .unwrap();
        store.restore().unwrap();
    }
}

#[test]
fn file_in_place_of_the_store_is_refused_until_removed() {
    let (_around, dir, store, _) = recorded_store();
    fs::remove_dir_all(&dir).unwrap();
    fs::write(&dir, "not a store").unwrap();

    let error = refusal(store.restore());

    assert!(error.contains("open the store"), "{error}");
    assert_eq!(fs::read_to_string(&dir).unwrap(), "not a store");
    fs::remove_file(&dir).unwrap();
    store.restore().unwrap();
    // The parent directory is gone, too: it may be on a disk that is not mounted.
    fs::remove_dir_all(dir.parent().unwrap()).unwrap();
    let error = refusal(store.restore());
    assert!(error.contains("create the store"), "{error}");
    assert!(!dir.exists());
}

/// File system that is mounted on `dir` until it is dropped; `None` if mounting is impossible.
struct Mounted<'a>(&'a Path);

impl<'a> Mounted<'a> {
    /// Mounts the directory on itself, with the option `how`.
    fn again(dir: &'a Path, how: &str) -> Self {
        let run = |words: &[&str]| {
            let done = std::process::Command::new("mount")
                .args(words)
                .arg(dir)
                .status();
            assert!(done.unwrap().success(), "mount {words:?} {dir:?}");
        };
        run(&["--bind", dir.to_str().unwrap()]);
        let mounted = Self(dir);
        run(&["-o", &format!("remount,bind,{how}")]);
        mounted
    }

    fn tmpfs(dir: &'a Path, size: &str) -> Option<Self> {
        let mut mount = std::process::Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", &format!("size={size}"), "tmpfs"]);
        let done = mount.arg(dir).output();
        if done.is_ok_and(|output| output.status.success()) {
            return Some(Self(dir));
        }
        println!("\nskipped: nothing can be mounted here");
        None
    }
}

impl Drop for Mounted<'_> {
    fn drop(&mut self) {
        eventually(|| {
            let done = std::process::Command::new("umount").arg(self.0).status();
            done.is_ok_and(|status| status.success()).then_some(())
        });
    }
}

#[test]
fn another_file_system_in_place_of_the_store_is_refused() {
    let (_around, dir, store, _) = recorded_store();
    let Some(mounted) = Mounted::tmpfs(&dir, "16m") else {
        return;
    };

    let empty = refusal(store.restore());
    let files = names(&dir);
    // Another `laggard serve` may have left its lock file there.
    fs::write(dir.join(LOCK), "").unwrap();
    let with_lock = refusal(store.restore());
    drop(mounted);

    for error in [empty, with_lock] {
        assert!(error.contains("another file system"), "{error}");
    }
    assert_eq!(files, [""; 0]);
    store.restore().unwrap();
}

#[test]
fn recording_starts_again_when_a_full_or_read_only_file_system_has_room() {
    let around = tempfile::TempDir::new().unwrap();
    let disk = around.path().join("disk");
    fs::create_dir(&disk).unwrap();
    let Some(mounted) = Mounted::tmpfs(&disk, "8m") else {
        return;
    };
    let store = open(&disk.join("store")).unwrap();
    let due = || Instant::now().checked_sub(TRY_EVERY).unwrap();
    store.note_failure();
    assert_eq!(store.check(&mut due()), None, "nothing was wrong");

    fs::write(disk.join("other"), vec![7; 6 << 20]).unwrap();
    let full = refusal(store.try_to_write());
    store.note_failure();
    let while_full = store.check(&mut due());
    fs::remove_file(disk.join("other")).unwrap();
    let with_room = eventually(|| store.check(&mut due()));
    let read_only_mount = Mounted::again(&disk, "ro");
    let read_only = refusal(store.try_to_write());
    store.note_failure();
    let while_read_only = store.check(&mut due());
    drop(read_only_mount);
    let writable = eventually(|| store.check(&mut due()));
    drop(store);
    drop(mounted);

    assert!(full.contains("full"), "{full}");
    assert!(read_only.contains("Read-only"), "{read_only}");
    assert_eq!((while_full, while_read_only), (None, None));
    assert_eq!(with_room, EarlyEnd::StoreBack);
    assert_eq!(writable, EarlyEnd::StoreBack);
}

#[test]
fn names_are_matched_completely_and_ordered_by_number() {
    let name = |rest: &str| format!("serve-2026-01-01T00-00-00Z{rest}.laggard");

    let ages: Vec<_> = ["", "-2", "-10"].map(|rest| parse_name(&name(rest))).into();

    assert!(
        ages.iter().all(Option::is_some) && ages.is_sorted(),
        "{ages:?}"
    );
    for foreign in ["-1", "-02", "-x", "-", "x", " ", "-2-3"] {
        assert_eq!(parse_name(&name(foreign)), None, "{foreign}");
    }
    assert_eq!(parse_name("serve-2026-02-30T00-00-00Z.laggard"), None);
    assert_eq!(parse_name("serve-2026-1-1T00-00-00Z.laggard"), None);
}

/// It emptied files of root.
#[test]
fn lock_file_that_is_a_link_is_not_followed_and_a_file_is_not_emptied() {
    let dir = tempfile::TempDir::new().unwrap();
    let (store, precious) = (dir.path().join("store"), dir.path().join("precious"));
    fs::create_dir(&store).unwrap();
    fs::write(&precious, "x").unwrap();
    let open = || Store::open(&store, 1 << 20, StoreSeries::default());
    std::os::unix::fs::symlink(&precious, store.join(".lock")).unwrap();

    let refused = open().unwrap_err();
    fs::remove_file(store.join(".lock")).unwrap();
    fs::hard_link(&precious, store.join(".lock")).unwrap();
    open().unwrap();

    assert!(refused.to_string().contains(".lock"), "{refused}");
    assert_eq!(fs::read_to_string(&precious).unwrap(), "x");
}

#[test]
fn recording_with_a_mount_point_is_not_removed() {
    let dir = tempfile::TempDir::new().unwrap();
    recording(dir.path(), "r");
    let device = fs::metadata(dir.path()).unwrap().dev();

    let own = size(&dir.path().join("r"), device).unwrap();

    assert!(own >= Some(64 << 10), "{own:?}");
    assert_eq!(size(&dir.path().join("r"), device + 1).unwrap(), None);
    assert_eq!(size(&dir.path().join("gone"), device).unwrap(), Some(0));
}
