//! Reading of episodes.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::Path;

use laggard_model::{Episode, EpisodeNotes, Happening, Nanos};

use super::events;
use crate::{OpenError, Recording, Shortfall, disk, gate};

/// Maximum size of an episodes file, bytes. The writer starts the next file after 64
/// MiB.
const MAX_FILE_BYTES: u64 = 256 << 20;
/// Maximum size of an episode as a line, bytes. A full ring has 65,536 events (Linux)
/// or 200,000 (Windows), of about 150 bytes each.
const MAX_LINE_BYTES: u64 = 64 << 20;
/// Maximum number of bytes that a compressed byte expands to. A call chain that was sampled
/// repeatedly compresses best: about 1,200 bytes become 6, because only the times differ.
const MAX_RATIO: u64 = 1_024;
/// Minimum of the expanded size that is read of any file, bytes.
const MIN_UNPACKED_BYTES: u64 = 1 << 20;
/// The rest of a file is skipped after this number of lines that are not episodes. The writer does
/// not write such lines.
const MAX_BAD_LINES: u64 = 100;
/// Maximum number of events, samples and similar records of an episode: the content of a full ring,
/// see [`MAX_LINE_BYTES`], rounded up.
const MAX_EVENTS: usize = 1 << 18;
/// Maximum number of frames of a call chain. Linux has 30 of the kernel and 30 of the
/// program, Windows 32.
const MAX_FRAMES: usize = 256;
/// Maximum length of a thread name, bytes. Linux has 15, Windows 64.
const MAX_NAME_BYTES: usize = 1_024;
/// Maximum size of the notes: enough for some hundred thousand names.
const MAX_NOTES_BYTES: u64 = 256 << 20;

/// Episodes of a recording.
#[derive(Clone, Debug, Default)]
pub struct Episodes {
    /// Episodes, by number.
    pub episodes: Vec<Episode>,
    /// Facts about their selection; `None` if the recording was made without episodes.
    pub notes: Option<EpisodeNotes>,
    /// Number of kept episodes that could not be read.
    pub missing: u64,
    /// Unreadable parts.
    pub shortfalls: Vec<Shortfall>,
}

impl Recording {
    /// Reads all episodes.
    ///
    /// # Errors
    /// If the directory cannot be listed.
    pub fn episodes(&self) -> Result<Episodes, OpenError> {
        let mut episodes = Vec::new();
        let mut result = self.each_episode(|episode, _| episodes.push(episode))?;
        result.episodes = episodes;
        Ok(result)
    }

    /// Reads the episodes one after the other, and passes each with the notes to `take`. The
    /// returned value does not contain them.
    ///
    /// # Errors
    /// If the directory cannot be listed.
    pub fn each_episode(
        &self,
        mut take: impl FnMut(Episode, Option<&EpisodeNotes>),
    ) -> Result<Episodes, OpenError> {
        let mut result = Episodes::default();
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
        result.read_notes(self.dir());
        let notes = result.notes.take();
        let mut last = None;
        let mut check = |episode: &Episode| {
            self.check_episode(episode)?;
            match last.replace(episode.number) {
                Some(before) if before >= episode.number => {
                    Err(format!("its number {} follows {before}", episode.number))
                }
                _ => Ok(()),
            }
        };
        let mut read = 0;
        for (_, file) in files {
            result.read_file(self.dir(), file, &mut check, &mut |episode| {
                read += 1;
                take(episode, notes.as_ref());
            });
        }
        let kept = notes.as_ref().map_or(0, |notes| notes.kept);
        result.missing = kept.saturating_sub(read);
        if result.missing > 0 {
            result.shortfalls.push(Shortfall::EpisodesShort {
                missing: result.missing,
                kept,
            });
        }
        result.notes = notes;
        Ok(result)
    }
}

/// Parses a line. Lines that are UTF-8 as a whole avoid the validation of each string.
pub(super) fn parse(line: &[u8]) -> Result<Episode, serde_json::Error> {
    let Ok(text) = std::str::from_utf8(line) else {
        return serde_json::from_slice(line);
    };
    parse_fast(text).map_or_else(|| serde_json::from_str(text), Ok)
}

/// Parses a line of the form that the writer writes. `None` decides nothing.
fn parse_fast(line: &str) -> Option<Episode> {
    let (rest, events) = events::split(line)?;
    let mut episode: Episode = serde_json::from_str(&rest).ok()?;
    episode.evidence.events = events;
    Some(episode)
}

