//! Access control: `--web-config FILE`, as in Prometheus' exporters.
//!
//! The file, and the files that it names, are read again when they change, because certificates
//! expire before this program ends.

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

/// Time between two checks of the files.
const CHECK_EVERY: Duration = Duration::from_secs(10);
/// Index of the private key: after the file itself and the certificate.
const KEY: usize = 2;

/// Prepared settings of the file.
#[derive(Debug, Default)]
pub(crate) struct Web {
    /// The file, and the files that it names. If empty, all clients are accepted, without TLS.
    files: Vec<PathBuf>,
    state: WebState,
    /// Time of the next check, and the last state of the files.
    due: Option<Instant>,
    seen: Vec<FileState>,
}

#[derive(Debug, Default)]
struct WebState {
    tls: Option<Arc<ServerConfig>>,
    passwords: Option<Passwords>,
    is_closed: bool,
}

/// State that identifies a version of a file: time of modification in s and ns, inode and size.
type FileState = Option<(i64, i64, u64, u64)>;

impl Web {
    /// Reads the file. Without a file, all clients are accepted, without TLS.
    ///
    /// # Errors
    /// If it cannot be read, or has unsupported content.
    pub(crate) fn open(path: Option<&Path>) -> anyhow::Result<Self> {
        let Some(path) = path else {
            return Ok(Self::default());
        };
        let (state, files) = WebState::read(path)?;
        let (own, named) = (files.first(), files.get(KEY));
        for file in own
            .into_iter()
            .chain(named)
            .filter(|file| is_world_readable(file))
        {
            pipe::say(&format!(
                "every user of this machine can read `{}`, which has secrets; chmod o-r it",
                file.display()
            ));
        }
        Ok(Self {
            state,
            due: None,
            // The files may have changed while they were read: the first check reads them again.
            seen: Vec::new(),
            files,
        })
    }

    /// Returns true if clients without credentials are rejected and the connection is encrypted.
    pub(crate) const fn is_closed(&self) -> bool {
        self.state.is_closed
    }

    pub(crate) const fn has_tls(&self) -> bool {
        self.state.tls.is_some()
    }

    /// Returns the TLS settings for a new client; `None` without TLS.
    pub(crate) fn tls(&mut self) -> Option<Arc<ServerConfig>> {
        self.look(Instant::now());
        self.state.tls.clone()
    }

    /// Checks this `Authorization`.
    pub(crate) fn admits(&mut self, authorization: Option<&str>) -> Admission {
        match &mut self.state.passwords {
            Some(passwords) => passwords.admits(authorization, Instant::now()),
            None => Admission::Granted,
        }
    }

    /// Reads the files again if one has changed. If that fails, the settings do not change, because
    /// the new content may be incomplete.
    fn look(&mut self, now: Instant) {
        let Some(path) = self.files.first() else {
            return;
        };
        if self.due.is_some_and(|due| now < due) {
            return;
        }
        self.due = Some(now + CHECK_EVERY);
        let states_now = states(&self.files);
        if states_now == self.seen {
            return;
        }
        // State before the files are read. The next check detects a change during reading.
        self.seen = states_now;
        match WebState::read(path) {
            Ok((state, files)) => match self.state.protection_lost_in(&state) {
                Some(lost) => pipe::say(&format!(
                    "`{}` no longer {lost}; clients are answered as before until laggard is \
                     restarted",
                    path.display()
                )),
                None => {
                    self.state.replace(state);
                    if files != self.files {
                        // Other files are named now, and their state was not read yet.
                        self.seen.clear();
                        self.files = files;
                    }
                }
            },
            Err(err) => pipe::say(&format!("{err:#}; clients are answered as before")),
        }
    }
}

impl WebState {
    /// Reads the file. Returns the settings and the paths of the files that contain them: the file
    /// itself and the files that it names.
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

    /// Names a protection that `new` lacks. A reload never drops one: an editor or a copy
    /// may have emptied the file for a moment.
    const fn protection_lost_in(&self, new: &Self) -> Option<&'static str> {
        if self.tls.is_some() && new.tls.is_none() {
            return Some("configures TLS");
        }
        if self.is_closed && !new.is_closed {
            return Some("asks clients for a password or a certificate");
        }
        if self.passwords.is_some() && new.passwords.is_none() && !new.is_closed {
            return Some("asks clients for a password");
        }
        None
    }

    /// Takes the settings of a reload. Known passwords, and the rest after the last attempt, do not
    /// change.
    fn replace(&mut self, mut new: Self) {
        new.passwords = match (self.passwords.take(), new.passwords.take()) {
            (Some(mut users), Some(read)) => {
                users.replace_users(read.into_users());
                Some(users)
            }
            (None | Some(_), read) => read,
        };
        *self = new;
    }
}

