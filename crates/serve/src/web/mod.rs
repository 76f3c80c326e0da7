//! Who is answered, and how: `--web-config FILE`, as Prometheus' exporters have it.
//!
//! The file, and those that it names, are read again when they change, because
//! certificates end sooner than this program.

mod config;
mod passwords;
mod tls;

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use laggard_console::pipe;
use rustls::ServerConfig;

use config::WebFile;
pub(crate) use passwords::Admission;
use passwords::Passwords;

/// Between two looks at the files.
const LOOK_EVERY: Duration = Duration::from_secs(10);
/// Which of the files is the private key: after ours and the certificate.
const KEY: usize = 2;

/// What the file says, ready for use.
#[derive(Debug, Default)]
pub(crate) struct Web {
    /// The file, and those that it names; none: everybody is answered, in the clear.
    files: Vec<PathBuf>,
    state: WebState,
    /// When to look again, and what the files were.
    due: Option<Instant>,
    seen: Vec<FileState>,
}

#[derive(Debug, Default)]
struct WebState {
    tls: Option<Arc<ServerConfig>>,
    passwords: Option<Passwords>,
    is_closed: bool,
}

/// By what a file that was written anew is known: when, its number and its size.
type FileState = Option<(i64, i64, u64, u64)>;

impl Web {
    /// As the file says; without one, everybody is answered, in the clear.
    ///
    /// # Errors
    /// When it cannot be read, or says what cannot be done.
    pub(crate) fn open(path: Option<&Path>) -> anyhow::Result<Self> {
        let Some(path) = path else {
            return Ok(Self::default());
        };
        let (state, files) = WebState::read(path)?;
        let (own, named) = (files.first(), files.get(KEY));
        for file in own.into_iter().chain(named).filter(|file| is_told(file)) {
            pipe::say(&format!(
                "every user of this machine can read `{}`, which has secrets; chmod o-r it",
                file.display()
            ));
        }
        Ok(Self {
            state,
            due: None,
            seen: states(&files),
            files,
        })
    }

    /// Whether strangers are turned away, and nobody on the way reads along.
    pub(crate) const fn is_closed(&self) -> bool {
        self.state.is_closed
    }

    pub(crate) const fn has_tls(&self) -> bool {
        self.state.tls.is_some()
    }

    /// How to speak to a client that comes now; `None`: in the clear.
    pub(crate) fn tls(&mut self) -> Option<Arc<ServerConfig>> {
        self.look(Instant::now());
        self.state.tls.clone()
    }

    /// Whether who sends this `Authorization` is answered.
    pub(crate) fn admits(&mut self, authorization: Option<&str>) -> Admission {
        match &mut self.state.passwords {
            Some(passwords) => passwords.admits(authorization, Instant::now()),
            None => Admission::Granted,
        }
    }

    /// Reads the files again where one has changed. Where that fails, all stays as it
    /// was: half of a change may be written.
    fn look(&mut self, now: Instant) {
        let Some(path) = self.files.first() else {
            return;
        };
        if self.due.is_some_and(|due| now < due) {
            return;
        }
        self.due = Some(now + LOOK_EVERY);
        let seen = states(&self.files);
        if seen == self.seen {
            return;
        }
        self.seen = seen;
        match WebState::read(path) {
            // What was closed is not opened while nobody looks.
            Ok((state, _)) if self.state.is_closed && !state.is_closed => pipe::say(&format!(
                "`{}` would let strangers in; clients are answered as before until laggard begins anew",
                path.display()
            )),
            Ok((state, files)) => {
                (self.state, self.seen) = (state, states(&files));
                self.files = files;
            }
            Err(err) => pipe::say(&format!("{err:#}; clients are answered as before")),
        }
    }
}

impl WebState {
    /// What the file says, and which files say it: itself, and those that it names.
    fn read(path: &Path) -> anyhow::Result<(Self, Vec<PathBuf>)> {
        let file = WebFile::read(path)?;
        let is_closed = file.is_closed();
        let mut files = vec![path.to_owned()];
        let tls = match &file.tls_server_config {
            Some(settings) => {
                files.extend(settings.files().cloned());
                Some(tls::server(settings)?)
            }
            None => None,
        };
        let passwords = match file.basic_auth_users {
            users if users.is_empty() => None,
            users => Some(Passwords::new(users)?),
        };
        let state = Self {
            tls,
            passwords,
            is_closed,
        };
        Ok((state, files))
    }
}

/// Whether users who have nothing to do with it can read a file.
fn is_told(file: &Path) -> bool {
    fs::metadata(file).is_ok_and(|it| it.permissions().mode() & 0o004 != 0)
}

fn states(files: &[PathBuf]) -> Vec<FileState> {
    let state = |file: &PathBuf| {
        let it = fs::metadata(file).ok()?;
        Some((it.mtime(), it.mtime_nsec(), it.ino(), it.size()))
    };
    files.iter().map(state).collect()
}
