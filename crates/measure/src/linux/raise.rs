//! Devices that can be made to interrupt.
//!
//! To measure with another device, implement [`Raise`] for it and add it to [`of_device`].

use std::fmt::Debug;
use std::fs::{self, File};
use std::io;
use std::num::NonZeroUsize;
use std::path::Path;
use std::ptr::NonNull;

use nix::sys::mman::{MapFlags, ProtFlags, mmap, munmap};

/// Device that can be made to interrupt.
pub(crate) trait Raise: Debug + Send + Sync {
    /// Makes the device interrupt. The caller reads the clock just before, so this should be one
    /// write to a register.
    fn raise(&self);

    /// Clears the interrupt, so that the device can raise another.
    fn acknowledge(&self);
}

/// Returns the way to raise the interrupt of the PCI device in this directory of sysfs.
pub(crate) fn of_device(pci: &Path) -> io::Result<Box<dyn Raise>> {
    let id = |file| fs::read_to_string(pci.join(file)).unwrap_or_default();
    match (id("vendor").trim_end(), id("device").trim_end()) {
        ("0x1234", "0x11e8") => Ok(Box::new(Edu(Registers::map(&pci.join("resource0"))?))),
        (vendor, device) => Err(io::Error::other(format!(
            "laggard does not know how to make this device (PCI {vendor}:{device}) interrupt"
        ))),
    }
}

/// QEMU's `edu` device (its manual: "EDU device").
#[derive(Debug)]
struct Edu(Registers);

impl Edu {
    /// Register of the raised interrupts, one bit each.
    const STATUS: usize = 0x24;
    /// Register that raises the interrupts whose bits are written.
    const RAISE: usize = 0x60;
    /// Register that clears the interrupts whose bits are written.
    const ACKNOWLEDGE: usize = 0x64;
}

impl Raise for Edu {
    fn raise(&self) {
        self.0.write(Self::RAISE, 1);
    }

    fn acknowledge(&self) {
        self.0.write(Self::ACKNOWLEDGE, self.0.read(Self::STATUS));
    }
}

/// First page of a device's registers.
#[derive(Debug)]
struct Registers(NonNull<libc::c_void>);

const PAGE: NonZeroUsize = NonZeroUsize::new(4096).expect("not zero");

// SAFETY: the device memory is mapped until the drop, and each register is accessed as a whole.
unsafe impl Send for Registers {}
// SAFETY: as above.
unsafe impl Sync for Registers {}

impl Registers {
    fn map(resource: &Path) -> io::Result<Self> {
        let named = |err: io::Error| {
            io::Error::new(err.kind(), format!("map {}: {err}", resource.display()))
        };
        let file = File::options()
            .read(true)
            .write(true)
            .open(resource)
            .map_err(named)?;
        let access = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
        // SAFETY: the mapping is new, at an address that the kernel chooses.
        let start = unsafe { mmap(None, PAGE, access, MapFlags::MAP_SHARED, file, 0) };
        start.map(Self).map_err(|err| named(err.into()))
    }

    fn register(&self, offset: usize) -> *mut u32 {
        assert!(offset.is_multiple_of(4) && offset < PAGE.get());
        // SAFETY: the address is inside the mapping (checked).
        unsafe { self.0.cast::<u8>().as_ptr().add(offset).cast() }
    }

    fn write(&self, offset: usize, value: u32) {
        // SAFETY: the address is an aligned register of a mapped device (checked).
        unsafe { self.register(offset).write_volatile(value) }
    }

    fn read(&self, offset: usize) -> u32 {
        // SAFETY: as in `write`.
        unsafe { self.register(offset).read_volatile() }
    }
}

impl Drop for Registers {
    fn drop(&mut self) {
        // SAFETY: `map` mapped the page, and no borrow is left.
        let _ = unsafe { munmap(self.0, PAGE.get()) };
    }
}
