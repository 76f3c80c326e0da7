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
        let how = match is_bind {
            true => vec!["--bind", own.to_str().unwrap()],
            false => vec!["-t", "tmpfs", "tmpfs"],
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
