//! Control groups (version 2) whose processes are meant.

use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};

/// What units that have a control group end in: systemd.unit(5). Names may have other
/// dots.
const ENDINGS: [&str; 6] = ["service", "scope", "slice", "socket", "mount", "swap"];

/// So deep a group lies below the first, at most.
const DEEPEST: usize = 32;

/// Why a group cannot be had.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GroupError {
    /// There are none of version 2.
    #[error(
        "no control groups of version 2 are mounted here; give processes by number or by --comm"
    )]
    NoGroups,
    /// There is no such group.
    #[error(
        "there is no control group `{0}`; give it as `/proc/PID/cgroup` shows it, or as a folder below {1}"
    )]
    NoGroup(String, PathBuf),
    /// There is no such unit.
    #[error(
        "no control group is called `{0}`: a unit has one while it runs; `systemctl status {0}` tells"
    )]
    NoUnit(String),
    /// There are several.
    #[error("several control groups are called `{0}`: {1}; give one of them with --cgroup")]
    Several(String, String),
    /// Its threads are of processes that are in a group above it.
    #[error(
        "the control group `{0}` has threads and no processes (its type is threaded): give the group above it, or a process with --tid"
    )]
    Threaded(String),
    /// The system refused.
    #[error("look for control groups in {0}: {1}")]
    Refused(PathBuf, io::Error),
}

/// A control group, with those below it. It may come and go.
#[derive(Clone, Debug)]
pub struct AttachGroup {
    folder: PathBuf,
}

impl AttachGroup {
    /// The group at `path`: a folder, or as `/proc/PID/cgroup` shows it.
    ///
    /// # Errors
    /// When there is none.
    pub fn at(path: &str) -> Result<Self, GroupError> {
        let root = root()?;
        let given = Path::new(path);
        let parts = given.components();
        let inner = parts.filter(|part| matches!(part, Component::Normal(_)));
        let below = root.join(inner.collect::<PathBuf>());
        // No path is not the whole machine: a variable that is not set.
        let has_up = given.components().any(|part| part == Component::ParentDir);
        let is_good = !has_up && !path.is_empty();
        let folders = [given.to_path_buf(), below];
        let found = folders
            .into_iter()
            .find(|folder| folder.starts_with(&root) && folder.join(PROCESSES).exists());
        match found {
            Some(folder) if is_good && is_threaded(&folder) => {
                Err(GroupError::Threaded(path.into()))
            }
            Some(folder) if is_good => Ok(Self { folder }),
            _ => Err(GroupError::NoGroup(path.into(), root)),
        }
    }

    /// The group of the unit `name`; without an ending, it is a service.
    ///
    /// # Errors
    /// When there is none, or more than one.
    pub fn of_unit(name: &str) -> Result<Self, GroupError> {
        let root = root()?;
        let ending = name.rsplit_once('.').map(|(_, ending)| ending);
        let full = match ending.is_some_and(|ending| ENDINGS.contains(&ending)) {
            true => name.to_owned(),
            false => format!("{name}.service"),
        };
        let mut found = Vec::new();
        let mut look = |folder: &Path| {
            if folder.file_name().is_some_and(|one| one == full.as_str()) {
                found.push(folder.to_path_buf());
            }
        };
        each_below(&root, 0, &mut look).map_err(|err| GroupError::Refused(root.clone(), err))?;
        match &found[..] {
            [] => Err(GroupError::NoUnit(full)),
            [folder] => Ok(Self {
                folder: folder.clone(),
            }),
            several => {
                let names = several.iter().map(|one| one.display().to_string());
                Err(GroupError::Several(
                    full,
                    names.collect::<Vec<_>>().join(", "),
                ))
            }
        }
    }

    /// The processes that are in it now; none where it is gone.
    ///
    /// # Errors
    /// When the system refuses to list them.
    pub fn processes(&self) -> Result<Vec<u32>, GroupError> {
        let mut all = Vec::new();
        let mut read = |folder: &Path| {
            // Gone meanwhile, or of threads alone, which a group above lists.
            let text = fs::read_to_string(folder.join(PROCESSES)).unwrap_or_default();
            // Who is of another PID namespace is 0 there.
            let numbers = text.lines().filter_map(|line| line.parse().ok());
            all.extend(numbers.filter(|&number: &u32| number > 0));
        };
        match each_below(&self.folder, 0, &mut read) {
            Err(err) if err.kind() != io::ErrorKind::NotFound => {
                Err(GroupError::Refused(self.folder.clone(), err))
            }
            _ => {
                all.sort_unstable();
                all.dedup();
                Ok(all)
            }
        }
    }

    /// Where it is.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }
}

const PROCESSES: &str = "cgroup.procs";

/// Whether it has threads of processes that are in a group above: cgroups(7). The root
/// has no such file.
fn is_threaded(folder: &Path) -> bool {
    fs::read_to_string(folder.join("cgroup.type")).is_ok_and(|kind| kind.trim() == "threaded")
}

/// Where they are mounted.
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

/// Looks at a folder and all below it. One that goes meanwhile is none.
fn each_below(folder: &Path, depth: usize, look: &mut impl FnMut(&Path)) -> io::Result<()> {
    look(folder);
    if depth == DEEPEST {
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
