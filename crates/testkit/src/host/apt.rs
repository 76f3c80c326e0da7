//! Fetches Debian packages without installing them.
//!
//! The state of apt is in a separate directory. The machine's apt configuration is read once to
//! find its mirror, and never changed.

use std::fs;
use std::io::{BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use super::architecture::Architecture;
use super::error::FetchError;

/// Suites of the kernels and the guests' programs, the newest last.
const SUITES: &str = "bookworm bookworm-backports trixie-backports";

/// Variable with the URL of a Debian archive, for machines whose apt lacks one.
const MIRROR: &str = "LAGGARD_DEBIAN_MIRROR";

type SpawnFailed = Box<dyn FnOnce(std::io::Error) -> FetchError>;

/// Separate instance of apt for one architecture.
#[derive(Debug)]
pub(super) struct Apt {
    root: PathBuf,
    architecture: Architecture,
}

impl Apt {
    /// Creates an instance with its state in `root` and updates its package lists.
    pub(super) fn update(root: PathBuf, architecture: Architecture) -> Result<Self, FetchError> {
        let mirror = mirror()?;
        for directory in ["sources", "state/lists/partial", "cache/archives/partial"] {
            let path = root.join(directory);
            fs::create_dir_all(&path).map_err(FetchError::io(&path))?;
        }
        let sources = root.join("sources/debian.sources");
        let text = format!("Types: deb\nURIs: {mirror}\nSuites: {SUITES}\nComponents: main\n");
        fs::write(&sources, text).map_err(FetchError::io(&sources))?;
        let apt = Self { root, architecture };
        run(apt.command("apt-get").arg("update"))?;
        Ok(apt)
    }

    /// Returns the names of all packages that match a regular expression.
    pub(super) fn search(&self, expression: &str) -> Result<Vec<String>, FetchError> {
        let mut command = self.command("apt-cache");
        let output = run(command.args(["search", "--names-only", expression]))?;
        Ok(text(&output)
            .lines()
            .filter_map(|line| line.split(' ').next())
            .map(str::to_owned)
            .collect())
    }

    /// Returns the packages that `package` depends on, without alternatives.
    pub(super) fn dependencies(&self, package: &str) -> Result<Vec<String>, FetchError> {
        let mut command = self.command("apt-cache");
        let output = run(command.args(["show", "--no-all-versions", package]))?;
        Ok(parse_dependencies(&text(&output)))
    }

    /// Downloads a package (`name` or `name/suite`) and returns its file.
    pub(super) fn download(&self, package: &str) -> Result<PathBuf, FetchError> {
        let directory = self.root.join("packages");
        // One package at a time, so that the only file is the package.
        if directory.exists() {
            fs::remove_dir_all(&directory).map_err(FetchError::io(&directory))?;
        }
        fs::create_dir_all(&directory).map_err(FetchError::io(&directory))?;
        let mut command = self.command("apt-get");
        // As root, apt downloads as another user. That user may not write here.
        command.args(["-o", "APT::Sandbox::User=root", "download", package]);
        run(command.current_dir(&directory))?;
        fs::read_dir(&directory)
            .map_err(FetchError::io(&directory))?
            .filter_map(Result::ok)
            .map(|entry| entry.path())
            .find(|path| path.extension().is_some_and(|e| e == "deb"))
            .ok_or_else(|| FetchError::NoPackage(package.into()))
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        let root = self.root.display();
        for option in [
            "Dir::Etc::sourcelist=/dev/null".into(),
            format!("Dir::Etc::sourceparts={root}/sources"),
            format!("Dir::State={root}/state"),
            "Dir::State::status=/dev/null".into(),
            format!("APT::Architecture={}", self.architecture),
            // A list replaces the list of this machine, which otherwise adds its architectures.
            format!("APT::Architectures={}", self.architecture),
            format!("Dir::Cache={root}/cache"),
            "Acquire::Languages=none".into(),
            // Otherwise an unreachable archive gives only a warning.
            "APT::Update::Error-Mode=any".into(),
        ] {
            command.arg("-o").arg(option);
        }
        command.arg("-qq").env("LC_ALL", "C");
        command
    }
}

/// Unpacks the files of a package whose path inside it is `wanted`.
pub(super) fn unpack(
    package: &Path,
    wanted: impl Fn(&str) -> bool,
    into: &Path,
) -> Result<(), FetchError> {
    let mut child = Command::new("dpkg-deb")
        .arg("--fsys-tarfile")
        .arg(package)
        .stdout(Stdio::piped())
        .spawn()
        .map_err(not_installed("dpkg-deb", "dpkg"))?;
    let unpacked = match child.stdout.take() {
        Some(stream) => unpack_stream(stream, wanted, into),
        None => Ok(()),
    };
    let status = child.wait().map_err(FetchError::io(package))?;
    unpacked.map_err(FetchError::io(into))?;
    if status.success() {
        return Ok(());
    }
    Err(FetchError::Command {
        command: format!("dpkg-deb --fsys-tarfile {}", package.display()),
        status: status.to_string(),
        stderr: String::new(),
    })
}

fn unpack_stream(
    stream: impl Read,
    wanted: impl Fn(&str) -> bool,
    into: &Path,
) -> std::io::Result<()> {
    let mut archive = tar::Archive::new(BufReader::new(stream));
    for entry in archive.entries()? {
        let mut entry = entry?;
        let path = entry.path()?.to_string_lossy().into_owned();
        let is_file = !entry.header().entry_type().is_dir();
        if is_file && wanted(path.trim_start_matches("./")) {
            entry.unpack_in(into)?;
        }
    }
    // Read to the end, so that the writer does not fail on a closed pipe.
    std::io::copy(&mut archive.into_inner(), &mut std::io::sink())?;
    Ok(())
}

/// Runs a program of this machine to its end.
pub(super) fn run(command: &mut Command) -> Result<Output, FetchError> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command.output().map_err(match program.as_str() {
        "xz" => not_installed("xz", "xz-utils"),
        "dpkg-deb" => not_installed("dpkg-deb", "dpkg"),
        "apt-cache" => not_installed("apt-cache", "apt"),
        "gcc" => not_installed("gcc", "gcc"),
        "aarch64-linux-gnu-gcc" => not_installed("aarch64-linux-gnu-gcc", "gcc-aarch64-linux-gnu"),
        _ => not_installed("apt-get", "apt"),
    })?;
    if output.status.success() {
        return Ok(output);
    }
    let verbs: Vec<_> = command
        .get_args()
        .filter_map(|arg| arg.to_str())
        .filter(|arg| !arg.starts_with('-') && !arg.contains("::"))
        .collect();
    Err(FetchError::Command {
        command: format!("{program} {}", verbs.join(" ")),
        status: output.status.to_string(),
        stderr: String::from_utf8_lossy(&output.stderr).trim().to_owned(),
    })
}

