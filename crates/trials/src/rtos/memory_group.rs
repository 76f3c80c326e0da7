//! Control group with a small memory limit, for a single process.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use laggard_files::PutBack;
use laggard_model::{Absence, Lacks};

use laggard_measure::linux::reason_of;

/// Prefix of the name. The rest is the PID of the process that created the group.
const NAME: &str = "laggard-rtos-";
/// Removes the group `$1`, which succeeds some time after its last process has ended.
const REMOVAL: &str = r#"
tries=0
while [ -d "$1" ] && ! rmdir "$1" 2>/dev/null && [ "$tries" -lt 100 ]; do
    tries=$((tries + 1))
    sleep 0.02
done
[ ! -d "$1" ]
"#;

/// Control group of laggard. It is removed on drop, and when this program is killed.
#[derive(Debug)]
pub(super) struct MemoryGroup {
    path: PathBuf,
    /// File that sets the limit.
    pub(super) limit: &'static str,
    _back: PutBack,
}

/// Parent of the group and the file that limits its memory.
struct Site {
    parent: PathBuf,
    limit: &'static str,
}

impl MemoryGroup {
    /// Creates a group with a memory limit. Changes nothing else: the parent must already
    /// delegate the memory controller.
    pub(super) fn create(limit_bytes: u64) -> Result<Self, Absence> {
        // A mount point may not be UTF-8.
        let mounts = fs::read("/proc/self/mountinfo").unwrap_or_default();
        let mounts = String::from_utf8_lossy(&mounts);
        let own = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
        let mut refusals = Vec::new();
        for site in [unified(&mounts, &own), divided(&mounts, &own)]
            .into_iter()
            .flatten()
        {
            remove_left_behind(&site.parent);
            match Self::create_in(&site, limit_bytes) {
                Ok(group) => return Ok(group),
                Err(err) => refusals.push((site.parent, err)),
            }
        }
        Err(absent(refusals.pop()))
    }

    fn create_in(site: &Site, limit_bytes: u64) -> io::Result<Self> {
        let path = site.parent.join(format!("{NAME}{}", std::process::id()));
        let back = PutBack::at_end(
            REMOVAL,
            &[&path],
            None,
            format!(
                "the control group `{}` still exists; remove it with rmdir",
                path.display()
            ),
        )?;
        fs::create_dir(&path)?;
        let group = Self {
            path,
            limit: site.limit,
            _back: back,
        };
        fs::write(group.path.join(site.limit), limit_bytes.to_string())?;
        Ok(group)
    }

    /// Opens the file that moves a process into the group when it writes `0`.
    pub(super) fn door(&self) -> io::Result<File> {
        File::options()
            .write(true)
            .open(self.path.join("cgroup.procs"))
    }
}

/// Removes empty groups of earlier runs that were killed.
fn remove_left_behind(parent: &Path) {
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let number = name.to_str().and_then(|name| name.strip_prefix(NAME));
        let Some(number) = number.and_then(|number| number.parse::<u32>().ok()) else {
            continue;
        };
        if !Path::new(&format!("/proc/{number}")).exists() {
            // Fails if another process has removed it.
            let _ = fs::remove_dir(entry.path());
        }
    }
}

/// Finds the parent in the unified hierarchy (version 2): the nearest ancestor of the current
/// group that delegates the memory controller.
fn unified(mounts: &str, own: &str) -> Option<Site> {
    let (mount, root) = mounted(mounts, |kind, _| kind == "cgroup2")?;
    let path = own.lines().find_map(|line| line.strip_prefix("0::"))?;
    let delegates = |group: &&Path| {
        let controllers = fs::read_to_string(group.join("cgroup.subtree_control"));
        controllers.is_ok_and(|names| names.split_whitespace().any(|name| name == "memory"))
    };
    let group = below(&mount, &root, path);
    let above = group
        .ancestors()
        .take_while(|group| group.starts_with(&mount));
    Some(Site {
        parent: above.into_iter().find(delegates)?.to_owned(),
        limit: "memory.high",
    })
}

