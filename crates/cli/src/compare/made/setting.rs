//! Temporary changes of a kernel parameter.

use std::fs::{self, File, TryLockError};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use laggard_files::PutBack;

/// Directory of the kernel parameters.
const SETTINGS: &str = "/proc/sys";

/// Kernel parameter that is restored when this is dropped, and when this program is killed.
#[derive(Debug)]
pub(crate) struct Setting {
    name: String,
    file: PathBuf,
    before: String,
    /// Value before, with its white space.
    exactly: String,
    back: PutBack,
}

impl Setting {
    /// Opens a setting by its name as in sysctl(8), and checks that it can be changed.
    pub(crate) fn hold(name: &str) -> anyhow::Result<Self> {
        Self::hold_in(Path::new(SETTINGS), name)
    }

    fn hold_in(folder: &Path, name: &str) -> anyhow::Result<Self> {
        let file = folder.join(path_of(name)?);
        let read = || {
            let read = fs::read_to_string(&file);
            read.with_context(|| {
                format!("cannot read the setting `{name}`; `sysctl -a` lists all settings")
            })
        };
        read()?;
        // Opening without writing changes nothing.
        let held = match File::options().write(true).open(&file) {
            Ok(held) => held,
            Err(err) => anyhow::bail!("{}", refusal(name, &file, &err)),
        };
        // A value that another comparison has set is not the original one.
        if let Err(TryLockError::WouldBlock) = held.try_lock() {
            anyhow::bail!(
                "another `laggard compare` changes the setting `{name}`; wait until it ends"
            );
        }
        // White space may matter, as in `kernel.core_pattern`.
        let text = read()?;
        let exactly = text.strip_suffix('\n').unwrap_or(&text);
        let before = words(&text);
        let back = PutBack::at_end(
            r#"printf '%s\n' "$1" >"$2""#,
            &[exactly, &file.to_string_lossy()],
            Some(held),
            format!("cannot restore `{name}`; run: sysctl -w {name}='{before}'"),
        );
        Ok(Self {
            back: back.context("cannot start a shell that restores the setting")?,
            name: name.into(),
            before,
            exactly: exactly.to_owned(),
            file,
        })
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Returns the original value.
    pub(crate) fn before(&self) -> &str {
        &self.before
    }

    /// Checks that the kernel accepts the present value. Some settings can be changed but not
    /// restored.
    pub(super) fn check_restore(&self) -> anyhow::Result<()> {
        let Self { name, before, .. } = self;
        fs::write(&self.file, format!("{}\n", self.exactly)).with_context(|| {
            format!("`{name}` rejects its present value `{before}` and could not be restored; choose another setting")
        })
    }

    /// Sets the value and reads it back.
    pub(crate) fn set(&self, value: &str) -> anyhow::Result<()> {
        let wanted = words(value);
        fs::write(&self.file, format!("{wanted}\n"))
            .with_context(|| format!("cannot set `{}` to `{wanted}`", self.name))?;
        let current = self.now()?;
        if current != wanted {
            anyhow::bail!(
                "`{}` was set to `{wanted}` and is `{current}`; use a value that the kernel keeps unchanged",
                self.name
            );
        }
        Ok(())
    }

    /// Checks that no other program has changed it since it was set to `value`.
    pub(super) fn is_still(&self, value: &str) -> anyhow::Result<()> {
        let (wanted, found) = (words(value), self.now()?);
        if found != wanted {
            anyhow::bail!(
                "`{}` was set to `{wanted}`, and another program set it to `{found}`; stop that program and start again",
                self.name
            );
        }
        Ok(())
    }

    /// Restores the setting. Returns a message with the value that it then has.
    pub(crate) fn restore(self) -> String {
        let Self {
            name,
            file,
            before,
            back,
            ..
        } = self;
        drop(back);
        match fs::read_to_string(&file).map(|text| words(&text)) {
            Ok(now) if now == before => {
                format!("restored `{name}` to `{now}`")
            }
            Ok(now) => format!(
                "cannot restore `{name}`: it was `{before}` and is `{now}`; restore it by hand"
            ),
            Err(err) => format!("cannot read `{name}`, which was `{before}`: {err}"),
        }
    }

    fn now(&self) -> anyhow::Result<String> {
        let read = fs::read_to_string(&self.file);
        Ok(words(&read.with_context(|| {
            format!("cannot read the setting `{}`", self.name)
        })?))
    }
}

/// Returns the path of a setting below the directory of all. Dots separate directories, unless
/// the name has slashes.
fn path_of(name: &str) -> anyhow::Result<String> {
    let path = if name.contains('/') {
        name.to_owned()
    } else {
        name.replace('.', "/")
    };
    let is_name = |part: &str| !part.is_empty() && part != "." && part != "..";
    if !path.split('/').all(is_name) {
        anyhow::bail!("`{name}` is not a setting; write it as `kernel.timer_migration`");
    }
    Ok(path)
}

/// Explains why a readable setting cannot be changed.
fn refusal(name: &str, file: &Path, err: &std::io::Error) -> String {
    let is_read_only = fs::metadata(file).is_ok_and(|data| data.permissions().readonly());
    match (is_read_only, err.kind()) {
        (true, _) => format!("the setting `{name}` is read-only; choose one that can be changed"),
        (_, ErrorKind::PermissionDenied) => {
            format!("changing the setting `{name}` needs root; run this command as root")
        }
        (_, ErrorKind::ReadOnlyFilesystem) => format!(
            "the setting `{name}` is read-only here; run this command outside of the container"
        ),
        _ => format!("cannot open the setting `{name}`: {err}"),
    }
}

/// Returns the values of a setting with one space between them.
fn words(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn folder(value: &str) -> (tempfile::TempDir, PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("kernel")).unwrap();
        let file = dir.path().join("kernel/some_setting");
        fs::write(&file, value).unwrap();
        (dir, file)
    }

