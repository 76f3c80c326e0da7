//! Kernels of the test hosts: Debian's, stock and `PREEMPT_RT`.

use std::cmp::Ordering;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::str::FromStr;

use super::apt::{self, Apt};
use super::architecture::Architecture;
use super::cache::Cache;
use super::error::FetchError;

/// Modules that a guest can load, in load order.
const MODULES: [&str; 2] = ["uio", "uio_pci_generic"];

/// Build of a kernel, by the words that Debian adds to the names of its packages.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
enum Flavour {
    Stock,
    /// `PREEMPT_RT`.
    Rt,
    /// Pages of 16 KiB (arm64).
    LargePages,
}

/// Architecture and series of a kernel, and its build.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct KernelName {
    architecture: Architecture,
    series: &'static str,
    flavour: Flavour,
}

impl KernelName {
    /// All kernels with test hosts.
    pub const ALL: [Self; 11] = [
        Self::new(Architecture::Amd64, "6.1", Flavour::Stock),
        Self::new(Architecture::Amd64, "6.1", Flavour::Rt),
        Self::new(Architecture::Amd64, "6.12", Flavour::Stock),
        Self::new(Architecture::Amd64, "6.12", Flavour::Rt),
        Self::new(Architecture::Amd64, "7.2", Flavour::Stock),
        Self::new(Architecture::Amd64, "7.2", Flavour::Rt),
        Self::new(Architecture::Arm64, "6.1", Flavour::Stock),
        Self::new(Architecture::Arm64, "6.1", Flavour::Rt),
        Self::new(Architecture::Arm64, "6.12", Flavour::Stock),
        Self::new(Architecture::Arm64, "6.12", Flavour::Rt),
        Self::new(Architecture::Arm64, "6.12", Flavour::LargePages),
    ];

    const fn new(architecture: Architecture, series: &'static str, flavour: Flavour) -> Self {
        Self {
            architecture,
            series,
            flavour,
        }
    }

    /// Returns the names of all kernels of an architecture.
    pub fn of(architecture: Architecture) -> impl Iterator<Item = Self> {
        Self::ALL
            .into_iter()
            .filter(move |name| name.architecture == architecture)
    }

    /// Returns its architecture.
    pub const fn architecture(self) -> Architecture {
        self.architecture
    }

    /// Returns its version without the last number, such as `6.12`.
    pub const fn series(self) -> &'static str {
        self.series
    }

    /// Returns whether it is built with `PREEMPT_RT`.
    pub const fn is_rt(self) -> bool {
        matches!(self.flavour, Flavour::Rt)
    }

    /// Returns whether its pages have 16 KiB.
    pub(super) const fn has_large_pages(self) -> bool {
        matches!(self.flavour, Flavour::LargePages)
    }

    /// Returns the regular expression of its packages' names.
    fn expression(self) -> String {
        let series = self.series.replace('.', r"\.");
        let architecture = self.architecture;
        let build = match self.flavour {
            Flavour::Stock => architecture.to_string(),
            Flavour::Rt => format!("rt-{architecture}"),
            Flavour::LargePages => format!("{architecture}-16k"),
        };
        format!(r"^linux-image-{series}\.[0-9][^-]*(-[0-9]+)?-{build}$")
    }
}

impl fmt::Display for KernelName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.architecture != Architecture::Amd64 {
            write!(f, "{}-", self.architecture)?;
        }
        let build = match self.flavour {
            Flavour::Stock => "",
            Flavour::Rt => "-rt",
            Flavour::LargePages => "-16k",
        };
        write!(f, "{}{build}", self.series)
    }
}

impl FromStr for KernelName {
    type Err = FetchError;

    fn from_str(text: &str) -> Result<Self, FetchError> {
        Self::ALL
            .into_iter()
            .find(|name| name.to_string() == text)
            .ok_or_else(|| FetchError::UnknownKernel(text.into()))
    }
}

