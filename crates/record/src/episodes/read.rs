//! Reading episodes.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::Path;

use laggard_model::{Episode, EpisodeNotes};

use crate::{OpenError, Recording, Shortfall, disk, gate};

/// More than we ever write to one file.
const LARGEST_FILE: u64 = 256 << 20;
/// More than a file of ours unpacks to.
const LARGEST_UNPACKED: u64 = 1 << 30;
/// More than any episode, as a line.
const LARGEST_LINE: u64 = 16 << 20;
/// More than any notes: some hundred thousand names.
const LARGEST_NOTES: u64 = 256 << 20;

/// The episodes of a recording.
#[derive(Clone, Debug, Default)]
pub struct Episodes {
    /// The episodes, by number.
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

/// Parses a line. Text that is known to be UTF-8 as a whole is not validated again for
/// each string in it.
fn parse(line: &[u8]) -> Result<Episode, serde_json::Error> {
    match std::str::from_utf8(line) {
        Ok(text) => serde_json::from_str(text),
        Err(_) => serde_json::from_slice(line),
    }
}

impl Episodes {
    /// What is damaged of the notes, without which nothing can be told.
    pub fn damaged_notes(&self) -> Option<&Shortfall> {
        let is_notes = |one: &&Shortfall| matches!(one, Shortfall::Damaged { file, .. } if file == disk::EPISODE_NOTES);
        self.shortfalls.iter().find(is_notes)
    }

    pub(super) fn read_file(&mut self, dir: &Path, file: String, take: &mut impl FnMut(Episode)) {
        let bytes = match gate::read(&dir.join(&file), LARGEST_FILE) {
            Ok(bytes) => bytes,
            Err(error) => return self.damaged(file, error.to_string()),
        };
        let mut unpacked = match zstd::stream::read::Decoder::with_buffer(bytes.as_slice()) {
            Ok(decoder) => BufReader::new(decoder.take(LARGEST_UNPACKED)),
            Err(error) => return self.damaged(file, error.to_string()),
        };
        let mut line = Vec::new();
        // The first line that is no episode, and how many more there are.
        let (mut first, mut more) = (None, 0_u64);
        for number in 1_u64.. {
            line.clear();
            match (&mut unpacked)
                .take(LARGEST_LINE)
                .read_until(b'\n', &mut line)
            {
                Ok(0) => break,
                Ok(length) if length as u64 == LARGEST_LINE && !line.ends_with(b"\n") => {
                    let reason = format!("line {number} is longer than {LARGEST_LINE} bytes");
                    self.damaged(file.clone(), reason);
                    break;
                }
                Ok(_) => {}
                Err(error) => {
                    let reason = format!("it ends within episode {number}: {error}");
                    self.damaged(file.clone(), reason);
                    break;
                }
            }
            match parse(&line) {
                Ok(episode) => take(episode),
                Err(_) if first.is_some() => more += 1,
                Err(error) => first = Some(format!("line {number} is no episode: {error}")),
            }
        }
        if unpacked.get_ref().limit() == 0 {
            let reason = format!("it unpacks to more than {LARGEST_UNPACKED} bytes");
            self.damaged(file.clone(), reason);
        }
        if let Some(first) = first {
            let reason = match more {
                0 => first,
                more => format!("{first}; {more} more are none"),
            };
            self.damaged(file, reason);
        }
    }

    pub(super) fn read_notes(&mut self, dir: &Path) {
        let file = disk::EPISODE_NOTES;
        match gate::read(&dir.join(file), LARGEST_NOTES) {
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
