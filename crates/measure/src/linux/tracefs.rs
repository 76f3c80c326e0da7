//! Instances of tracefs: ring buffers with separate settings.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use super::reason_of;

/// Mount points of tracefs in newer and older kernels.
const ROOTS: [&str; 2] = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];

/// Prefix of the names of laggard instances, followed by the process ID, its PID namespace and the
/// purpose.
const INSTANCE_PREFIX: &str = "laggard-";

/// Start of the purpose in the name of an instance for late wakeups; a number follows.
const PURPOSE: &str = "-late";

/// Separates the process ID and the number of its PID namespace. Containers share tracefs, but
/// each has other processes.
const NAMESPACE: &str = "-ns";

/// Number of the PID namespace of the host: `PROC_PID_INIT_INO` in the kernel.
const HOST_NAMESPACE: u64 = 0xEFFF_FFFC;

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
    let process = std::process::id();
    let name = match namespace_of("self") {
        Some(namespace) => format!("{INSTANCE_PREFIX}{process}{NAMESPACE}{namespace}{purpose}"),
        None => format!("{INSTANCE_PREFIX}{process}{purpose}"),
    };
    root.join("instances").join(name)
}

/// Process of laggard that an instance belongs to.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct InstanceOwner {
    process: u32,
    /// Number of its PID namespace; `None`: not known.
    namespace: Option<u64>,
}

/// Returns the owner in the name of an instance, if laggard created the instance.
fn owner(instance: &Path) -> Option<InstanceOwner> {
    let name = instance.file_name()?.to_str()?;
    let rest = name.strip_prefix(INSTANCE_PREFIX)?;
    let (owner, purpose) = rest.split_once(PURPOSE).unwrap_or((rest, "0"));
    let (process, namespace) = match owner.split_once(NAMESPACE) {
        Some((process, namespace)) => (process, Some(number(namespace)?)),
        None => (owner, None),
    };
    number(purpose)?;
    Some(InstanceOwner {
        process: number(process)?.try_into().ok()?,
        namespace,
    })
}

fn number(text: &str) -> Option<u64> {
    let is_number = text.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| text.parse().ok())?
}

/// Returns the number of the PID namespace of a process: a process ID, or `self`.
fn namespace_of(process: &str) -> Option<u64> {
    let target = fs::read_link(format!("/proc/{process}/ns/pid")).ok()?;
    let target = target.to_str()?;
    number(target.strip_prefix("pid:[")?.strip_suffix(']')?)
}

/// Returns whether a process is in this PID namespace. The host sees the processes of all
/// namespaces; it does not see a process of a namespace that has ended.
fn is_used(namespace: u64) -> bool {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let mut processes = entries.filter_map(|entry| entry.file_name().into_string().ok());
    processes.any(|process| number(&process).is_some() && namespace_of(&process) == Some(namespace))
}

/// Returns whether the instance belongs to this process.
pub(super) fn is_own(instance: &Path) -> bool {
    owner(instance).is_some_and(|owner| {
        let namespace = owner.namespace;
        owner.process == std::process::id()
            && (namespace.is_none() || namespace == namespace_of("self"))
    })
}

/// Returns whether the instance belongs to a laggard that was killed. From another PID namespace
/// only the host can see that.
pub(super) fn is_stale(instance: &Path) -> bool {
    let Some(owner) = owner(instance) else {
        return false;
    };
    let own = namespace_of("self");
    match owner.namespace {
        Some(namespace) if own != Some(namespace) => {
            own == Some(HOST_NAMESPACE) && !is_used(namespace)
        }
        Some(_) | None => !Path::new(&format!("/proc/{}", owner.process)).exists(),
    }
}

/// Removes the instances of every laggard that was killed, except instances that another process
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
        let own = own_instance(root.path(), "-late1");
        let namespace = namespace_of("self").unwrap();
        // No process has these numbers.
        let stale = [
            "laggard-4194304".to_owned(),
            format!("laggard-4194304-ns{namespace}"),
            format!("laggard-4194305-ns{namespace}-late1"),
        ];
        let others = [
            "laggard-x".to_owned(),
            "laggard-4194304-mine".into(),
            "laggard-4194304-ns".into(),
            "trace-cmd".into(),
        ];
        let directories = stale.iter().chain(&others);
        for directory in directories.map(|name| instance(name)).chain([own.clone()]) {
            fs::create_dir_all(directory).unwrap();
        }

        // A file of a directory that is not tracefs keeps the directory.
        let refused = remove_stale(root.path()).unwrap_err();

        assert!(refused.to_string().contains("laggard-41943"), "{refused}");
        assert!(stale.iter().all(|name| is_stale(&instance(name))));
        assert!(!others.iter().any(|name| is_stale(&instance(name))));
        assert!(!is_stale(&own));
        assert!(is_own(&own));
        assert!(!others.iter().any(|name| is_own(&instance(name))));
    }

    /// This machine may be a container or a host: both keep an instance of a namespace with
    /// processes, and only the host removes one of a namespace without.
    #[test]
    fn instance_of_another_pid_namespace_is_kept_if_its_owner_may_live() {
        let own = namespace_of("self").unwrap();
        let is_stale = |name: String| is_stale(Path::new(&name));

        // The process exists here, but the instance is of another one.
        let process = std::process::id();
        let ended = format!("laggard-{process}-ns1-late1");
        assert_eq!(is_stale(ended), own == HOST_NAMESPACE);
        assert!(!is_stale(format!("laggard-{process}-ns{own}-late1")));
        assert!(is_used(own));
        assert!(!is_used(1));
    }
}
