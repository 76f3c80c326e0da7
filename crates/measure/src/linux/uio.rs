//! User-space I/O devices (UIO): a program waits for an interrupt by reading a file.

use std::fs::{self, File, TryLockError};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use laggard_model::{Cpu, Tid};

use super::raise::{self, Raise};

/// Offset in a PCI device's configuration of the second byte of its command register, and its bit
/// that disables the interrupt.
const COMMAND_HIGH: (u64, u8) = (5, 1 << 2);

/// UIO device whose interrupt laggard can raise.
#[derive(Debug)]
pub(crate) struct Uio {
    device: File,
    /// PCI configuration, if the driver leaves it to user space to enable the interrupt again.
    config: Option<File>,
    raise: Box<dyn Raise>,
    /// Interrupt number of the kernel.
    pub(crate) irq: u32,
}

/// The kernel disables a line after this number of consecutive unhandled interrupts
/// (`kernel/irq/spurious.c`) and then polls it ten times a second.
const MIN_UNHANDLED_DISABLED: u64 = 99_900;

/// Refuses a second recording of the same device. Each would acknowledge interrupts that the
/// other waits for, until the kernel disables the line.
fn lock(device: &File, path: &Path) -> io::Result<()> {
    device.try_lock().map_err(|err| match err {
        TryLockError::WouldBlock => io::Error::new(
            io::ErrorKind::ResourceBusy,
            format!(
                "another recording uses {}; wait until it ends (`fuser {0}` shows its process)",
                path.display()
            ),
        ),
        TryLockError::Error(err) => named(path)(err),
    })
}

/// Returns why the kernel blocks the interrupt, by its `/proc/irq/N/spurious`: it has disabled
/// the line, and enables it again only after the last user of the line has left.
fn disabled_line(irq: u32, spurious: &str) -> Option<String> {
    let unhandled: u64 = spurious
        .lines()
        .find_map(|line| line.strip_prefix("unhandled"))?
        .trim()
        .parse()
        .ok()?;
    (unhandled > MIN_UNHANDLED_DISABLED).then(|| {
        format!(
            "the kernel has disabled interrupt {irq} (`nobody cared`: {unhandled} unhandled in /proc/irq/{irq}/spurious) and only polls it; unbind and bind the device's driver again, or reboot"
        )
    })
}

impl Uio {
    /// Opens `/dev/uioN` for this process only.
    ///
    /// # Errors
    ///
    /// Returns an error if the file is not a UIO device, if the interrupt of the device is missing
    /// or disabled, if it is in use, or if laggard does not know how to raise its interrupt.
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
        // Without the file the state is unknown.
        let spurious = fs::read_to_string(format!("/proc/irq/{irq}/spurious")).unwrap_or_default();
        if let Some(reason) = disabled_line(irq, &spurious) {
            return Err(io::Error::other(reason));
        }
        Ok(Self {
            device,
            config,
            raise: raise::of_device(&pci)?,
            irq,
        })
    }

    /// Enables the device's interrupt once.
    pub(crate) fn enable(&self) -> io::Result<()> {
        let Some(config) = &self.config else {
            return (&self.device).write_all(&1_i32.to_ne_bytes());
        };
        let (offset, disabled) = COMMAND_HIGH;
        let mut command = [0];
        config.read_exact_at(&mut command, offset)?;
        config.write_all_at(&[command[0] & !disabled], offset)
    }

    pub(crate) fn wait(&self) -> io::Result<()> {
        let mut count = [0; 4];
        (&self.device).read_exact(&mut count)
    }

    pub(crate) fn raise(&self) {
        self.raise.raise();
    }

    /// Acknowledges the interrupt to the device.
    pub(crate) fn acknowledge(&self) {
        self.raise.acknowledge();
    }

    /// Returns the CPU that the interrupt is routed to, or the first CPU if this is unknown.
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

    /// Returns the threads that run the interrupt's handlers, if any, sorted by name.
    pub(crate) fn handler_threads(&self) -> Vec<(Tid, String)> {
        handler_threads(self.irq)
    }
}

/// Returns the threads that run the handlers of this interrupt, if any, sorted by name.
pub fn handler_threads(irq: u32) -> Vec<(Tid, String)> {
    let begin = format!("irq/{irq}-");
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
    threads.sort_by(|(_, first), (_, second)| first.cmp(second));
    threads
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

/// Adds the path of the file to an error.
fn named(path: &Path) -> impl Fn(io::Error) -> io::Error + '_ {
    move |err| io::Error::new(err.kind(), format!("{}: {err}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn second_recording_of_a_device_is_refused_by_name() {
        let device = tempfile::NamedTempFile::new().unwrap();
        let first = open(device.path()).unwrap();
        lock(&first, device.path()).unwrap();

        let second = open(device.path()).unwrap();
        let err = lock(&second, device.path()).unwrap_err();

        let message = err.to_string();
        assert!(message.contains("another recording uses"), "{message}");
        assert!(
            message.contains(&device.path().display().to_string()),
            "{message}"
        );
        drop(first);
        lock(&second, device.path()).unwrap();
    }

    #[test]
    fn disabled_line_is_recognised_by_its_unhandled_interrupts() {
        let text = |unhandled| format!("count 12\nunhandled {unhandled}\nlast_unhandled 9 ms\n");

        for (unhandled, is_off) in [(0, false), (99_900, false), (99_901, true)] {
            let disabled = disabled_line(21, &text(unhandled));

            assert_eq!(disabled.is_some(), is_off, "for {unhandled}");
            if let Some(message) = disabled {
                assert!(message.contains("disabled interrupt 21"), "{message}");
            }
        }
        assert_eq!(disabled_line(21, ""), None);
    }
}
