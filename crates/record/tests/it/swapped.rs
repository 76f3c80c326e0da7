//! The owner of the parent directory can replace the recording's directory with a link
//! while another user records into it. No write may follow the link.

#![cfg(unix)]

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown, lchown, symlink};
use std::path::{Path, PathBuf};

use laggard_model::{Cpu, Episode, EpisodeNotes, Keep, Nanos, State};
use laggard_record::{
    Access, CreateError, Destination, EpisodeWriter, Folder, Recorder, Recording, put_answer,
};

use crate::fixture::{Rows, START, manifest};

/// Parent directory that another user may rename, and a directory to protect.
struct Around {
    /// Removes all at the end.
    _dir: tempfile::TempDir,
    theirs: PathBuf,
    moved: PathBuf,
    precious: PathBuf,
}

impl Around {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let [theirs, moved, precious] =
            ["theirs", "moved", "precious"].map(|name| dir.path().join(name));
        fs::create_dir(&theirs).unwrap();
        // Destination of the link, with every name that is ever written, replaced or
        // removed.
        fs::create_dir_all(precious.join("r/samples")).unwrap();
        for name in [
            "manifest.json",
            "manifest-start.json",
            "reserve",
            "open-000001.journal",
            "samples/000001.parquet",
            "histograms-000000.parquet",
            "largest-000000.parquet",
            "episodes.json",
        ] {
            fs::write(precious.join("r").join(name), name).unwrap();
        }
        Self {
            _dir: dir,
            theirs,
            moved,
            precious,
        }
    }

    /// Replaces the user's directory with a link to the protected one.
    fn swap(&self) {
        fs::rename(&self.theirs, &self.moved).unwrap();
        symlink(&self.precious, &self.theirs).unwrap();
    }

    /// Returns the content of the protected directory: owner and content by path.
    fn precious(&self) -> BTreeMap<PathBuf, (u32, String)> {
        let mut content = BTreeMap::new();
        let mut folders = vec![self.precious.clone()];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                let owner = fs::symlink_metadata(&path).unwrap().uid();
                let holds = if path.is_dir() {
                    String::new()
                } else {
                    String::from_utf8_lossy(&fs::read(&path).unwrap()).into_owned()
                };
                if path.is_dir() {
                    folders.push(path.clone());
                }
                content.insert(path, (owner, holds));
            }
        }
        content
    }
}

fn is_root(path: &Path) -> bool {
    fs::metadata(path).unwrap().uid() == 0
}

/// One message per difference, because the content of a file can be long.
fn check_same(before: &BTreeMap<PathBuf, (u32, String)>, after: &BTreeMap<PathBuf, (u32, String)>) {
    for (path, (owner, holds)) in before {
        let new = after.get(path);
        let path = path.display();
        let (new_owner, new) = new.unwrap_or_else(|| panic!("`{path}` was removed"));
        assert_eq!(owner, new_owner, "`{path}` was given away");
        assert!(holds == new, "`{path}` was written to");
    }
    for path in after.keys() {
        assert!(before.contains_key(path), "`{}` is new", path.display());
    }
}

#[test]
fn recording_is_never_written_through_a_swapped_parent() {
    for keep in [Keep::All, Keep::Tail] {
        let around = Around::new();
        let before = around.precious();
        let place = Destination::from(around.theirs.join("r"));
        Recorder::check(&place).unwrap();
        let mut recorder = Recorder::create(place.clone(), manifest(keep)).unwrap();
        let mut episodes = EpisodeWriter::new(recorder.folder());

        around.swap();
        // More than a segment.
        let batch = Rows::new(5).batch(70_000);
        let late = Episode::new(1, Cpu(0), &batch.get(0), Nanos::ZERO);
        recorder.append(&batch).unwrap();
        episodes.append(&late).unwrap();
        let notes = EpisodeNotes::default();
        recorder.flush(START + Nanos::from_secs(10)).unwrap();
        episodes
            .flush(START + Nanos::from_secs(10), &notes)
            .unwrap();
        episodes.finish(&notes).unwrap();
        recorder.finish(State::Complete).unwrap();
        let folder = place.folder().unwrap();
        put_answer(folder, "answer.json", b"").unwrap();
        if is_root(&around.moved) {
            folder.hand_over(65534, 65534).unwrap();
        }

        check_same(&before, &around.precious());
        let made = around.moved.join("r");
        if is_root(&around.moved) {
            assert_eq!(fs::metadata(&made).unwrap().uid(), 65534);
        }
        let recording = Recording::open(&made).unwrap();
        assert_eq!(recording.manifest().state, State::Complete, "{keep:?}");
        assert_eq!(recording.shortfalls(), [], "{keep:?}");
        assert!(made.join("episodes.json").is_file(), "{keep:?}");
    }
}