/// Returns true if unrelated users can read the file.
fn is_world_readable(file: &Path) -> bool {
    fs::metadata(file).is_ok_and(|metadata| metadata.permissions().mode() & 0o004 != 0)
}

fn states(files: &[PathBuf]) -> Vec<FileState> {
    let state = |file: &PathBuf| {
        let metadata = fs::metadata(file).ok()?;
        Some((
            metadata.mtime(),
            metadata.mtime_nsec(),
            metadata.ino(),
            metadata.size(),
        ))
    };
    files.iter().map(state).collect()
}

#[cfg(test)]
mod tests {
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;

    use super::*;

    /// File without TLS that contains only users.
    struct WebYml {
        dir: tempfile::TempDir,
        web: Web,
        now: Instant,
    }

    impl WebYml {
        fn new(text: &str) -> Self {
            let dir = tempfile::TempDir::new().unwrap();
            let path = dir.path().join("web.yml");
            fs::write(&path, text).unwrap();
            let web = Web::open(Some(&path)).unwrap();
            let now = Instant::now();
            Self { dir, web, now }
        }

        /// Replaces or removes the file, and checks it.
        fn change(&mut self, text: Option<&str>) {
            let (path, new) = (self.dir.path().join("web.yml"), self.dir.path().join("new"));
            match text {
                Some(text) => {
                    fs::write(&new, text).unwrap();
                    fs::rename(new, path).unwrap();
                }
                None => fs::remove_file(path).unwrap(),
            }
            self.now += CHECK_EVERY;
            self.web.look(self.now);
        }

        fn admits(&mut self, text: &str) -> Admission {
            self.web
                .admits(Some(&format!("Basic {}", STANDARD.encode(text))))
        }
    }

    fn users(list: &[(&str, &str)]) -> String {
        let line = |(name, hash): &(&str, &str)| format!("  {name}: {hash}\n");
        let lines: String = list.iter().map(line).collect();
        format!("basic_auth_users:\n{lines}")
    }

    fn hash(password: &str) -> String {
        bcrypt::hash(password, 6).unwrap()
    }

    #[test]
    fn reload_keeps_known_passwords() {
        let (own, other) = (hash("a"), hash("b"));
        let mut file = WebYml::new(&users(&[("own", &own)]));
        assert_eq!(file.admits("own:a"), Admission::Granted);

        for text in [
            Some(users(&[("own", &own), ("other", &other)])),
            Some(format!("# a comment\n{}", users(&[("own", &own)]))),
            // Deleted, restored, damaged and repaired.
            None,
            Some(users(&[("own", &own)])),
            Some("basic_auth_users: [".to_owned()),
            Some(users(&[("own", &own)])),
        ] {
            file.change(text.as_deref());
            // A wrong password comes first: for some time afterwards only known passwords are
            // accepted.
            assert_ne!(file.admits("other:guess"), Admission::Granted, "{text:?}");
            assert_eq!(file.admits("own:a"), Admission::Granted, "{text:?}");
        }
        file.change(Some(&users(&[("own", &other)])));
        assert_ne!(file.admits("own:a"), Admission::Granted);
    }

    /// Many programs empty a file before they rewrite it.
    #[test]
    fn emptied_file_does_not_remove_the_passwords() {
        let own = hash("a");
        let mut file = WebYml::new(&users(&[("own", &own)]));
        assert_eq!(file.web.admits(None), Admission::Refused);

        for text in ["", "# rewritten soon\n", "basic_auth_users: {}\n"] {
            file.change(Some(text));
            assert_eq!(file.web.admits(None), Admission::Refused, "{text:?}");
        }
    }

    #[test]
    fn reload_with_users_requires_passwords() {
        let mut file = WebYml::new("");
        assert_eq!(file.web.admits(None), Admission::Granted);

        file.change(Some(&users(&[("own", &hash("a"))])));

        assert_eq!(file.web.admits(None), Admission::Refused);
        assert_eq!(file.admits("own:a"), Admission::Granted);
    }

    /// A change between reading the file and noting its state was never detected.
    #[test]
    fn change_during_reading_is_detected_at_the_next_check() {
        let (first, second) = (hash("a"), hash("b"));
        let mut file = WebYml::new(&users(&[("own", &first)]));
        let path = file.dir.path().join("web.yml");

        // Simulates a change between reading the file and noting its state.
        let written = fs::metadata(&path).unwrap().modified().unwrap();
        fs::write(&path, users(&[("own", &second)])).unwrap();
        let changed = fs::File::options().write(true).open(&path).unwrap();
        changed.set_modified(written).unwrap();
        file.now += CHECK_EVERY;
        let now = file.now;
        file.web.look(now);

        assert_eq!(file.admits("own:b"), Admission::Granted);
    }
}
