//! Reading of a recording.

use std::collections::{BTreeMap, HashSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use laggard_model::{Activation, LineCount, LineId, Manifest, SCHEMA_VERSION, State};

use crate::folder::SAMPLES;
use crate::gate::{self, Limits};
use crate::journal;
use crate::segment::MAX_SEGMENT_ROWS;
use crate::{OpenError, Shortfall, disk};

/// Maximum size of a manifest: more than the manifest of a half-year recording.
const MAX_MANIFEST_BYTES: u64 = 128 << 20;
/// Maximum count, low enough for exact sums.
const MAX_COUNT: u64 = 1 << 53;
/// Maximum time: 146 years, ns.
const MAX_TIME: u64 = 1 << 62;
const LARGEST_LINES: u64 = LineId::MOST as u64;
/// Maximum size of a journal, bytes, at 200 bytes per row.
const MAX_JOURNAL_BYTES: u64 = 256 << 20;
/// Maximum number of rows in journals: the rows of a segment, unless the disk refused segments.
const MAX_OPEN_ROWS: usize = MAX_SEGMENT_ROWS;

/// Readable recording.
#[derive(Debug)]
pub struct Recording {
    pub(crate) dir: PathBuf,
    pub(crate) manifest: Manifest,
    /// Sample files, by number.
    pub(crate) segments: Vec<String>,
    /// Histogram files, by hour.
    pub(crate) histograms: Vec<String>,
    /// Files of the largest latencies, by hour.
    pub(crate) largest: Vec<String>,
    /// Rows that are not in a segment.
    pub(crate) open_rows: Vec<Activation>,
    shortfalls: Vec<Shortfall>,
}

impl Recording {
    /// Opens the recording in the directory `dir`, finished or not.
    ///
    /// Missing or damaged parts do not prevent it: see [`Recording::shortfalls`].
    ///
    /// # Errors
    /// If the recording does not exist, its manifest and the copy are lost, or a later version of
    /// the program wrote it.
    pub fn open(dir: impl Into<PathBuf>) -> Result<Self, OpenError> {
        let dir = dir.into();
        let files = Files::list(&dir)?;
        let mut shortfalls = Vec::new();
        let manifest = read_manifest(&dir, &files, &mut shortfalls)?;
        if manifest.state == State::Running {
            shortfalls.push(Shortfall::NoEnd {
                written_within: manifest.written_within_ns,
            });
            let mut journals = files.journals.keys();
            if journals.all(|number| files.segments.contains_key(number)) {
                shortfalls.push(Shortfall::JournalGone);
            }
        }
        let there: HashSet<&String> = files.segments.values().collect();
        for entry in &manifest.segments {
            if !there.contains(&entry.file) {
                shortfalls.push(Shortfall::Gone {
                    file: entry.file.clone(),
                    rows: entry.rows,
                });
            }
        }
        let mut recording = Self {
            segments: files.segments.values().cloned().collect(),
            histograms: files.histograms.values().cloned().collect(),
            largest: files.largest.values().cloned().collect(),
            dir,
            manifest,
            open_rows: Vec::new(),
            shortfalls,
        };
        for (number, file) in &files.journals {
            // The segment holds the same rows: the program was killed before it removed
            // the journal.
            if !files.segments.contains_key(number) {
                recording.read_journal(file);
            }
        }
        Ok(recording)
    }

    /// Returns the manifest: the plan of the recording and its end.
    pub const fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// Returns the directory.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Returns missing or damaged parts that opening found. Scans find more.
    pub fn shortfalls(&self) -> &[Shortfall] {
        &self.shortfalls
    }

    fn read_journal(&mut self, file: &str) {
        let bytes = match gate::read(&self.dir.join(file), MAX_JOURNAL_BYTES) {
            Ok(bytes) => bytes,
            Err(error) => {
                self.shortfalls.push(Shortfall::Damaged {
                    file: file.into(),
                    reason: error.to_string(),
                });
                return;
            }
        };
        let room = MAX_OPEN_ROWS.saturating_sub(self.open_rows.len());
        let decoded = journal::decode(&bytes, room);
        if let Some((offset, bytes)) = decoded.torn {
            self.shortfalls.push(Shortfall::JournalTorn {
                file: file.into(),
                offset,
                bytes,
            });
        }
        let limits = Limits::since(self.manifest.clock.start_ns);
        let mut rows = decoded.rows;
        if decoded.is_cut {
            self.shortfalls.push(Shortfall::Damaged {
                file: file.into(),
                reason: format!(
                    "the journals hold more than the {MAX_OPEN_ROWS} rows that can wait for a segment; the rest is left out"
                ),
            });
        }
        let count = rows.len();
        let mut numbered = rows.iter().enumerate();
        let too_large = numbered.find_map(|(number, row)| limits.check_one(number, row));
        if let Some(too_large) = too_large {
            // A writer never writes this, so the rest is not trusted.
            rows.truncate(too_large.row);
            let left = count - too_large.row;
            self.shortfalls.push(Shortfall::Damaged {
                file: file.into(),
                reason: format!("it holds {too_large}; {left} rows from there on are left out"),
            });
        }
        let lines = self.manifest.lines.len();
        let is_known = |row: &Activation| usize::from(row.line.0) < lines;
        let strangers = rows.iter().filter(|row| !is_known(row)).count();
        if strangers > 0 {
            self.shortfalls.push(Shortfall::Damaged {
                file: file.into(),
                reason: format!("{strangers} wakeups of series that the manifest lacks"),
            });
        }
        self.open_rows.extend(rows.into_iter().filter(is_known));
    }
}

/// Relevant files of a recording, by number.
#[derive(Default)]
struct Files {
    segments: BTreeMap<u32, String>,
    journals: BTreeMap<u32, String>,
    histograms: BTreeMap<u32, String>,
    largest: BTreeMap<u32, String>,
}

impl Files {
    fn list(dir: &Path) -> Result<Self, OpenError> {
        let refused = |source: io::Error| {
            if source.kind() == io::ErrorKind::NotFound {
                return OpenError::Missing(dir.into());
            }
            // Some systems do not report why a path that is not a directory cannot be
            // listed.
            if source.kind() == io::ErrorKind::NotADirectory || dir.is_file() {
                return OpenError::NotARecording(dir.into());
            }
            OpenError::Io {
                file: dir.into(),
                source,
            }
        };
        let mut files = Self::default();
        for entry in fs::read_dir(dir).map_err(refused)? {
            let name = entry.map_err(refused)?.file_name();
            let Some(name) = name.to_str() else { continue };
            for (prefix, suffix, kind) in [
                // Until schema 2, samples did not have a separate directory.
                ("samples-", ".parquet", &mut files.segments),
                ("open-", ".journal", &mut files.journals),
                ("histograms-", ".parquet", &mut files.histograms),
                ("largest-", ".parquet", &mut files.largest),
            ] {
                if let Some(number) = disk::number_in(name, prefix, suffix) {
                    kind.insert(number, name.into());
                }
            }
        }
        files.segments.extend(in_folder(dir)?);
        Ok(files)
    }
}

/// Returns the segments in the samples' directory; empty if it does not exist.
fn in_folder(dir: &Path) -> Result<BTreeMap<u32, String>, OpenError> {
    let folder = dir.join(SAMPLES);
    let refused = |source: io::Error| OpenError::Io {
        file: folder.clone(),
        source,
    };
    let entries = match fs::read_dir(&folder) {
        Ok(entries) => entries,
        Err(error) => {
            let is_none = [io::ErrorKind::NotFound, io::ErrorKind::NotADirectory];
            return if is_none.contains(&error.kind()) {
                Ok(BTreeMap::new())
            } else {
                Err(refused(error))
            };
        }
    };
    let mut segments = BTreeMap::new();
    for entry in entries {
        let name = entry.map_err(refused)?.file_name();
        let number = name
            .to_str()
            .and_then(|name| disk::number_in(name, "", ".parquet"));
        if let (Some(number), Some(name)) = (number, name.to_str()) {
            segments.insert(number, format!("{SAMPLES}/{name}"));
        }
    }
    Ok(segments)
}

fn read_manifest(
    dir: &Path,
    files: &Files,
    shortfalls: &mut Vec<Shortfall>,
) -> Result<Manifest, OpenError> {
    let why = match manifest_in(dir, disk::MANIFEST) {
        Ok(manifest) => return Ok(manifest),
        Err(newer @ OpenError::Newer { .. }) => return Err(newer),
        Err(error) => error,
    };
    match manifest_in(dir, disk::MANIFEST_START) {
        Ok(manifest) => {
            let reason = match &why {
                OpenError::ManifestDamaged { source, .. } => source.to_string(),
                OpenError::Io { source, .. } => source.to_string(),
                _ => why.to_string(),
            };
            shortfalls.push(Shortfall::ManifestFromStart { reason });
            Ok(manifest)
        }
        Err(newer @ OpenError::Newer { .. }) => Err(newer),
        Err(_) => match (why, files.segments.len() + files.journals.len()) {
            (OpenError::Io { source, .. }, segments)
                if source.kind() == io::ErrorKind::NotFound =>
            {
                let dir = dir.to_path_buf();
                Err(match segments {
                    0 => OpenError::NotARecording(dir),
                    segments => OpenError::ManifestGone { dir, segments },
                })
            }
            (why, _) => Err(why),
        },
    }
}

fn manifest_in(dir: &Path, name: &str) -> Result<Manifest, OpenError> {
    let file = dir.join(name);
    let text = gate::read(&file, MAX_MANIFEST_BYTES).map_err(|source| OpenError::Io {
        file: file.clone(),
        source,
    })?;
    let damaged = |source| OpenError::ManifestDamaged {
        file: file.clone(),
        source,
    };
    // Check the version first: a later layout may differ in every other field.
    match serde_json::from_slice(&text).map_err(damaged)? {
        Version {
            schema: Some(version),
        } if version > SCHEMA_VERSION.into() => Err(OpenError::Newer {
            dir: dir.into(),
            found: version,
            known: SCHEMA_VERSION,
        }),
        Version { .. } => serde_json::from_slice(&text)
            .and_then(|manifest| check(&manifest).map(|()| manifest))
            .map_err(damaged),
    }
}

/// Refuses a manifest with impossible numbers, whose sums would overflow. The writer
/// calls it too, so that it never writes an unreadable recording.
pub(crate) fn check(manifest: &Manifest) -> Result<(), serde_json::Error> {
    let refused = |what: &str, value: u64, limit: u64| {
        let text = format!("{what} {value}, above the {limit} that can be recorded");
        Err(serde::de::Error::custom(text))
    };
    let counts = manifest.counts.iter().flat_map(|count| {
        let LineCount {
            served,
            missed,
            censored,
            lost,
            planned,
            run_delay,
        } = *count;
        let switch_ins = run_delay.map_or(0, |delay| delay.switch_ins);
        let planned = planned.unwrap_or_default();
        [served, missed, censored, lost, planned, switch_ins]
    });
    let rows = manifest.segments.iter().map(|segment| segment.rows);
    let losses = manifest.losses.iter().map(|(_, count)| count);
    for (what, value) in counts
        .map(|count| ("a count of", count))
        .chain(rows.map(|rows| ("a number of rows of", rows)))
        .chain(losses.map(|count| ("a loss of", count)))
    {
        if value > MAX_COUNT {
            return refused(what, value, MAX_COUNT);
        }
    }
    let (clock, plan) = (&manifest.clock, &manifest.plan);
    let end = clock.end_ns.unwrap_or(clock.start_ns);
    if end > gate::latest(clock.start_ns) {
        let limit = gate::latest(clock.start_ns);
        return refused("the end of measuring", end.ns(), limit.ns());
    }
    if end < clock.start_ns {
        let (start, end) = (clock.start_ns.ns(), end.ns());
        let text = format!("the recording ends at {end} ns, before its start at {start} ns");
        return Err(serde::de::Error::custom(text));
    }
    for (what, time) in [
        ("the period", plan.period_ns),
        ("the threshold", plan.threshold_ns),
        ("the start", clock.start_ns),
    ] {
        if time.ns() > MAX_TIME {
            return refused(what, time.ns(), MAX_TIME);
        }
    }
    let lines = manifest.lines.len() as u64;
    if lines > LARGEST_LINES {
        return refused("a number of lines of", lines, LARGEST_LINES);
    }
    Ok(())
}

/// Version that every layout has.
#[derive(serde::Deserialize)]
struct Version {
    #[serde(default)]
    schema: Option<u64>,
}
