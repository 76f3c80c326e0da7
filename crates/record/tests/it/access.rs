//! Access rights of a recording, which contains names and call chains of all programs.

#![cfg(unix)]

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;

use laggard_model::{EpisodeNotes, Keep, Nanos, State};
use laggard_record::{Access, Destination, EpisodeWriter, Recorder};

use crate::fixture::{Rows, START, manifest};

/// Returns the access rights of a recording's directories and files, by path.
fn rights(dir: &Path) -> Vec<(String, u32)> {
    let mut paths = vec![(dir.to_owned(), String::from("."))];
    for index in 0.. {
        let Some((folder, _)) = paths.get(index).cloned() else {
            break;
        };
        if !folder.is_dir() {
            continue;
        }
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.strip_prefix(dir).unwrap().display().to_string();
            paths.push((path, name));
        }
    }
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    paths
        .into_iter()
        .map(|(path, name)| (name, mode(&path)))
        .collect()
}

/// Writes a recording with every kind of file: a segment, a journal, the tail's tables,
/// episodes.
fn record(dir: &Path, access: Access) -> Destination {
    let place = Destination::from(dir);
    let mut recorder = Recorder::create_for(place.clone(), manifest(Keep::Tail), access).unwrap();
    let episodes = EpisodeWriter::new(recorder.folder());
    recorder.append(&Rows::new(5).batch(70_000)).unwrap();
    recorder.flush(START + Nanos::from_secs(10)).unwrap();
    episodes.finish(&EpisodeNotes::default()).unwrap();
    check_running(dir, access);
    recorder.finish(State::Complete).unwrap();
    place
}

fn check_running(dir: &Path, access: Access) {
    let (folder, file) = match access {
        Access::Private => (0o700, 0o600),
        Access::Shared => (0o755, 0o644),
    };
    for (name, mode) in rights(dir) {
        let wanted = match name.as_str() {
            "." | "samples" => folder,
            _ => file,
        };
        assert_eq!(mode, wanted, "{name}: {mode:o}");
    }
}

#[test]
fn recording_is_private_unless_shared() {
    for access in [Access::Private, Access::Shared] {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path().join("r");

        record(&dir, access);

        check_running(&dir, access);
    }
}

#[test]
fn existing_empty_directory_keeps_and_passes_on_its_rights() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path().join("r");
    fs::create_dir(&dir).unwrap();
    fs::set_permissions(&dir, fs::Permissions::from_mode(0o755)).unwrap();

    record(&dir, Access::Shared);

    check_running(&dir, Access::Shared);
}

/// A user who can replace a file with a link must not make root write elsewhere.
#[test]
fn link_in_place_of_a_part_is_not_followed() {
    let dir = tempfile::tempdir().unwrap();
    let precious = dir.path().join("precious");
    fs::write(&precious, "data").unwrap();
    let made = dir.path().join("r");
    let mut recorder = Recorder::create(&made, manifest(Keep::All)).unwrap();
    std::os::unix::fs::symlink(&precious, made.join(".manifest.json.part")).unwrap();

    recorder.append(&Rows::new(5).batch(10)).unwrap();
    recorder.flush(START + Nanos::from_secs(10)).unwrap();
    recorder.finish(State::Complete).unwrap();

    assert_eq!(fs::read_to_string(&precious).unwrap(), "data");
    assert!(!made.join("manifest.json").is_symlink());
}

#[test]
fn recording_that_is_handed_over_belongs_to_the_user_without_its_links() {
    let dir = tempfile::tempdir().unwrap();
    let precious = dir.path().join("precious");
    fs::write(&precious, "data").unwrap();
    let before = fs::metadata(&precious).unwrap().uid();
    if before != 0 {
        return println!("skipped: only root gives files away");
    }
    let made = dir.path().join("r");
    let place = record(&made, Access::Private);
    std::os::unix::fs::symlink(&precious, made.join("link")).unwrap();

    place.folder().unwrap().hand_over(65534, 65534).unwrap();

    for (name, mode) in rights(&made) {
        let owner = fs::symlink_metadata(made.join(&name)).unwrap().uid();
        assert_eq!(owner == 65534, name != "link", "{name}: {owner}, {mode:o}");
    }
    assert_eq!(fs::metadata(&precious).unwrap().uid(), before);
}

/// A user with write access to an existing directory can put any file into it.
#[test]
fn directory_with_unknown_files_is_not_handed_over() {
    let dir = tempfile::tempdir().unwrap();
    let made = dir.path().join("r");
    let place = record(&made, Access::Private);
    let before = fs::metadata(&made).unwrap().uid();
    if before != 0 {
        return println!("skipped: only root gives files away");
    }
    fs::write(made.join("shadow"), "data").unwrap();

    let refused = place.folder().unwrap().hand_over(65534, 65534).unwrap_err();

    assert_eq!(
        refused.to_string(),
        "its file `shadow` is not part of a recording"
    );
    for (name, _) in rights(&made) {
        let owner = fs::metadata(made.join(&name)).unwrap().uid();
        assert_eq!(owner, before, "{name}");
    }
}

#[test]
fn empty_directory_of_a_third_user_keeps_its_owner() {
    let dir = tempfile::tempdir().unwrap();
    if fs::metadata(dir.path()).unwrap().uid() != 0 {
        return println!("skipped: only root gives files away");
    }
    let made = dir.path().join("r");
    fs::create_dir(&made).unwrap();
    fs::set_permissions(&made, fs::Permissions::from_mode(0o700)).unwrap();
    std::os::unix::fs::chown(&made, Some(1234), None).unwrap();
    let place = record(&made, Access::Private);

    place.folder().unwrap().hand_over(65534, 65534).unwrap();

    let owner = |path: &Path| fs::metadata(path).unwrap().uid();
    assert_eq!(owner(&made), 1234);
    assert_eq!(owner(&made.join("manifest.json")), 65534);
}
