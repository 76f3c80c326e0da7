//! Reading a recording.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use laggard_model::{Activation, Manifest, SCHEMA_VERSION, State};

use crate::journal;
use crate::{OpenError, Shortfall, disk};

/// A journal larger than this is not ours: one holds a segment's rows.
const LARGEST_JOURNAL: u64 = 256 << 20;

/// A recording that can be read.
#[derive(Debug)]
pub struct Recording {
    pub(crate) dir: PathBuf,
    pub(crate) manifest: Manifest,
    /// Sample files, in the order of their numbers.
    pub(crate) segments: Vec<String>,
    /// Files of histograms, by hour.
    pub(crate) histograms: Vec<String>,
    /// Files of the largest, by hour.
    pub(crate) largest: Vec<String>,
    /// Rows that are not in a segment.
    pub(crate) open_rows: Vec<Activation>,
    shortfalls: Vec<Shortfall>,
}

impl Recording {
    /// Opens the recording in the folder `dir`, finished or not.
    ///
    /// What is missing or damaged does not prevent it: see
    /// [`Recording::shortfalls`].
    ///
    /// # Errors
    /// When there is no recording, its manifest and the copy of it are lost,
    /// or a later version of the program wrote it.
    pub fn open(dir: impl Into<PathBuf>) -> Result<Self, OpenError> {
        let dir = dir.into();
        let files = Files::list(&dir)?;
        let mut shortfalls = Vec::new();
        let manifest = read_manifest(&dir, &files, &mut shortfalls)?;
        if manifest.state == State::Running {
            shortfalls.push(Shortfall::NoEnd);
            let mut journals = files.journals.keys();
            if journals.all(|number| files.segments.contains_key(number)) {
                shortfalls.push(Shortfall::JournalGone);
            }
        }
        for entry in &manifest.segments {
            if !files.segments.values().any(|file| *file == entry.file) {
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
            // The segment holds the same rows: the program was killed before
            // it removed the journal.
            if !files.segments.contains_key(number) {
                recording.read_journal(file);
            }
        }
        Ok(recording)
    }

    /// What the recording is of, and how it ended.
    pub const fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// Where it is.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// What was found missing or damaged on opening. Scans find more.
    pub fn shortfalls(&self) -> &[Shortfall] {
        &self.shortfalls
    }

    fn read_journal(&mut self, file: &str) {
        let bytes = match read_bounded(&self.dir.join(file), LARGEST_JOURNAL) {
            Ok(bytes) => bytes,
            Err(error) => {
                self.shortfalls.push(Shortfall::Damaged {
                    file: file.into(),
                    reason: error.to_string(),
                });
                return;
            }
        };
        let found = journal::decode(&bytes);
        if let Some((offset, bytes)) = found.torn {
            self.shortfalls.push(Shortfall::JournalTorn {
                file: file.into(),
                offset,
                bytes,
            });
        }
        let lines = self.manifest.lines.len();
        let known = |row: &Activation| usize::from(row.line.0) < lines;
        let strangers = found.rows.iter().filter(|row| !known(row)).count();
        if strangers > 0 {
            self.shortfalls.push(Shortfall::Damaged {
                file: file.into(),
                reason: format!("{strangers} activations of lines that the manifest does not have"),
            });
        }
        self.open_rows.extend(found.rows.into_iter().filter(known));
    }
}

/// The files of a recording that count, by number.
#[derive(Default)]
struct Files {
    segments: BTreeMap<u32, String>,
    journals: BTreeMap<u32, String>,
    histograms: BTreeMap<u32, String>,
    largest: BTreeMap<u32, String>,
}

impl Files {
    fn list(dir: &Path) -> Result<Self, OpenError> {
        let refused = |source: io::Error| match source.kind() {
            io::ErrorKind::NotFound => OpenError::Missing(dir.into()),
            io::ErrorKind::NotADirectory => OpenError::NotARecording(dir.into()),
            _ => OpenError::Io {
                file: dir.into(),
                source,
            },
        };
        let mut files = Self::default();
        for entry in fs::read_dir(dir).map_err(refused)? {
            let name = entry.map_err(refused)?.file_name();
            let Some(name) = name.to_str() else { continue };
            for (prefix, suffix, kind) in [
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
        Ok(files)
    }
}

/// Reads a file, unless it is larger than it can rightly be.
pub(crate) fn read_bounded(file: &Path, limit: u64) -> io::Result<Vec<u8>> {
    let bytes = fs::metadata(file)?.len();
    if bytes > limit {
        let text = format!("{bytes} bytes are more than such a file can have ({limit})");
        return Err(io::Error::new(io::ErrorKind::InvalidData, text));
    }
    fs::read(file)
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
                other => other.to_string(),
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
    let text = fs::read(&file).map_err(|source| OpenError::Io {
        file: file.clone(),
        source,
    })?;
    let damaged = |source| OpenError::ManifestDamaged {
        file: file.clone(),
        source,
    };
    // The version first: a later layout may have changed everything else.
    let json: serde_json::Value = serde_json::from_slice(&text).map_err(damaged)?;
    match json.get("schema").and_then(serde_json::Value::as_u64) {
        Some(found) if found > SCHEMA_VERSION.into() => Err(OpenError::Newer {
            dir: dir.into(),
            found,
            known: SCHEMA_VERSION,
        }),
        _ => serde_json::from_value(json).map_err(damaged),
    }
}
