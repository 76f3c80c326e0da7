//! Instances of tracefs: ring buffers with separate settings.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use super::reason_of;

/// Mount points of tracefs in newer and older kernels.
const ROOTS: [&str; 2] = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];

/// Prefix of laggard's instances, followed by the process ID and the purpose.
const INSTANCE_PREFIX: &str = "laggard-";

/// Start of the purpose in the name of an instance for late wakeups; a number follows.
const PURPOSE: &str = "-late";

/// Returns the main directory of tracefs.
pub(super) fn root() -> io::Result<&'static Path> {
    let mut roots = ROOTS.iter().map(Path::new);
    roots
        .find(|root| root.join("instances").is_dir())
        .ok_or_else(|| {
            io::Error::new(
                ErrorKind::NotFound,
                "tracefs is not available at /sys/kernel/tracing (`mount -t tracefs tracefs /sys/kernel/tracing` as root)",
            )
        })
}

/// Adds the path of the file to an error.
pub(super) fn named(path: &Path) -> impl Fn(io::Error) -> io::Error + '_ {
    move |err| {
        io::Error::new(
            err.kind(),
            format!("{}: {}", path.display(), reason_of(&err)),
        )
    }
}

pub(super) fn read(path: &Path) -> io::Result<String> {
    fs::read_to_string(path).map_err(named(path))
}

pub(super) fn write(path: &Path, text: &str) -> io::Result<()> {
    fs::write(path, text).map_err(named(path))
}

pub(super) fn instances(root: &Path) -> impl Iterator<Item = PathBuf> {
    fs::read_dir(root.join("instances"))
        .into_iter()
        .flatten()
        .filter_map(|entry| Some(entry.ok()?.path()))
}

/// Returns the directory of this process's instance for `purpose`: empty, or a word after `-`.
pub(super) fn own_instance(root: &Path, purpose: &str) -> PathBuf {
    let name = format!("{INSTANCE_PREFIX}{}{purpose}", std::process::id());
    root.join("instances").join(name)
}

/// Returns the process ID in the name of an instance, if the instance is one of laggard's.
pub(super) fn owner(instance: &Path) -> Option<u32> {
    let name = instance.file_name()?.to_str()?;
    let rest = name.strip_prefix(INSTANCE_PREFIX)?;
    let (process, purpose) = match rest.split_once(PURPOSE) {
        Some((process, number)) => (process, number),
        None => (rest, "0"),
    };
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    (is_number(process) && is_number(purpose)).then(|| process.parse().ok())?
}

/// Returns whether the instance belongs to a laggard that was killed.
pub(super) fn is_stale(instance: &Path) -> bool {
    owner(instance).is_some_and(|process| !Path::new(&format!("/proc/{process}")).exists())
}

/// Removes the instances of every laggard that was killed, except those that another process
/// uses or removes now.
pub(super) fn remove_stale(root: &Path) -> io::Result<()> {
    let mut stale = instances(root).filter(|instance| is_stale(instance));
    stale.try_for_each(|stale| match end(&stale) {
        Err(err) if matches!(err.kind(), ErrorKind::NotFound | ErrorKind::ResourceBusy) => Ok(()),
        ended => ended,
    })
}

/// Ends the tracer and the events of an instance, and removes it.
pub(super) fn end(instance: &Path) -> io::Result<()> {
    write(&instance.join("current_tracer"), "nop")?;
    fs::remove_dir(instance).map_err(named(instance))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instance_of_a_process_that_has_ended_is_removed() {
        let root = tempfile::tempdir().unwrap();
        let instance = |name: &str| root.path().join("instances").join(name);
        // No process has this number.
        let stale = ["laggard-4194304", "laggard-4194305-late1"];
        let others = ["laggard-x", "laggard-4194304-mine", "trace-cmd"].map(&instance);
        let own = own_instance(root.path(), "-late1");
        for directory in stale.map(&instance).iter().chain(&others).chain([&own]) {
            fs::create_dir_all(directory).unwrap();
        }

        // A file of a directory that is not tracefs keeps the directory.
        let refused = remove_stale(root.path()).unwrap_err();

        assert!(refused.to_string().contains("laggard-4194304"), "{refused}");
        assert!(stale.map(instance).iter().any(|path| is_stale(path)));
        assert!(!others.iter().any(|path| is_stale(path)));
        assert!(!is_stale(&own));
    }
}
