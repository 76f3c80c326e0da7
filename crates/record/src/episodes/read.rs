//! Reading episodes.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;

use laggard_model::{Episode, EpisodeNotes};

use crate::recording::read_bounded;
use crate::{OpenError, Recording, Shortfall, disk};

/// More than we ever write to one file.
const LARGEST_FILE: u64 = 256 << 20;
/// More than any notes: some hundred thousand names.
const LARGEST_NOTES: u64 = 256 << 20;

/// The episodes of a recording.
#[derive(Clone, Debug, Default)]
pub struct Episodes {
    /// By number.
    pub episodes: Vec<Episode>,
    /// How they were chosen. `None`: the recording was made without episodes.
    pub notes: Option<EpisodeNotes>,
    /// What could not be read.
    pub shortfalls: Vec<Shortfall>,
}

impl Recording {
    /// Reads all episodes.
    ///
    /// # Errors
    /// When the folder cannot be listed.
    pub fn episodes(&self) -> Result<Episodes, OpenError> {
        let mut episodes = Vec::new();
        let mut all = self.each_episode(|episode, _| episodes.push(episode))?;
        all.episodes = episodes;
        Ok(all)
    }

    /// Reads one episode after the other, as many as there may be: `take` gets
    /// each, with the notes, and what is returned has none.
    ///
    /// # Errors
    /// When the folder cannot be listed.
    pub fn each_episode(
        &self,
        mut take: impl FnMut(Episode, Option<&EpisodeNotes>),
    ) -> Result<Episodes, OpenError> {
        let mut all = Episodes::default();
        let refused = |source| OpenError::Io {
            file: self.dir().into(),
            source,
        };
        let mut files: Vec<(u32, String)> = Vec::new();
        for entry in fs::read_dir(self.dir()).map_err(refused)? {
            let name = entry.map_err(refused)?.file_name();
            let Some(name) = name.to_str() else { continue };
            if let Some(number) = disk::number_in(name, "episodes-", ".jsonl.zst") {
                files.push((number, name.into()));
            }
        }
        files.sort_unstable();
        all.read_notes(self.dir());
        let notes = all.notes.take();
        for (_, file) in files {
            all.read_file(self.dir(), file, &mut |one| take(one, notes.as_ref()));
        }
        all.notes = notes;
        Ok(all)
    }
}

impl Episodes {
    pub(super) fn read_file(&mut self, dir: &Path, file: String, take: &mut impl FnMut(Episode)) {
        let bytes = match read_bounded(&dir.join(&file), LARGEST_FILE) {
            Ok(bytes) => bytes,
            Err(error) => return self.damaged(file, error.to_string()),
        };
        let lines = match zstd::stream::read::Decoder::with_buffer(bytes.as_slice()) {
            Ok(decoder) => BufReader::new(decoder).lines(),
            Err(error) => return self.damaged(file, error.to_string()),
        };
        for (number, line) in lines.enumerate() {
            let line = match line {
                Ok(line) => line,
                Err(error) => {
                    let reason = format!("it ends within episode {}: {error}", number + 1);
                    return self.damaged(file, reason);
                }
            };
            match serde_json::from_str(&line) {
                Ok(episode) => take(episode),
                Err(error) => {
                    let reason = format!("line {} is no episode: {error}", number + 1);
                    self.damaged(file.clone(), reason);
                }
            }
        }
    }

    pub(super) fn read_notes(&mut self, dir: &Path) {
        let file = disk::EPISODE_NOTES;
        match read_bounded(&dir.join(file), LARGEST_NOTES) {
            Ok(text) => match serde_json::from_slice(&text) {
                Ok(notes) => self.notes = Some(notes),
                Err(error) => self.damaged(file.into(), error.to_string()),
            },
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => self.damaged(file.into(), error.to_string()),
        }
    }

    fn damaged(&mut self, file: String, reason: String) {
        self.shortfalls.push(Shortfall::Damaged { file, reason });
    }
}
