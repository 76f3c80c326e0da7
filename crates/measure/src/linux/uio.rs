//! User-space I/O devices (UIO): an interrupt that a program waits for by
//! reading a file.

use std::fs::{self, File, TryLockError};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use laggard_model::{Cpu, Tid};

use super::raise::{self, Raise};

/// In a PCI device's configuration: the second byte of its command register,
/// whose bit 2 disables the interrupt.
const COMMAND_HIGH: (u64, u8) = (5, 1 << 2);

/// A UIO device whose interrupt we can raise.
#[derive(Debug)]
pub(crate) struct Uio {
    device: File,
    /// The PCI configuration, where the driver leaves it to user space to
    /// enable the interrupt again.
    config: Option<File>,
    raise: Box<dyn Raise>,
    /// The kernel's number of the interrupt.
    pub(crate) irq: u32,
}

/// Of so many interrupts of a line in a row that nobody handled the kernel
/// switches it off (`kernel/irq/spurious.c`), and polls it ten times a second.
const SWITCHED_OFF_FROM: u64 = 99_900;

/// Refuses a second recording of one device: each would acknowledge interrupts
/// that the other waits for, until the kernel switches the line off.
fn lock(device: &File, path: &Path) -> io::Result<()> {
    device.try_lock().map_err(|err| match err {
        TryLockError::WouldBlock => io::Error::new(
            io::ErrorKind::ResourceBusy,
            format!(
                "another recording uses {}; wait for its end (`fuser {0}` names it)",
                path.display()
            ),
        ),
        TryLockError::Error(err) => named(path)(err),
    })
}

/// Why the kernel does not let the interrupt through any more, by its
/// `/proc/irq/N/spurious`: it has switched the line off, and nothing but the
/// line's last user leaving it switches it on again.
fn switched_off(irq: u32, spurious: &str) -> Option<String> {
    let unhandled: u64 = spurious
        .lines()
        .find_map(|line| line.strip_prefix("unhandled"))?
        .trim()
        .parse()
        .ok()?;
    (unhandled > SWITCHED_OFF_FROM).then(|| {
        format!(
            "the kernel has switched interrupt {irq} off (`nobody cared`: /proc/irq/{irq}/spurious counts {unhandled} unhandled) and only polls it; unbind and bind the device's driver anew, or reboot"
        )
    })
}

impl Uio {
    /// Opens `/dev/uioN`, for this process alone.
    ///
    /// # Errors
    /// When it is no UIO device, has no interrupt or one that the kernel has
    /// switched off, is in use, or is a device of which nobody has said how to
    /// raise its interrupt.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        let name = path.file_name().unwrap_or_default();
        let class = Path::new("/sys/class/uio").join(name);
        let pci = class.join("device");
        let driver = read(&class.join("name"))?;
        let config = match driver.as_str() {
            "uio_pci_generic" => Some(open(&pci.join("config"))?),
            _ => None,
        };
        let irq: u32 = read(&pci.join("irq"))?
            .parse()
            .ok()
            .filter(|&irq| irq > 0)
            .ok_or_else(|| io::Error::other("the device has no interrupt"))?;
        let device = open(path)?;
        lock(&device, path)?;
        // Without the file nothing is known.
        let spurious = fs::read_to_string(format!("/proc/irq/{irq}/spurious")).unwrap_or_default();
        if let Some(reason) = switched_off(irq, &spurious) {
            return Err(io::Error::other(reason));
        }
        Ok(Self {
            device,
            config,
            raise: raise::of_device(&pci)?,
            irq,
        })
    }

    /// Lets the device's interrupt through, once.
    pub(crate) fn enable(&self) -> io::Result<()> {
        let Some(config) = &self.config else {
            return (&self.device).write_all(&1_i32.to_ne_bytes());
        };
        let (offset, disabled) = COMMAND_HIGH;
        let mut command = [0];
        config.read_exact_at(&mut command, offset)?;
        config.write_all_at(&[command[0] & !disabled], offset)
    }

    /// Waits for the interrupt.
    pub(crate) fn wait(&self) -> io::Result<()> {
        let mut count = [0; 4];
        (&self.device).read_exact(&mut count)
    }

    /// Makes the device interrupt.
    pub(crate) fn raise(&self) {
        self.raise.raise();
    }

    /// Tells the device that its interrupt was seen.
    pub(crate) fn acknowledge(&self) {
        self.raise.acknowledge();
    }

    /// Where the interrupt goes, or the first CPU where that is not told.
    pub(crate) fn cpu(&self) -> Cpu {
        let irq = PathBuf::from(format!("/proc/irq/{}", self.irq));
        ["effective_affinity_list", "smp_affinity_list"]
            .iter()
            .find_map(|file| {
                let list = read(&irq.join(file)).ok()?.parse().ok();
                list.and_then(|cpus: laggard_model::CpuList| cpus.as_slice().first().copied())
            })
            .unwrap_or(Cpu(0))
    }

    /// The threads that the interrupt's handlers run in, if any, with their
    /// names, by which they are sorted.
    pub(crate) fn handler_threads(&self) -> Vec<(Tid, String)> {
        let begin = format!("irq/{}-", self.irq);
        let Ok(processes) = fs::read_dir("/proc") else {
            return Vec::new();
        };
        let mut threads: Vec<(Tid, String)> = processes
            .filter_map(Result::ok)
            .filter_map(|process| {
                let tid = process.file_name().to_str()?.parse().ok()?;
                Some((Tid(tid), read(&process.path().join("comm")).ok()?))
            })
            .filter(|(_, name)| name.starts_with(&begin))
            .collect();
        threads.sort_by(|(_, one), (_, other)| one.cmp(other));
        threads
    }
}

fn open(path: &Path) -> io::Result<File> {
    File::options()
        .read(true)
        .write(true)
        .open(path)
        .map_err(named(path))
}

fn read(path: &Path) -> io::Result<String> {
    let text = fs::read_to_string(path).map_err(named(path))?;
    Ok(text.trim_end().to_owned())
}

/// The error with the file's name.
fn named(path: &Path) -> impl Fn(io::Error) -> io::Error + '_ {
    move |err| io::Error::new(err.kind(), format!("{}: {err}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_is_for_one_recording_and_the_error_names_it() {
        let device = tempfile::NamedTempFile::new().unwrap();
        let first = open(device.path()).unwrap();
        lock(&first, device.path()).unwrap();

        let second = open(device.path()).unwrap();
        let err = lock(&second, device.path()).unwrap_err();

        let said = err.to_string();
        assert!(said.contains("another recording uses"), "{said}");
        assert!(
            said.contains(&device.path().display().to_string()),
            "{said}"
        );
        drop(first);
        lock(&second, device.path()).unwrap();
    }

    #[test]
    fn a_line_that_the_kernel_has_switched_off_is_told_by_its_unhandled_interrupts() {
        let text = |unhandled| format!("count 12\nunhandled {unhandled}\nlast_unhandled 9 ms\n");

        for (unhandled, is_off) in [(0, false), (99_900, false), (99_901, true)] {
            let found = switched_off(21, &text(unhandled));

            assert_eq!(found.is_some(), is_off, "for {unhandled}");
            if let Some(said) = found {
                assert!(said.contains("interrupt 21 off"), "{said}");
            }
        }
        assert_eq!(switched_off(21, ""), None);
    }
}