/// Seconds pass between the check of the destination, which comes first, and the start
/// of the recording.
#[test]
fn recording_starts_in_the_checked_directory() {
    let around = Around::new();
    let place = Destination::from(around.theirs.join("new"));
    Recorder::check(&place).unwrap();

    around.swap();
    let recorder = Recorder::create(place, manifest(Keep::All)).unwrap();

    assert!(around.moved.join("new/manifest.json").is_file());
    assert!(!around.precious.join("new").exists());
    recorder.discard().unwrap();
    assert!(!around.moved.join("new").exists());
}

#[test]
fn discard_removes_the_started_directory() {
    let around = Around::new();
    let before = around.precious();
    let recorder = Recorder::create(around.theirs.join("r"), manifest(Keep::All)).unwrap();

    around.swap();
    recorder.discard().unwrap();

    check_same(&before, &around.precious());
    assert!(!around.moved.join("r").exists());
}

#[test]
fn recordings_in_a_directory_stay_in_it() {
    let around = Around::new();
    let before = around.precious();
    let folder = Folder::make(&around.theirs.join("trial"), Access::Private).unwrap();

    around.swap();
    fs::create_dir(around.precious.join("trial")).unwrap();
    let place = Destination::within(&folder, "a01.laggard");
    Recorder::check(&place).unwrap();
    let recorder = Recorder::create(place, manifest(Keep::All)).unwrap();
    recorder.finish(State::Complete).unwrap();

    assert!(
        around
            .moved
            .join("trial/a01.laggard/manifest.json")
            .is_file()
    );
    fs::remove_dir(around.precious.join("trial")).unwrap();
    check_same(&before, &around.precious());
}

/// An empty directory can be one of the system's, through a link in its path.
#[test]
fn existing_directory_is_not_given_away() {
    let around = Around::new();
    let place = Destination::from(around.theirs.join("empty"));
    fs::create_dir(place.path()).unwrap();
    if !is_root(place.path()) {
        return println!("skipped: only root gives files away");
    }
    let recorder = Recorder::create(place.clone(), manifest(Keep::All)).unwrap();
    recorder.finish(State::Complete).unwrap();

    place.folder().unwrap().hand_over(65534, 65534).unwrap();

    let owner = |path: &Path| fs::metadata(path).unwrap().uid();
    assert_eq!(owner(place.path()), 0);
    assert_eq!(owner(&place.path().join("manifest.json")), 65534);
}

#[test]
fn link_in_place_of_a_recording_is_refused() {
    let around = Around::new();
    let place = around.theirs.join("link");
    fs::create_dir(around.precious.join("empty")).unwrap();
    symlink(around.precious.join("empty"), &place).unwrap();

    let error = Recorder::create(&place, manifest(Keep::All)).unwrap_err();

    assert!(matches!(error, CreateError::Link(_)), "{error:?}");
    assert_eq!(
        fs::read_dir(around.precious.join("empty")).unwrap().count(),
        0
    );
}

/// Any user can create the name that root is going to use in a directory such as `/tmp`.
#[test]
fn planted_directory_or_link_is_refused() {
    if !nix::unistd::geteuid().is_root() {
        println!("skipped: it takes root to create files of another user");
        return;
    }
    const STRANGER: Option<u32> = Some(65_534);
    let dir = tempfile::tempdir().unwrap();
    let shared = dir.path().join("shared");
    fs::create_dir(&shared).unwrap();
    fs::set_permissions(&shared, fs::Permissions::from_mode(0o1777)).unwrap();
    let [planted, own, link] = ["planted", "own", "link"].map(|name| shared.join(name));
    for path in [&planted, &own] {
        fs::create_dir(path).unwrap();
    }
    chown(&planted, STRANGER, None).unwrap();
    symlink(dir.path(), &link).unwrap();
    lchown(&link, STRANGER, None).unwrap();
    let create = |path: &Path| Recorder::create(path, manifest(Keep::All));

    let taken = create(&planted).unwrap_err();
    let through = create(&link.join("r.laggard")).unwrap_err();

    assert!(matches!(taken, CreateError::Foreign(_)), "{taken:?}");
    assert!(matches!(through, CreateError::Misled(_)), "{through:?}");
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    create(&own).unwrap();
    create(&shared.join("new")).unwrap();
}