/// Finds the parent in the memory hierarchy of version 1: the current group.
fn divided(mounts: &str, own: &str) -> Option<Site> {
    let has_memory = |options: &str| options.split(',').any(|option| option == "memory");
    let (mount, root) = mounted(mounts, |kind, options| {
        kind == "cgroup" && has_memory(options)
    })?;
    let path = own.lines().find_map(|line| {
        let mut fields = line.splitn(3, ':').skip(1);
        let is_it = has_memory(fields.next()?);
        fields.next().filter(|_| is_it)
    })?;
    let group = below(&mount, &root, path);
    Some(Site {
        parent: if group.is_dir() { group } else { mount },
        limit: "memory.limit_in_bytes",
    })
}

/// Returns the mount point and the root of the first file system of a type and with options
/// that match (`proc_pid_mountinfo(5)`).
fn mounted(mounts: &str, is_it: impl Fn(&str, &str) -> bool) -> Option<(PathBuf, String)> {
    mounts.lines().find_map(|line| {
        let (place, system) = line.split_once(" - ")?;
        let mut system = system.split(' ');
        let (kind, options) = (system.next()?, system.nth(1)?);
        let mut place = place.split(' ').skip(3);
        let (root, mount) = (place.next()?, place.next()?);
        is_it(kind, options).then(|| (mount.into(), root.to_owned()))
    })
}

/// Returns the directory of a group by its kernel name.
fn below(mount: &Path, root: &str, path: &str) -> PathBuf {
    let inner = path.strip_prefix(root).unwrap_or(path);
    mount.join(inner.trim_start_matches('/'))
}

fn absent(refusal: Option<(PathBuf, io::Error)>) -> Absence {
    let Some((parent, err)) = refusal else {
        return Absence::new(
            "no control group delegates the memory controller",
            "enable it: `echo +memory > /sys/fs/cgroup/cgroup.subtree_control`",
            Lacks::Machine,
        );
    };
    let lacks_rights = err.kind() == io::ErrorKind::PermissionDenied;
    let (lacks, remedy) = if lacks_rights {
        (Lacks::Rights, "run as root")
    } else {
        let remedy = "run where control groups can be created (not in most containers)";
        (Lacks::Machine, remedy)
    };
    Absence::new(
        format!(
            "cannot create a control group in {}: {}",
            parent.display(),
            reason_of(&err)
        ),
        remedy,
        lacks,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOUNTS: &str = "\
24 1 0:22 / /sys/fs/cgroup rw - tmpfs tmpfs rw,mode=755
25 24 0:23 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu,cpuacct
26 24 0:24 /box /sys/fs/cgroup/memory rw,relatime shared:4 - cgroup cgroup rw,memory
27 24 0:25 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw
";

    #[test]
    fn hierarchy_is_found_by_its_controller_at_any_mount_point() {
        let site = divided(MOUNTS, "5:cpu,cpuacct:/\n4:memory:/box\n0::/\n").unwrap();

        assert_eq!(site.parent, Path::new("/sys/fs/cgroup/memory"));
        let (mount, root) = mounted(MOUNTS, |kind, _| kind == "cgroup2").unwrap();
        assert_eq!(mount, Path::new("/sys/fs/cgroup/unified"));
        assert_eq!(root, "/");
        assert_eq!(
            below(&mount, &root, "/user.slice/me"),
            mount.join("user.slice/me")
        );
        assert!(divided("", "").is_none());
        assert!(unified(MOUNTS, "4:memory:/box\n").is_none());
    }

    #[test]
    fn only_groups_of_processes_that_are_gone_are_removed() {
        let dir = tempfile::tempdir().unwrap();
        let own = dir.path().join(format!("{NAME}{}", std::process::id()));
        // The highest PID is 4,194,304.
        let left = dir.path().join(format!("{NAME}4194305"));
        let other = dir.path().join("laggard-rtos-x");
        for path in [&own, &left, &other] {
            fs::create_dir(path).unwrap();
        }

        remove_left_behind(dir.path());

        assert!(own.is_dir() && other.is_dir());
        assert!(!left.exists());
    }
}
