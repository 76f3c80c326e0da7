//! The recordings that a command was given.

use std::path::PathBuf;

use laggard_model::{Manifest, Nanos};
use laggard_record::Recording;

/// Opens them all.
///
/// # Errors
/// When one cannot be opened, or is given twice, by another name or as a
/// copy: it would count twice, and look like twice the evidence.
pub(crate) fn open(dirs: &[PathBuf]) -> anyhow::Result<Vec<Recording>> {
    let mut opened: Vec<Recording> = Vec::new();
    for dir in dirs {
        let recording = Recording::open(dir)?;
        let twin = opened.iter().find(|other| is_same(other, &recording));
        if let Some(twin) = twin {
            anyhow::bail!(
                "`{}` and `{}` are the same recording, which would count twice; give it once",
                twin.dir().display(),
                dir.display()
            );
        }
        opened.push(recording);
    }
    Ok(opened)
}

fn is_same(one: &Recording, other: &Recording) -> bool {
    let place = |recording: &Recording| recording.dir().canonicalize().ok();
    let is_one_folder = place(one).is_some_and(|dir| place(other) == Some(dir));
    is_one_folder || identity(one.manifest()) == identity(other.manifest())
}

/// What no two recordings share: when it began, by the monotonic clock and
/// by the wall clock, the seed of its timeline, which is a clock reading too,
/// and the machine.
fn identity(manifest: &Manifest) -> (Nanos, &str, u64, &str) {
    let clock = &manifest.clock;
    (
        clock.start_ns,
        &clock.start_wall,
        manifest.plan.seed,
        &manifest.host.node,
    )
}
