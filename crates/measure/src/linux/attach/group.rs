//! Control groups (version 2) to measure.

use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};

/// Suffixes of units that have a control group: systemd.unit(5). Names may have other dots.
const SUFFIXES: [&str; 6] = ["service", "scope", "slice", "socket", "mount", "swap"];

/// Maximum depth of a group below the root.
const MAX_DEPTH: usize = 32;

/// Reason why a control group cannot be measured.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GroupError {
    #[error(
        "no control groups of version 2 are mounted here; give processes by number or by --comm"
    )]
    NoGroups,
    #[error(
        "there is no control group `{0}`; give its path as in `/proc/PID/cgroup`, or a directory below {1}"
    )]
    NoGroup(String, PathBuf),
    #[error(
        "there is no control group of the unit `{0}`: a unit has one while it runs; see `systemctl status {0}`"
    )]
    NoUnit(String),
    #[error(
        "there are several control groups of the unit `{0}`: {1}; give one of them with --cgroup"
    )]
    Several(String, String),
    /// Threaded group: the processes of its threads are in a parent group.
    #[error(
        "the control group `{0}` is threaded and has no processes; give its parent group, or a process with --tid"
    )]
    Threaded(String),
    #[error("cannot search control groups in {0}: {1}")]
    Refused(PathBuf, io::Error),
}

/// Control group with its children. It may disappear and appear again.
#[derive(Clone, Debug)]
pub struct AttachGroup {
    folder: PathBuf,
}

impl AttachGroup {
    /// Finds the group at `path`: a directory, or a path of `/proc/PID/cgroup`.
    ///
    /// # Errors
    /// If the group does not exist.
    pub fn from_path(path: &str) -> Result<Self, GroupError> {
        let root = root()?;
        let given = Path::new(path);
        let parts = given.components();
        let inner = parts.filter(|part| matches!(part, Component::Normal(_)));
        let below = root.join(inner.collect::<PathBuf>());
        // An empty path is probably an unset variable, not the whole machine.
        let has_up = given.components().any(|part| part == Component::ParentDir);
        let is_good = !has_up && !path.is_empty();
        let folders = [given.to_path_buf(), below];
        let group = folders
            .into_iter()
            .find(|folder| folder.starts_with(&root) && folder.join(PROCESSES).exists());
        match group {
            Some(folder) if is_good && is_threaded(&folder) => {
                Err(GroupError::Threaded(path.into()))
            }
            Some(folder) if is_good => Ok(Self { folder }),
            _ => Err(GroupError::NoGroup(path.into(), root)),
        }
    }

    /// Finds the group of the unit `name`; without a suffix, it is a service.
    ///
    /// # Errors
    /// If the unit has no group, or several.
    pub fn of_unit(name: &str) -> Result<Self, GroupError> {
        let root = root()?;
        let suffix = name.rsplit_once('.').map(|(_, suffix)| suffix);
        let full = if suffix.is_some_and(|suffix| SUFFIXES.contains(&suffix)) {
            name.to_owned()
        } else {
            format!("{name}.service")
        };
        let mut groups = Vec::new();
        let mut look = |folder: &Path| {
            if folder.file_name().is_some_and(|name| name == full.as_str()) {
                groups.push(folder.to_path_buf());
            }
        };
        each_below(&root, 0, &mut look).map_err(|err| GroupError::Refused(root.clone(), err))?;
        match &groups[..] {
            [] => Err(GroupError::NoUnit(full)),
            [folder] => Ok(Self {
                folder: folder.clone(),
            }),
            several => {
                let names = several.iter().map(|group| group.display().to_string());
                Err(GroupError::Several(
                    full,
                    names.collect::<Vec<_>>().join(", "),
                ))
            }
        }
    }

    /// Returns the processes that are in the group now; none if the group no longer exists.
    ///
    /// # Errors
    /// If the system does not list them.
    pub fn processes(&self) -> Result<Vec<u32>, GroupError> {
        let mut processes = Vec::new();
        let mut read = |folder: &Path| {
            // The group was removed, or is threaded; a parent group then lists the processes.
            let text = fs::read_to_string(folder.join(PROCESSES)).unwrap_or_default();
            // Processes of other PID namespaces have number 0.
            let numbers = text.lines().filter_map(|line| line.parse().ok());
            processes.extend(numbers.filter(|&number: &u32| number > 0));
        };
        match each_below(&self.folder, 0, &mut read) {
            Err(err) if err.kind() != io::ErrorKind::NotFound => {
                Err(GroupError::Refused(self.folder.clone(), err))
            }
            _ => {
                processes.sort_unstable();
                processes.dedup();
                Ok(processes)
            }
        }
    }

    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }
}

const PROCESSES: &str = "cgroup.procs";

/// Returns true if the processes of the threads in this group belong to a parent group, see
/// cgroups(7). The root group lacks this file.
fn is_threaded(folder: &Path) -> bool {
    fs::read_to_string(folder.join("cgroup.type")).is_ok_and(|kind| kind.trim() == "threaded")
}

/// Returns the mount point of the cgroup v2 hierarchy.
fn root() -> Result<PathBuf, GroupError> {
    // A user can mount FUSE at a path that is not UTF-8.
    let mounts = fs::read("/proc/self/mounts")
        .map_err(|err| GroupError::Refused("/proc/self/mounts".into(), err))?;
    let mounts = String::from_utf8_lossy(&mounts);
    let mut mounts = mounts.lines().map(|line| line.split(' '));
    let root = mounts.find_map(|mut line| {
        let place = line.nth(1)?;
        (line.next()? == "cgroup2").then(|| PathBuf::from(place))
    });
    root.ok_or(GroupError::NoGroups)
}

/// Calls `look` for a directory and all directories below it. Skips directories that are removed
/// during the search.
fn each_below(folder: &Path, depth: usize, look: &mut impl FnMut(&Path)) -> io::Result<()> {
    look(folder);
    if depth == MAX_DEPTH {
        return Ok(());
    }
    for entry in fs::read_dir(folder)?.flatten() {
        if !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            continue;
        }
        match each_below(&entry.path(), depth + 1, look) {
            Err(err) if err.kind() != io::ErrorKind::NotFound => return Err(err),
            _ => {}
        }
    }
    Ok(())
}