impl Recording {
    /// Returns an error if an episode has more, longer or later parts than a writer
    /// writes.
    fn check_episode(&self, episode: &Episode) -> Result<(), String> {
        let evidence = &episode.evidence;
        for (what, count) in [
            ("events", evidence.events.len()),
            ("throttles", evidence.throttles.len()),
            ("samples", evidence.samples.len()),
            (
                "readings of steal time",
                evidence.steals.as_ref().map_or(0, Vec::len),
            ),
            ("still spans", evidence.still.len()),
            ("gaps", evidence.gaps.len()),
            (
                "switches by the fair server",
                evidence.served.as_ref().map_or(0, Vec::len),
            ),
            ("expiries that passed", episode.passed_ns.len()),
        ] {
            at_most(what, count, MAX_EVENTS)?;
        }
        for event in &evidence.events {
            if let Happening::Switch { name, .. } = &event.what {
                at_most("bytes of a thread's name", name.len(), MAX_NAME_BYTES)?;
            }
        }
        for sample in &evidence.samples {
            at_most("frames of the kernel", sample.kernel.len(), MAX_FRAMES)?;
            at_most("frames of the program", sample.user.len(), MAX_FRAMES)?;
        }
        let lines = self.manifest().lines.len();
        if usize::from(episode.line.0) >= lines {
            return Err(format!(
                "it is of line {}, and the manifest has {lines}",
                episode.line.0
            ));
        }
        let latest = gate::latest(self.manifest().clock.start_ns);
        let longest = Nanos::from_ns(gate::MAX_STEP_NS);
        if episode.expiry_ns > latest || episode.latency() > longest {
            return Err(format!(
                "it expires at {} ns and ends {} ns later; a recording ends by {} ns",
                episode.expiry_ns.ns(),
                episode.latency().ns(),
                latest.ns()
            ));
        }
        Ok(())
    }
}

fn at_most(what: &str, count: usize, limit: usize) -> Result<(), String> {
    if count <= limit {
        return Ok(());
    }
    Err(format!(
        "it has {count} {what}, above the {limit} that are written"
    ))
}

impl Episodes {
    /// Returns the damage of the notes, which are required.
    pub fn damaged_notes(&self) -> Option<&Shortfall> {
        let is_notes = |shortfall: &&Shortfall| matches!(shortfall, Shortfall::Damaged { file, .. } if file == disk::EPISODE_NOTES);
        self.shortfalls.iter().find(is_notes)
    }

    /// Reads a file up to its end or to the first invalid content. `check` returns the
    /// error of an episode.
    pub(super) fn read_file(
        &mut self,
        dir: &Path,
        file: String,
        check: &mut impl FnMut(&Episode) -> Result<(), String>,
        take: &mut impl FnMut(Episode),
    ) {
        let bytes = match gate::read(&dir.join(&file), MAX_FILE_BYTES) {
            Ok(bytes) => bytes,
            Err(error) => return self.damaged(file, error.to_string()),
        };
        let packed = bytes.len() as u64;
        let limit = (packed * MAX_RATIO).max(MIN_UNPACKED_BYTES);
        let mut unpacked = match zstd::stream::read::Decoder::with_buffer(bytes.as_slice()) {
            Ok(decoder) => BufReader::new(decoder.take(limit)),
            Err(error) => return self.damaged(file, error.to_string()),
        };
        let mut line = Vec::new();
        let (mut first_bad, mut bad_lines) = (None, 0_u64);
        for number in 1_u64.. {
            line.clear();
            let read = (&mut unpacked)
                .take(MAX_LINE_BYTES)
                .read_until(b'\n', &mut line);
            let reason = match read {
                Ok(_) if unpacked.get_ref().limit() == 0 => Some(format!(
                    "its {packed} bytes unpack to more than {limit}; the rest from line {number} is left out"
                )),
                Ok(0) => break,
                Ok(length) if length as u64 == MAX_LINE_BYTES && !line.ends_with(b"\n") => {
                    Some(format!(
                        "line {number} is longer than {MAX_LINE_BYTES} bytes; the rest from there is left out"
                    ))
                }
                Ok(_) if bad_lines == MAX_BAD_LINES => Some(format!(
                    "{MAX_BAD_LINES} lines are not episodes; the rest from line {number} is skipped"
                )),
                Ok(_) => None,
                Err(error) => Some(format!("it ends within episode {number}: {error}")),
            };
            if let Some(reason) = reason {
                self.damaged(file.clone(), reason);
                break;
            }
            let episode = parse(&line).map_err(|error| error.to_string());
            let checked = episode.and_then(|episode| check(&episode).map(|()| episode));
            match checked {
                Ok(episode) => take(episode),
                Err(error) => {
                    bad_lines += 1;
                    first_bad
                        .get_or_insert_with(|| format!("line {number} is not an episode: {error}"));
                }
            }
        }
        if let Some(first) = first_bad {
            let reason = match bad_lines {
                1 => first,
                more => format!("{first}; {} more are not episodes", more - 1),
            };
            self.damaged(file, reason);
        }
    }

    pub(super) fn read_notes(&mut self, dir: &Path) {
        let file = disk::EPISODE_NOTES;
        match gate::read(&dir.join(file), MAX_NOTES_BYTES) {
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
