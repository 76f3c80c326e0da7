//! A control group with little memory, for one process.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use laggard_files::PutBack;
use laggard_model::{Absence, Lacks};

use crate::linux::reason_of;

/// What its name begins with; the rest is the number of the process that made it.
const NAME: &str = "laggard-rtos-";
/// Removes the group `$1`, which is possible a while after its last process has ended.
const REMOVAL: &str = r#"
tries=0
while [ -d "$1" ] && ! rmdir "$1" 2>/dev/null && [ "$tries" -lt 100 ]; do
    tries=$((tries + 1))
    sleep 0.02
done
[ ! -d "$1" ]
"#;

/// A group of our own; removed when this value is dropped, and when this program is
/// killed.
#[derive(Debug)]
pub(super) struct MemoryGroup {
    path: PathBuf,
    /// The file that has its limit.
    pub(super) limit: &'static str,
    _back: PutBack,
}

/// Where a group can be made, and what limits its memory there.
struct Site {
    parent: PathBuf,
    limit: &'static str,
}

impl MemoryGroup {
    /// A group whose memory is limited to so many bytes. Nothing else is changed: it is
    /// made where groups that have memory limits can be.
    pub(super) fn make(limit_bytes: u64) -> Result<Self, Absence> {
        // A user can mount FUSE at a path that is not UTF-8.
        let mounts = fs::read("/proc/self/mountinfo").unwrap_or_default();
        let mounts = String::from_utf8_lossy(&mounts);
        let own = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
        let mut refusals = Vec::new();
        for site in [unified(&mounts, &own), divided(&mounts, &own)]
            .into_iter()
            .flatten()
        {
            remove_left_behind(&site.parent);
            match Self::at(&site, limit_bytes) {
                Ok(group) => return Ok(group),
                Err(err) => refusals.push((site.parent, err)),
            }
        }
        Err(absent(refusals.pop()))
    }

    fn at(site: &Site, limit_bytes: u64) -> io::Result<Self> {
        let path = site.parent.join(format!("{NAME}{}", std::process::id()));
        let back = PutBack::at_end(
            REMOVAL,
            &[&path],
            None,
            format!(
                "the control group `{}` is still there; remove it with rmdir",
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

    /// Whoever writes `0` to it is in the group.
    pub(super) fn door(&self) -> io::Result<File> {
        File::options()
            .write(true)
            .open(self.path.join("cgroup.procs"))
    }
}

/// Removes what runs that were killed could not. A group that has processes is not
/// removed.
fn remove_left_behind(parent: &Path) {
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let number = name.to_str().and_then(|name| name.strip_prefix(NAME));
        let Some(number) = number.and_then(|number| number.parse::<u32>().ok()) else {
            continue;
        };
        if !Path::new(&format!("/proc/{number}")).exists() {
            // Whose it is now is not known, and need not be.
            let _ = fs::remove_dir(entry.path());
        }
    }
}

/// In the hierarchy that all controllers share: the next group above ours (or ours,
/// where it is the root) that hands memory limits on.
fn unified(mounts: &str, own: &str) -> Option<Site> {
    let (mount, root) = mounted(mounts, |kind, _| kind == "cgroup2")?;
    let path = own.lines().find_map(|line| line.strip_prefix("0::"))?;
    let hands_on = |group: &&Path| {
        let handed = fs::read_to_string(group.join("cgroup.subtree_control"));
        handed.is_ok_and(|names| names.split_whitespace().any(|name| name == "memory"))
    };
    let group = below(&mount, &root, path);
    let above = group
        .ancestors()
        .take_while(|group| group.starts_with(&mount));
    Some(Site {
        parent: above.into_iter().find(hands_on)?.to_owned(),
        limit: "memory.high",
    })
}

/// In a hierarchy of memory alone, below our own group.
fn divided(mounts: &str, own: &str) -> Option<Site> {
    let has_memory = |options: &str| options.split(',').any(|one| one == "memory");
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

/// Where the first file system of such a type and with such options is mounted, and
/// which of its folders (`proc_pid_mountinfo(5)`).
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

/// The folder of a group by the name that the kernel calls it.
fn below(mount: &Path, root: &str, path: &str) -> PathBuf {
    let inner = path.strip_prefix(root).unwrap_or(path);
    mount.join(inner.trim_start_matches('/'))
}

fn absent(refusal: Option<(PathBuf, io::Error)>) -> Absence {
    let Some((parent, err)) = refusal else {
        return Absence {
            reason: "no control group here hands the memory controller on".into(),
            remedy: "have a control group with memory limits: `echo +memory > /sys/fs/cgroup/cgroup.subtree_control`"
                .into(),
            lacks: Lacks::Machine,
        };
    };
    let lacks_rights = err.kind() == io::ErrorKind::PermissionDenied;
    let (lacks, remedy) = match lacks_rights {
        true => (Lacks::Rights, "run as root"),
        false => (
            Lacks::Machine,
            "run it where control groups can be made (in most containers they cannot)",
        ),
    };
    Absence {
        reason: format!(
            "no control group can be made in {}: {}",
            parent.display(),
            reason_of(&err)
        ),
        remedy: remedy.into(),
        lacks,
    }
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
    fn a_hierarchy_is_found_by_what_it_controls_wherever_it_is_mounted() {
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
    fn only_groups_whose_maker_is_gone_are_removed() {
        let dir = tempfile::tempdir().unwrap();
        let own = dir.path().join(format!("{NAME}{}", std::process::id()));
        // Process numbers end at 4,194,304.
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