/// Kernel that was fetched and unpacked into the cache.
#[derive(Clone, Debug)]
pub struct Kernel {
    pub name: KernelName,
    /// Release, such as `6.12.95+deb12-rt-amd64`.
    pub release: String,
    directory: PathBuf,
}

impl Kernel {
    /// Fetches the newest kernel for a name such as `6.12-rt`, or uses the one that was fetched
    /// before. To fetch it again, remove the cache's directory.
    ///
    /// # Errors
    ///
    /// Returns an error if the kernel does not exist or cannot be fetched.
    pub fn fetch(name: &str) -> Result<Self, FetchError> {
        let name: KernelName = name.parse()?;
        let cache = Cache::open()?;
        let directory = cache.entry(&format!("kernel-{name}"), |into| {
            let apt = Apt::update(cache.apt(name.architecture), name.architecture)?;
            let image = newest(apt.search(&name.expression())?)
                .ok_or_else(|| FetchError::NoPackage(name.expression()))?;
            unpack(&apt, &image, &parts(&apt, &image)?, into)
        })?;
        let path = directory.join("release");
        let release = fs::read_to_string(&path).map_err(FetchError::io(path))?;
        Ok(Self {
            name,
            release,
            directory,
        })
    }

    /// Returns the path of the bootable file.
    pub fn image(&self) -> PathBuf {
        self.directory.join("vmlinuz")
    }

    /// Returns the path of its build options.
    pub fn config(&self) -> PathBuf {
        self.directory.join("config")
    }

    /// Returns files of further modules, ready to load, by their places such as
    /// `drivers/block/brd`. The first request fetches them.
    ///
    /// # Errors
    ///
    /// Returns an error if this release no longer exists, cannot be fetched, or lacks a module.
    pub fn modules(&self, places: &[&str]) -> Result<Vec<PathBuf>, FetchError> {
        let cache = Cache::open()?;
        let names: Vec<&str> = places.iter().map(|place| name_of(place)).collect();
        let entry = format!("modules-{}-{}", self.release, names.join("-"));
        let directory = cache.entry(&entry, |into| {
            let architecture = self.name.architecture;
            let apt = Apt::update(cache.apt(architecture), architecture)?;
            let image = format!("linux-image-{}", self.release);
            let tree = into.join("tree");
            fs::create_dir(&tree).map_err(FetchError::io(&tree))?;
            let wanted = |path: &str| places.iter().any(|place| path.contains(place));
            for package in parts(&apt, &image)? {
                apt::unpack(&apt.download(&package)?, wanted, &tree)?;
            }
            for place in places {
                take_module(&tree, &image, place, into)?;
            }
            fs::remove_dir_all(&tree).map_err(FetchError::io(&tree))
        })?;
        let file = |name: &&str| directory.join(format!("{name}.ko"));
        Ok(names.iter().map(file).collect())
    }

    /// Returns the file of a module, ready to load.
    pub(super) fn module(&self, name: &str) -> PathBuf {
        self.directory.join(format!("{name}.ko"))
    }
}

/// Returns the packages of a kernel.
fn parts(apt: &Apt, image: &str) -> Result<Vec<String>, FetchError> {
    let mut packages = apt.dependencies(image)?;
    packages.retain(|package| is_part_of(image, package));
    packages.push(image.into());
    Ok(packages)
}

/// Returns the name of a module from its place.
fn name_of(place: &str) -> &str {
    place.rsplit('/').next().unwrap_or(place)
}

/// Returns whether the package belongs to the kernel. Newer kernels have several packages: image,
/// modules and base files.
fn is_part_of(image: &str, package: &str) -> bool {
    image
        .strip_prefix("linux-image-")
        .is_some_and(|release| package.starts_with("linux-") && package.ends_with(release))
}

