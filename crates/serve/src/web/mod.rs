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
            // The files may have changed while they were read: the first look reads them
            // once more.
            seen: Vec::new(),
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

    /// Reads the files again if one has changed. If that fails, the settings stay as they
    /// were: the change may be written in part only.
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
        // From before the files are read: a change during that is read at the next look.
        self.seen = seen;
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
                        // The state of files that are new here was not read yet.
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
    /// Reads the file. Returns the settings, and the paths of the files that contain them:
    /// the file itself and the files that it names.
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

    /// Takes over the settings of a reload. Known passwords, and the rest after the last
    /// try, stay.
    fn replace(&mut self, mut new: Self) {
        new.passwords = match (self.passwords.take(), new.passwords.take()) {
            (Some(mut known), Some(read)) => {
                known.replace_users(read.into_users());
                Some(known)
            }
            (None | Some(_), read) => read,
        };
        *self = new;
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

#[cfg(test)]
mod tests {
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;

    use super::*;

    /// A file without TLS, which has only users.
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

        /// Replaces the file, or removes it, and looks at it.
        fn change(&mut self, text: Option<&str>) {
            let (path, new) = (self.dir.path().join("web.yml"), self.dir.path().join("new"));
            match text {
                Some(text) => {
                    fs::write(&new, text).unwrap();
                    fs::rename(new, path).unwrap();
                }
                None => fs::remove_file(path).unwrap(),
            }
            self.now += LOOK_EVERY;
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
    fn a_reload_keeps_known_passwords_whatever_else_changes() {
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
            // Somebody guesses first: for a while after that only known passwords are right.
            assert_ne!(file.admits("other:guess"), Admission::Granted, "{text:?}");
            assert_eq!(file.admits("own:a"), Admission::Granted, "{text:?}");
        }
        file.change(Some(&users(&[("own", &other)])));
        assert_ne!(file.admits("own:a"), Admission::Granted);
    }

    /// Who rewrites a file empties it first.
    #[test]
    fn a_file_that_is_emptied_during_the_run_lets_nobody_in_without_a_password() {
        let own = hash("a");
        let mut file = WebYml::new(&users(&[("own", &own)]));
        assert_eq!(file.web.admits(None), Admission::Refused);

        for text in ["", "# rewritten soon\n", "basic_auth_users: {}\n"] {
            file.change(Some(text));
            assert_eq!(file.web.admits(None), Admission::Refused, "{text:?}");
        }
    }

    #[test]
    fn users_that_come_with_a_reload_close_it() {
        let mut file = WebYml::new("");
        assert_eq!(file.web.admits(None), Admission::Granted);

        file.change(Some(&users(&[("own", &hash("a"))])));

        assert_eq!(file.web.admits(None), Admission::Refused);
        assert_eq!(file.admits("own:a"), Admission::Granted);
    }

    /// A change between reading the file and noting its state was never seen.
    #[test]
    fn a_change_while_the_file_is_read_is_seen_at_the_next_look() {
        let (first, second) = (hash("a"), hash("b"));
        let mut file = WebYml::new(&users(&[("own", &first)]));
        let path = file.dir.path().join("web.yml");

        // As if it had changed between being read and the note of its state.
        let written = fs::metadata(&path).unwrap().modified().unwrap();
        fs::write(&path, users(&[("own", &second)])).unwrap();
        let changed = fs::File::options().write(true).open(&path).unwrap();
        changed.set_modified(written).unwrap();
        file.now += LOOK_EVERY;
        let now = file.now;
        file.web.look(now);

        assert_eq!(file.admits("own:b"), Admission::Granted);
    }
}
