//! A setting of the kernel that is changed for a while.

use std::fs::{self, File, TryLockError};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use laggard_files::PutBack;

/// Where the kernel has its settings.
const SETTINGS: &str = "/proc/sys";

/// A setting that is as it was again when this is dropped, and when this
/// program is killed.
#[derive(Debug)]
pub(crate) struct Setting {
    name: String,
    file: PathBuf,
    before: String,
    /// The same to the letter.
    exactly: String,
    back: PutBack,
}

impl Setting {
    /// The setting of this name, as sysctl(8) has it, if it can be changed.
    pub(crate) fn hold(name: &str) -> anyhow::Result<Self> {
        Self::hold_in(Path::new(SETTINGS), name)
    }

    fn hold_in(folder: &Path, name: &str) -> anyhow::Result<Self> {
        let file = folder.join(path_of(name)?);
        let read = || {
            let read = fs::read_to_string(&file);
            read.with_context(|| {
                format!("read the setting `{name}`; `sysctl -a` lists those there are")
            })
        };
        read()?;
        // Opened and not written: that changes nothing.
        let held = match File::options().write(true).open(&file) {
            Ok(held) => held,
            Err(err) => anyhow::bail!("{}", refusal(name, &file, &err)),
        };
        // What another one has made of it meanwhile is not how it was.
        if let Err(TryLockError::WouldBlock) = held.try_lock() {
            anyhow::bail!(
                "another `laggard compare` changes the setting `{name}`; wait until it has put it back"
            );
        }
        // To the letter: spaces in it may have a meaning, as in `kernel.core_pattern`.
        let text = read()?;
        let exactly = text.strip_suffix('\n').unwrap_or(&text);
        let before = words(&text);
        let back = PutBack::at_end(
            r#"printf '%s\n' "$1" >"$2""#,
            &[exactly, &file.to_string_lossy()],
            Some(held),
            format!(
                "`{name}` could not be put back; it was `{before}`: sysctl -w {name}='{before}'"
            ),
        );
        Ok(Self {
            back: back.context("start a shell that puts the setting back")?,
            name: name.into(),
            before,
            exactly: exactly.to_owned(),
            file,
        })
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// What it is without this.
    pub(crate) fn before(&self) -> &str {
        &self.before
    }

    /// An error where it does not take what it is: some settings can be changed and
    /// not be changed back. Nothing is changed by that.
    pub(super) fn can_be_put_back(&self) -> anyhow::Result<()> {
        let Self { name, before, .. } = self;
        fs::write(&self.file, format!("{}\n", self.exactly)).with_context(|| {
            format!("`{name}` does not take `{before}`, which it is, so that it could not be put back; choose another setting")
        })
    }

    /// Changes it, and makes sure that it is so.
    pub(crate) fn set(&self, value: &str) -> anyhow::Result<()> {
        let wanted = words(value);
        fs::write(&self.file, format!("{wanted}\n"))
            .with_context(|| format!("set `{}` to `{wanted}`", self.name))?;
        let found = self.now()?;
        if found != wanted {
            anyhow::bail!(
                "`{}` was set to `{wanted}` and is `{found}`; give a value that the kernel takes as it is",
                self.name
            );
        }
        Ok(())
    }

    /// An error where somebody else has changed it since it was set to `value`.
    pub(super) fn is_still(&self, value: &str) -> anyhow::Result<()> {
        let (wanted, found) = (words(value), self.now()?);
        if found != wanted {
            anyhow::bail!(
                "`{}` was set to `{wanted}`, and something else made it `{found}` meanwhile; end that, and begin again",
                self.name
            );
        }
        Ok(())
    }

    /// Puts it back. Returns what to say of it: as it is then, it was looked at.
    pub(crate) fn put_back(self) -> String {
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
                format!("`{name}` is `{now}` again, as it was before")
            }
            Ok(now) => format!("`{name}` was `{before}` before, and is `{now}` now; see to it"),
            Err(err) => format!("`{name}` was `{before}` before, and cannot be read now: {err}"),
        }
    }

    fn now(&self) -> anyhow::Result<String> {
        let read = fs::read_to_string(&self.file);
        Ok(words(&read.with_context(|| {
            format!("read the setting `{}` again", self.name)
        })?))
    }
}

