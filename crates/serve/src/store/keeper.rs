//! Removal of old recordings.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context as _, anyhow, bail};

use super::recordings::{StoredRecording, parse_name, recordings};
use crate::metrics::StoreSeries;

/// Minimum size of a recording, bytes. A recording reserves 1 MiB for its end.
pub(super) const MIN_RECORDING_SIZE: u64 = 4 << 20;

/// Removes old recordings.
#[derive(Debug)]
pub(super) struct StoreKeeper {
    pub(super) dir: PathBuf,
    pub(super) keep: u64,
    pub(super) series: StoreSeries,
    pub(super) current: Arc<Mutex<Option<String>>>,
}

impl StoreKeeper {
    /// Removes the oldest recordings until the rest are within the limit. A recording that cannot
    /// be removed does not prevent the removal of others.
    pub(super) fn tidy(&self) -> anyhow::Result<()> {
        let shown = self.dir.display();
        let recordings = self.oldest_first()?;
        let mut bytes: u64 = recordings.iter().map(|recording| recording.bytes).sum();
        let current = self.being_made();
        let mut keep_reason = None;
        for recording in recordings {
            if bytes <= self.keep {
                break;
            }
            if current.as_ref() == Some(&recording.name) {
                continue;
            }
            match self.remove(&recording) {
                Ok(()) => bytes -= recording.bytes,
                Err(why) => {
                    keep_reason.get_or_insert((self.dir.join(&recording.name), why));
                }
            }
        }
        self.series
            .bytes
            .set(i64::try_from(bytes).unwrap_or(i64::MAX));
        if let Some((path, why)) = keep_reason {
            bail!(
                "cannot remove the old recording `{}`: {why}; other recordings are removed instead",
                path.display()
            );
        }
        if bytes <= self.keep {
            return Ok(());
        }
        bail!(
            "the recording that is being made is larger than the store `{shown}` may be; \
             give --keep more, or --every less"
        );
    }

    /// Returns our recordings, oldest first.
    fn oldest_first(&self) -> anyhow::Result<Vec<StoredRecording>> {
        let shown = self.dir.display();
        let mut recordings =
            recordings(&self.dir).with_context(|| format!("cannot read the store `{shown}`"))?;
        // A recording with a later name than the recording in progress already existed, and the
        // clock was set back. It is therefore older than all recordings since.
        if let Some(now) = self.being_made().as_deref().and_then(parse_name) {
            let later = recordings.partition_point(|recording| recording.age <= now);
            recordings.rotate_left(later);
        }
        Ok(recordings)
    }

    fn being_made(&self) -> Option<String> {
        let current = self.current.lock();
        current.unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn remove(&self, recording: &StoredRecording) -> Result<(), String> {
        if let Some(why) = &recording.keep_reason {
            return Err(why.clone());
        }
        fs::remove_dir_all(self.dir.join(&recording.name)).map_err(|err| err.to_string())?;
        self.series.removed.inc();
        Ok(())
    }

    /// Removes the oldest recordings until `free` reports room for one more. Returns the number of
    /// removed recordings. Keeps the most recent one, and removes none if other files fill the
    /// disk.
    pub(super) fn make_room(
        &self,
        free: impl Fn(&Path) -> nix::Result<u64>,
    ) -> anyhow::Result<u64> {
        let shown = self.dir.display();
        let recordings = self.oldest_first()?;
        let wanted = room_for_next(recordings.iter().map(|recording| recording.bytes));
        let last = self.being_made();
        let is_removable = |recording: &&StoredRecording| {
            last.as_ref() != Some(&recording.name) && recording.keep_reason.is_none()
        };
        let room =
            || free(&self.dir).with_context(|| format!("cannot read the free space of `{shown}`"));
        let mut there = room()?;
        let ours: u64 = recordings
            .iter()
            .filter(is_removable)
            .map(|recording| recording.bytes)
            .sum();
        if there + ours < wanted {
            bail!("the disk of `{shown}` is full of other things, so no recording is removed");
        }
        let mut removed = 0;
        for recording in recordings.iter().filter(is_removable) {
            if there >= wanted {
                break;
            }
            self.remove(recording).map_err(|why| {
                anyhow!(
                    "the old recording `{}` cannot be removed: {why}",
                    recording.name
                )
            })?;
            removed += 1;
            there = room()?;
        }
        Ok(removed)
    }
}

/// Returns the room for one more recording: twice the largest of `bytes`, the sizes of the others,
/// and at least [`MIN_RECORDING_SIZE`].
fn room_for_next(bytes: impl Iterator<Item = u64>) -> u64 {
    (2 * bytes.max().unwrap_or_default()).max(MIN_RECORDING_SIZE)
}