fn not_installed(program: &'static str, package: &'static str) -> SpawnFailed {
    Box::new(move |source| match source.kind() {
        std::io::ErrorKind::NotFound => FetchError::NotInstalled { program, package },
        _ => FetchError::Io {
            path: program.into(),
            source,
        },
    })
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Returns the archive that this machine uses.
fn mirror() -> Result<String, FetchError> {
    if let Ok(mirror) = std::env::var(MIRROR) {
        return Ok(mirror);
    }
    let output = run(Command::new("apt-get").args([
        "indextargets",
        "--format",
        "$(REPO_URI) $(RELEASE) $(COMPONENT) $(LABEL)",
        "Created-By: Packages",
    ]))?;
    parse_mirror(&text(&output)).ok_or(FetchError::NoMirror)
}

/// Returns the first entry of the main Debian archive, not of a side archive (security) or
/// another vendor.
fn parse_mirror(targets: &str) -> Option<String> {
    targets.lines().find_map(|line| {
        let mut words = line.split(' ');
        let (uri, release, component) = (words.next()?, words.next()?, words.next()?);
        let label = words.collect::<Vec<_>>().join(" ");
        // Before the first update apt does not know the label.
        let is_debian = label == "Debian" || label == "$(LABEL)";
        (is_debian && component == "main" && !release.contains("security")).then(|| uri.to_owned())
    })
}

fn parse_dependencies(show: &str) -> Vec<String> {
    show.lines()
        .filter_map(|line| line.strip_prefix("Depends: "))
        .flat_map(|list| list.split(", "))
        .filter(|entry| !entry.contains('|'))
        .filter_map(|entry| entry.split(' ').next())
        .map(str::to_owned)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mirror_is_the_main_archive_and_not_a_side_archive() {
        let targets = "https://vendor.example/repo/ stable main Vendor\n\
                       http://sec.example/debian-security/ bookworm-security main Debian-Security\n\
                       http://one.example/debian/ bookworm contrib Debian\n\
                       http://one.example/debian/ bookworm main Debian\n\
                       http://two.example/debian/ trixie main Debian\n";

        assert_eq!(
            parse_mirror(targets).as_deref(),
            Some("http://one.example/debian/")
        );
    }

    #[test]
    fn archive_of_another_vendor_is_not_a_mirror() {
        assert_eq!(
            parse_mirror("http://a.example/ubuntu/ noble main Ubuntu\n"),
            None
        );
    }

    #[test]
    fn dependencies_are_names_without_versions_and_alternatives() {
        let show = "Package: linux-image-7.2.12-amd64\n\
                    Depends: dracut | initramfs-tools (>= 0.120), linux-base-7.2.12-amd64 (= 7.2.12-1), linux-modules-7.2.12-amd64\n\
                    Description: Depends: nothing\n";

        assert_eq!(
            parse_dependencies(show),
            ["linux-base-7.2.12-amd64", "linux-modules-7.2.12-amd64"]
        );
    }
}