/// The file of a setting, from the folder of all on. Dots part folders, unless
/// slashes do.
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

/// Why a setting that can be read cannot be changed.
fn refusal(name: &str, file: &Path, err: &std::io::Error) -> String {
    let is_read_only = fs::metadata(file).is_ok_and(|data| data.permissions().readonly());
    match (is_read_only, err.kind()) {
        (true, _) => format!("the setting `{name}` is read-only; choose one that can be changed"),
        (_, ErrorKind::PermissionDenied) => {
            format!("changing the setting `{name}` takes root; run this as root")
        }
        (_, ErrorKind::ReadOnlyFilesystem) => format!(
            "the setting `{name}` cannot be changed from here; run this outside of the container"
        ),
        _ => format!("open the setting `{name}`: {err}"),
    }
}

/// The values of a setting with a space between.
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
    fn a_setting_is_as_it_was_again_when_nobody_holds_it_any_more() {
        let (dir, file) = folder("4\t4\t1\n");
        let setting = Setting::hold_in(dir.path(), "kernel.some_setting").unwrap();
        let untouched = fs::read_to_string(&file).unwrap();

        setting.set("7 4 1").unwrap();

        assert_eq!(untouched, "4\t4\t1\n");
        assert_eq!(fs::read_to_string(&file).unwrap(), "7 4 1\n");
        setting.is_still("7\t4 1").unwrap();
        fs::write(&file, "9 4 1").unwrap();
        let said = setting.is_still("7 4 1").unwrap_err().to_string();
        assert!(said.contains("something else made it `9 4 1`"), "{said}");
        // Whoever else has changed it meanwhile.
        let told = setting.put_back();
        assert_eq!(fs::read_to_string(&file).unwrap(), "4\t4\t1\n");
        assert_eq!(
            told,
            "`kernel.some_setting` is `4 4 1` again, as it was before"
        );
    }

    /// As in `kernel.core_pattern`.
    #[test]
    fn spaces_are_put_back_as_they_were() {
        let (dir, file) = folder("|/bin/keep  %p \n");
        let setting = Setting::hold_in(dir.path(), "kernel.some_setting").unwrap();
        setting.can_be_put_back().unwrap();
        setting.set("core").unwrap();

        let told = setting.put_back();

        assert_eq!(fs::read_to_string(&file).unwrap(), "|/bin/keep  %p \n");
        assert!(told.ends_with("again, as it was before"), "{told}");
    }

    /// As `vm.drop_caches`, which is 0 and takes 1 to 3. Here: the user numbers of
    /// a process, which are set once.
    #[test]
    fn a_setting_that_does_not_take_what_it_is_is_left_alone() {
        let setting = Setting::hold_in(Path::new("/proc/self"), "uid_map").unwrap();

        let said = setting.can_be_put_back().unwrap_err().to_string();

        assert!(said.contains("could not be put back; choose"), "{said}");
    }

    /// The second would take for the state before what the first has made of it,
    /// and leave it so.
    #[test]
    fn a_setting_is_held_once_until_it_is_put_back() {
        let (dir, file) = folder("1\n");
        let first = Setting::hold_in(dir.path(), "kernel.some_setting").unwrap();
        first.set("0").unwrap();

        let second = Setting::hold_in(dir.path(), "kernel.some_setting");

        let said = second.unwrap_err().to_string();
        assert!(said.contains("another `laggard compare`"), "{said}");
        drop(first);
        assert_eq!(fs::read_to_string(&file).unwrap(), "1\n");
        assert!(Setting::hold_in(dir.path(), "kernel.some_setting").is_ok());
    }

    #[test]
    fn only_a_setting_is_one() {
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
    fn why_a_setting_cannot_be_changed_is_told() {
        let (_dir, file) = folder("1");
        let denied = std::io::Error::from(ErrorKind::PermissionDenied);

        let rights = refusal("kernel.x", &file, &denied);
        fs::set_permissions(&file, fs::Permissions::from_mode(0o444)).unwrap();
        let mode = refusal("kernel.x", &file, &denied);

        assert!(rights.contains("takes root"), "{rights}");
        assert!(mode.contains("is read-only"), "{mode}");
    }
}