    #[test]
    fn setting_is_restored_with_its_white_space() {
        let (dir, file) = folder("4\t4\t1\n");
        let setting = Setting::hold_in(dir.path(), "kernel.some_setting").unwrap();
        let untouched = fs::read_to_string(&file).unwrap();

        setting.set("7 4 1").unwrap();

        assert_eq!(untouched, "4\t4\t1\n");
        assert_eq!(fs::read_to_string(&file).unwrap(), "7 4 1\n");
        setting.is_still("7\t4 1").unwrap();
        fs::write(&file, "9 4 1").unwrap();
        let message = setting.is_still("7 4 1").unwrap_err().to_string();
        assert!(
            message.contains("another program set it to `9 4 1`"),
            "{message}"
        );
        // Also after another program has changed it.
        let messages = setting.restore();
        assert_eq!(fs::read_to_string(&file).unwrap(), "4\t4\t1\n");
        assert_eq!(messages, "restored `kernel.some_setting` to `4 4 1`");
    }

    /// `kernel.core_pattern` has values with spaces.
    #[test]
    fn spaces_are_restored() {
        let (dir, file) = folder("|/bin/keep  %p \n");
        let setting = Setting::hold_in(dir.path(), "kernel.some_setting").unwrap();
        setting.check_restore().unwrap();
        setting.set("core").unwrap();

        let messages = setting.restore();

        assert_eq!(fs::read_to_string(&file).unwrap(), "|/bin/keep  %p \n");
        assert!(
            messages.starts_with("restored `kernel.some_setting` to "),
            "{messages}"
        );
    }

    /// Such as `vm.drop_caches`, which is 0 and accepts 1 to 3. Here: the user IDs of a process,
    /// which can be set once.
    #[test]
    fn setting_that_rejects_its_value_is_refused() {
        let setting = Setting::hold_in(Path::new("/proc/self"), "uid_map").unwrap();

        let message = setting.check_restore().unwrap_err().to_string();

        assert!(
            message.contains("could not be restored; choose"),
            "{message}"
        );
    }

    /// The second would take the value of the first for the original one, and keep it.
    #[test]
    fn setting_is_locked_until_it_is_restored() {
        let (dir, file) = folder("1\n");
        let first = Setting::hold_in(dir.path(), "kernel.some_setting").unwrap();
        first.set("0").unwrap();

        let second = Setting::hold_in(dir.path(), "kernel.some_setting");

        let message = second.unwrap_err().to_string();
        assert!(message.contains("another `laggard compare`"), "{message}");
        drop(first);
        assert_eq!(fs::read_to_string(&file).unwrap(), "1\n");
        assert!(Setting::hold_in(dir.path(), "kernel.some_setting").is_ok());
    }

    #[test]
    fn names_outside_of_the_settings_are_refused() {
        let (dir, _) = folder("1");
        for name in [
            "",
            "..",
            "kernel..some_setting",
            "kernel/../x",
            "/etc/passwd",
            "none",
        ] {
            assert!(Setting::hold_in(dir.path(), name).is_err(), "{name}");
        }
        assert!(Setting::hold_in(dir.path(), "kernel/some_setting").is_ok());
    }

    #[test]
    fn refusals_name_the_reason() {
        let (_dir, file) = folder("1");
        let denied = std::io::Error::from(ErrorKind::PermissionDenied);

        let rights = refusal("kernel.x", &file, &denied);
        fs::set_permissions(&file, fs::Permissions::from_mode(0o444)).unwrap();
        let mode = refusal("kernel.x", &file, &denied);

        assert!(rights.contains("needs root"), "{rights}");
        assert!(mode.contains("is read-only"), "{mode}");
    }
}
