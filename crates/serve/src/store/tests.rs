//! What is removed, and what never.

use super::*;

/// A folder that looks like a recording, of 64 KiB.
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
fn the_oldest_go_first_and_what_is_not_ours_stays() {
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
fn what_is_being_made_is_never_removed_though_its_name_is_the_oldest() {
    let dir = tempfile::TempDir::new().unwrap();
    let current = "serve-1999-01-01T00-00-00Z.laggard";
    recording(dir.path(), current);
    recording(dir.path(), "serve-2026-01-01T01-00-00Z.laggard");

    let refused = keeper(dir.path(), 1, Some(current)).tidy().unwrap_err();

    assert_eq!(names(dir.path()), [current]);
    assert!(refused.to_string().contains("--keep"), "{refused}");
}

/// The newest were removed as if they were the oldest.
#[test]
fn where_the_clock_was_set_back_what_was_made_before_goes_first() {
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
fn a_full_disk_costs_the_oldest_recordings_and_no_more_than_it_takes() {
    let dir = tempfile::TempDir::new().unwrap();
    let name = |hour: u32| format!("serve-2026-01-01T0{hour}-00-00Z.laggard");
    for hour in 0..5 {
        recording(dir.path(), &name(hour));
    }
    let keeper = keeper(dir.path(), u64::MAX, Some(&name(4)));
    // Enough where four are left.
    let free = |of: &Path| Ok(LEAST + (4 << 16) - ((names(of).len() as u64) << 16));

    assert_eq!(keeper.make_room(|of| free(of)).unwrap(), 1);
    assert_eq!(keeper.make_room(|of| free(of)).unwrap(), 0);
    assert_eq!(names(dir.path()), [1, 2, 3, 4].map(name));
    assert_eq!(keeper.series.removed.get(), 1);

    // Full of others' things: what ours take is not enough.
    let full = keeper.make_room(|_| Ok(0)).unwrap_err();
    assert!(full.to_string().contains("other things"), "{full}");
    assert_eq!(names(dir.path()).len(), 4);
}

/// It was not said.
#[test]
fn an_old_recording_that_cannot_be_removed_is_said_and_others_go_instead() {
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
        // Of the same file system, or another.
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

        let said = keeper(&store, 80 << 10, None).tidy();
        let left = names(&store);
        assert!(run("umount", &[]).unwrap().status.success());

        assert_eq!(left, [name(0), name(2)], "{how:?}");
        let said = said.unwrap_err().to_string();
        assert!(
            said.contains(&name(0)) && said.contains("mounted"),
            "{said}"
        );
        assert!(own.join("precious").exists(), "{how:?}");
    }
}

/// A folder of any other name, mounted anywhere, kept all recordings for ever.
#[test]
fn where_something_is_mounted_is_read_whatever_its_name() {
    let dir = tempfile::TempDir::new().unwrap();
    let file = dir.path().join("mountinfo");
    let odd =
        b"36 35 0:5 / /x\xffy rw - tmpfs tmpfs rw\n37 35 0:6 / /a\\040b rw - ext4 /dev/vda rw\n";
    fs::write(&file, odd).unwrap();

    let found = mount_points(&file).unwrap();

    let odd = OsString::from_vec(b"/x\xffy".to_vec());
    assert_eq!(found, [PathBuf::from(odd), PathBuf::from("/a b")]);
}

#[test]
fn a_store_has_one_writer_and_no_name_twice() {
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

/// A store in a directory of its own, with a recording that is being written.
fn recorded_store() -> (tempfile::TempDir, PathBuf, Store, String) {
    let around = tempfile::TempDir::new().unwrap();
    let dir = around.path().join("store");
    let store = open(&dir).unwrap();
    let name = store.next_name();
    begun(&dir, &name);
    store.note_recording(&name);
    (around, dir, store, name)
}

/// A folder like that of a recording that is being written.
fn begun(dir: &Path, name: &str) {
    recording(dir, name);
    fs::write(dir.join(name).join("manifest-start.json"), "{}").unwrap();
    fs::create_dir(dir.join(name).join("samples")).unwrap();
}

/// Tries until there is a result: what another test starts holds our open files for the
/// moment between its fork and its exec, and with them locks and room on disk.
fn eventually<T>(mut result: impl FnMut() -> Option<T>) -> T {
    /// A limit against hanging, not an expectation: generous on purpose.
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
fn a_store_has_one_writer_however_its_path_is_spelt() {
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
        let said = refusal(open(&path));
        assert!(
            said.contains("another `laggard serve` writes"),
            "{path:?}: {said}"
        );
    }
    // The file alone does not protect it: others may remove it.
    fs::remove_file(dir.join(LOCK)).unwrap();
    let said = refusal(open(&dir));
    assert!(said.contains("another"), "{said}");
}

#[test]
fn a_linked_store_is_opened_and_freed_at_the_end() {
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

/// It was lost for the rest of the run, and nothing said so.
#[test]
fn a_store_that_is_removed_is_noticed_and_made_again() {
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
fn a_recording_that_is_removed_while_it_is_written_is_noticed() {
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
fn the_lock_s_file_is_made_again_without_the_end_of_the_recording() {
    let (_around, dir, store, _) = recorded_store();
    fs::remove_file(dir.join(LOCK)).unwrap();

    assert_eq!(store.check(&mut Instant::now()), None);

    assert!(dir.join(LOCK).is_file());
    // What an earlier version looks at is locked.
    let lock = lock_file(&dir.join(LOCK)).unwrap();
    assert!(matches!(lock.try_lock(), Err(fs::TryLockError::WouldBlock)));
}

#[test]
fn a_directory_in_the_place_of_the_store_is_taken_and_has_one_writer() {
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
    // The one that was moved away is not written any more.
    assert!(around.path().join("moved").join(&name).exists());
    eventually(|| open(&around.path().join("moved")).ok());
}

#[test]
fn another_writer_that_took_the_place_is_not_joined_but_outlived() {
    let (_around, dir, store, _) = recorded_store();
    fs::remove_dir_all(&dir).unwrap();
    let other = open(&dir).unwrap();

    let said = refusal(store.restore());
    store.note_failure();
    let mut tried = Instant::now().checked_sub(TRY_EVERY).unwrap();
    let during = store.check(&mut tried);
    drop(other);
    let due = || Instant::now().checked_sub(TRY_EVERY).unwrap();
    let after = eventually(|| store.check(&mut due()));

    assert!(said.contains("another `laggard serve`"), "{said}");
    assert_eq!((during, after), (None, EarlyEnd::StoreBack));
}

#[test]
fn what_another_user_puts_in_the_place_of_the_store_is_refused() {
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

        let said = refusal(store.try_to_write());

        assert!(said.contains("user 65534"), "{said}");
        assert_eq!(names(&target), [""; 0]);
        fs::remove_file(&dir)
            .or_else(|_| fs::remove_dir(&dir))
            .unwrap();
        store.restore().unwrap();
    }
}

#[test]
fn what_is_no_directory_in_the_place_of_the_store_is_refused_until_it_is_gone() {
    let (_around, dir, store, _) = recorded_store();
    fs::remove_dir_all(&dir).unwrap();
    fs::write(&dir, "not a store").unwrap();

    let said = refusal(store.restore());

    assert!(said.contains("open the store"), "{said}");
    assert_eq!(fs::read_to_string(&dir).unwrap(), "not a store");
    fs::remove_file(&dir).unwrap();
    store.restore().unwrap();
    // The directory around it is gone, too: that may be a disk that is not mounted.
    fs::remove_dir_all(dir.parent().unwrap()).unwrap();
    let said = refusal(store.restore());
    assert!(said.contains("make the store"), "{said}");
    assert!(!dir.exists());
}

/// A file system that is mounted on `dir` until it is dropped; `None`: none can be mounted.
struct Mounted<'a>(&'a Path);

impl<'a> Mounted<'a> {
    /// Mounts what is at `dir` there once more, with the option `how`.
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
fn another_file_system_in_the_place_of_the_store_is_not_filled() {
    let (_around, dir, store, _) = recorded_store();
    let Some(mounted) = Mounted::tmpfs(&dir, "16m") else {
        return;
    };

    let empty = refusal(store.restore());
    let found = names(&dir);
    // Another `laggard serve` may have left its lock file there.
    fs::write(dir.join(LOCK), "").unwrap();
    let with_lock = refusal(store.restore());
    drop(mounted);

    for said in [empty, with_lock] {
        assert!(said.contains("another file system"), "{said}");
    }
    assert_eq!(found, [""; 0]);
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
fn a_recording_is_known_by_the_whole_of_its_name_and_the_second_of_a_second_is_newer() {
    let name = |rest: &str| format!("serve-2026-01-01T00-00-00Z{rest}.laggard");

    let ages: Vec<_> = ["", "-2", "-10"].map(|rest| age(&name(rest))).into();

    assert!(
        ages.iter().all(Option::is_some) && ages.is_sorted(),
        "{ages:?}"
    );
    for foreign in ["-1", "-02", "-x", "-", "x", " ", "-2-3"] {
        assert_eq!(age(&name(foreign)), None, "{foreign}");
    }
    assert_eq!(age("serve-2026-02-30T00-00-00Z.laggard"), None);
    assert_eq!(age("serve-2026-1-1T00-00-00Z.laggard"), None);
}

/// Root's own files were emptied by it.
#[test]
fn a_link_in_the_place_of_the_lock_is_not_followed_and_a_file_there_not_emptied() {
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
fn what_is_mounted_in_a_recording_makes_it_none_of_ours_to_remove() {
    let dir = tempfile::TempDir::new().unwrap();
    recording(dir.path(), "r");
    let device = fs::metadata(dir.path()).unwrap().dev();

    let own = size(&dir.path().join("r"), device).unwrap();

    assert!(own >= Some(64 << 10), "{own:?}");
    assert_eq!(size(&dir.path().join("r"), device + 1).unwrap(), None);
    assert_eq!(size(&dir.path().join("gone"), device).unwrap(), Some(0));
}