/// Unpacks the image, the configuration and the modules.
fn unpack(apt: &Apt, image: &str, packages: &[String], into: &Path) -> Result<(), FetchError> {
    let tree = into.join("tree");
    fs::create_dir(&tree).map_err(FetchError::io(&tree))?;
    // The other modules would take 400 MB.
    let wanted = |path: &str| {
        path.starts_with("boot/")
            || path.contains("/drivers/uio/")
            || path.ends_with("/vmlinuz")
            || path.ends_with("/config")
    };
    for package in packages {
        apt::unpack(&apt.download(package)?, wanted, &tree)?;
    }
    let release = image.trim_start_matches("linux-image-");
    for file in ["vmlinuz", "config"] {
        let places = [
            format!("boot/{file}-{release}"),
            format!("usr/lib/modules/{release}/{file}"),
        ];
        let from = find(&tree, &places, image)?;
        fs::rename(&from, into.join(file)).map_err(FetchError::io(from))?;
    }
    for module in MODULES {
        take_module(&tree, image, &format!("drivers/uio/{module}"), into)?;
    }
    fs::remove_dir_all(&tree).map_err(FetchError::io(&tree))?;
    let path = into.join("release");
    fs::write(&path, release).map_err(FetchError::io(path))
}

/// Puts a module into a directory, ready to load.
fn take_module(tree: &Path, image: &str, place: &str, into: &Path) -> Result<(), FetchError> {
    let release = image.trim_start_matches("linux-image-");
    let file = format!("modules/{release}/kernel/{place}.ko");
    let places = [
        format!("lib/{file}"),
        format!("lib/{file}.xz"),
        format!("usr/lib/{file}.xz"),
    ];
    let from = find(tree, &places, image)?;
    let to = into.join(format!("{}.ko", name_of(place)));
    if from.extension().is_some_and(|e| e == "xz") {
        let output = apt::run(Command::new("xz").args(["-dc"]).arg(&from))?;
        return fs::write(&to, output.stdout).map_err(FetchError::io(to));
    }
    fs::rename(&from, &to).map_err(FetchError::io(to))
}

fn find(tree: &Path, places: &[String], package: &str) -> Result<PathBuf, FetchError> {
    places
        .iter()
        .map(|place| tree.join(place))
        .find(|path| path.is_file())
        .ok_or_else(|| FetchError::NoFile {
            package: package.into(),
            path: places.join(" or "),
        })
}

fn newest(packages: Vec<String>) -> Option<String> {
    packages.into_iter().max_by(|a, b| compare(a, b))
}

/// Orders names by the numbers in them: 6.12.9 comes before 6.12.10.
fn compare(a: &str, b: &str) -> Ordering {
    let numbers = |name: &str| -> Vec<u32> {
        name.trim_end_matches("amd64")
            .trim_end_matches("arm64")
            .split(|c: char| !c.is_ascii_digit())
            .filter_map(|digits| digits.parse().ok())
            .collect()
    };
    numbers(a).cmp(&numbers(b))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_parses_and_others_are_refused() {
        for name in KernelName::ALL {
            assert_eq!(name.to_string().parse::<KernelName>().unwrap(), name);
        }
        assert_eq!(
            "5.10".parse::<KernelName>().unwrap_err().to_string(),
            "`5.10` is not a test kernel; use 6.1, 6.12 or 7.2, arm64-6.1 or arm64-6.12, one of them followed by -rt, or arm64-6.12-16k"
        );
    }

    #[test]
    fn newest_package_has_the_highest_numbers() {
        let names = [
            "linux-image-6.12.9+deb12-amd64",
            "linux-image-6.12.90+deb12.1-amd64",
            "linux-image-6.12.90+deb12-amd64",
            "linux-image-6.12.88+deb12-amd64",
        ];

        assert_eq!(
            newest(names.map(str::to_owned).to_vec()).as_deref(),
            Some("linux-image-6.12.90+deb12.1-amd64")
        );
    }

    #[test]
    fn parts_of_a_split_kernel_belong_to_the_same_release() {
        let image = "linux-image-7.2.12+deb13-amd64";

        assert!(is_part_of(image, "linux-modules-7.2.12+deb13-amd64"));
        assert!(is_part_of(image, "linux-base-7.2.12+deb13-amd64"));
        assert!(!is_part_of(image, "linux-base"));
        assert!(!is_part_of(image, "kmod"));
    }
}
