//! A full disk ends a recording with an error; the written data is kept.

#![cfg(target_os = "linux")]

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::fixture::{Rows, all_rows, manifest, sorted};
use laggard_model::{Activation, Keep, State};
use laggard_record::{
    Access, Columns, CreateError, Folder, Recorder, Recording, WriteError, put_answer,
};

/// Separate file system, unmounted at the end.
struct SmallDisk {
    folder: tempfile::TempDir,
}

impl SmallDisk {
    /// Mounts it; returns `None` with the reason on standard error if that is not
    /// possible.
    fn mount(size: &str) -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let mount = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &format!("size={size}"), "tmpfs"])
            .arg(folder.path())
            .output();
        match mount {
            Ok(mount) if mount.status.success() => Some(Self { folder }),
            Ok(mount) => {
                let why = String::from_utf8_lossy(&mount.stderr);
                eprintln!(
                    "skipped: a small tmpfs cannot be mounted (needs root): {}",
                    why.trim()
                );
                None
            }
            Err(error) => {
                eprintln!("skipped: `mount` cannot be run: {error}");
                None
            }
        }
    }

    fn dir(&self) -> PathBuf {
        self.folder.path().join("full.laggard")
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let unmount = Command::new("umount").arg(self.folder.path()).status();
        assert!(
            unmount.is_ok_and(|status| status.success()),
            "tmpfs left mounted"
        );
    }
}

/// Appends until the disk is full. Returns the accepted rows.
fn fill(recorder: &mut Recorder, batch_rows: usize) -> (Vec<Activation>, WriteError) {
    let (mut rows, mut accepted) = (Rows::new(13), Vec::new());
    loop {
        let batch = rows.batch(batch_rows);
        let lost = recorder.manifest().losses.not_written;
        let result = recorder.append(&batch);
        let lost = recorder.manifest().losses.not_written - lost;
        let kept = batch.len() - usize::try_from(lost).unwrap();
        accepted.extend(batch.iter().take(kept));
        if let Err(error) = result {
            return (accepted, error);
        }
    }
}

fn check_full(disk: &Path, batch_rows: usize, size: &str) {
    let mut recorder = Recorder::create(disk, manifest(Keep::All)).unwrap();

    let (accepted, error) = fill(&mut recorder, batch_rows);

    assert!(
        matches!(error, WriteError::DiskFull { .. }),
        "{size}: {error:?}"
    );
    let text = error.to_string();
    assert!(text.starts_with("the disk is full: `"), "{text}");
    assert!(text.contains("free some space"), "{text}");
    let lost = recorder.manifest().losses.not_written;
    let failed = State::Failed { error: text };
    recorder.finish(failed.clone()).unwrap();
    let recording = Recording::open(disk).unwrap();
    assert_eq!(recording.shortfalls(), [], "{size}");
    assert_eq!(recording.manifest().state, failed, "{size}");
    assert_eq!(recording.manifest().losses.not_written, lost, "{size}");
    assert!(
        all_rows(&recording) == sorted(accepted),
        "{size}: other rows than were accepted"
    );
}

#[test]
fn root_full_disk_keeps_accepted_rows_and_the_last_manifest() {
    // Different sizes fill up at different points: in the journal, in a segment, in a
    // manifest.
    for (size, batch_rows) in [("4m", 1_000), ("5m", 700), ("6000k", 3_333), ("7m", 20_000)] {
        let Some(disk) = SmallDisk::mount(size) else {
            return;
        };
        check_full(&disk.dir(), batch_rows, size);
    }
}

#[test]
fn root_disk_that_is_full_from_the_start_is_an_error() {
    let Some(disk) = SmallDisk::mount("1m") else {
        return;
    };

    let error = Recorder::create(disk.dir(), manifest(Keep::All)).unwrap_err();

    assert!(
        matches!(error, CreateError::Write(WriteError::DiskFull { .. })),
        "{error:?}"
    );
    assert!(
        !disk.dir().exists(),
        "it would be in the way of another try"
    );
}

#[test]
fn root_disk_filled_by_another_program_fails_the_recording() {
    let Some(disk) = SmallDisk::mount("8m") else {
        return;
    };
    let mut recorder = Recorder::create(disk.dir(), manifest(Keep::All)).unwrap();
    recorder.append(&Rows::new(1).batch(60_000)).unwrap();
    // Larger than the disk: it takes the whole space, including the reserve's.
    let filler = disk.dir().with_file_name("filler");
    assert!(std::fs::write(&filler, vec![1; 16 << 20]).is_err());
    std::fs::remove_file(disk.dir().join("reserve")).unwrap();
    let more = std::fs::OpenOptions::new()
        .append(true)
        .open(&filler)
        .unwrap();
    assert!(std::io::Write::write_all(&mut &more, &vec![1; 16 << 20]).is_err());

    let error = recorder.finish(State::Complete).unwrap_err();

    assert!(
        matches!(error, WriteError::Io { .. } | WriteError::DiskFull { .. }),
        "{error:?}"
    );
    let recording = Recording::open(disk.dir()).unwrap();
    let mut rows = 0;
    recording.scan(Columns::default(), |batch| rows += batch.len());
    assert_eq!(rows, 60_000);
}

#[test]
fn root_full_disk_leaves_an_answer_unchanged() {
    let Some(disk) = SmallDisk::mount("256k") else {
        return;
    };
    let folder = Folder::make(&disk.dir(), Access::Private).unwrap();
    for before in [None, Some("{\"whole\":true}")] {
        if let Some(before) = before {
            put_answer(&folder, "answer.json", before.as_bytes()).unwrap();
        }

        let error = put_answer(&folder, "answer.json", &[b' '; 512 << 10]).unwrap_err();

        assert!(
            matches!(error, WriteError::DiskFull { .. }),
            "{before:?}: {error:?}"
        );
        let now = std::fs::read_to_string(disk.dir().join("answer.json")).ok();
        assert!(now.as_deref() == before, "for {before:?}");
        let there = std::fs::read_dir(disk.dir()).unwrap().count();
        assert_eq!(there, usize::from(before.is_some()), "for {before:?}");
    }
}
