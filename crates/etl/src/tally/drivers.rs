//! Whose an address is: images that the kernel has, or had, in memory.

use std::collections::BTreeSet;

/// Most images that are kept.
const MOST: usize = 16_384;
/// Longest name that is kept, characters.
const LONGEST: usize = 260;
/// Where the kernel's half of the addresses begins, in 64 and in 32 bits.
const KERNEL: u64 = 0x8000_0000_0000_0000;
const KERNEL_32: u64 = 0x8000_0000;

/// Images of the kernel by address.
#[derive(Debug, Default)]
pub(crate) struct Drivers {
    images: BTreeSet<(u64, u64, String)>,
}

impl Drivers {
    /// An image of the kernel is, or was, at `base`; one of a process is left out.
    pub(crate) fn add(&mut self, base: u64, size: u64, path: &str) {
        let is_kernel = base >= KERNEL || (KERNEL_32..1 << 32).contains(&base);
        if !is_kernel || size == 0 || self.images.len() >= MOST {
            return;
        }
        let name = path.rsplit(['\\', '/']).next().unwrap_or(path);
        let name: String = name.chars().take(LONGEST).collect();
        self.images.insert((base, size, name));
    }

    /// The image at `address`, and how far into it that is; `None`: none is
    /// known there, or there was one after the other.
    fn find(&self, address: u64) -> Option<(&str, u64)> {
        let holds = |(base, size, _): &&(u64, u64, String)| {
            (*base..base.saturating_add(*size)).contains(&address)
        };
        let mut found = self.images.iter().filter(holds);
        let (base, _, name) = found.next()?;
        found
            .all(|other| other.2 == *name && other.0 == *base)
            .then_some((name, address - base))
    }

    pub(crate) fn driver(&self, address: u64) -> String {
        self.find(address)
            .map_or_else(|| "unknown".into(), |(name, _)| name.into())
    }

    pub(crate) fn routine(&self, address: u64) -> String {
        self.place(address)
            .unwrap_or_else(|| format!("{address:#x}"))
    }

    /// The same, where an image is known there.
    pub(crate) fn place(&self, address: u64) -> Option<String> {
        let (name, into) = self.find(address)?;
        Some(format!("{name}+{into:#x}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_that_of_the_one_driver_that_was_there() {
        let mut drivers = Drivers::default();
        let base = 0xffff_f801_0000_0000;
        drivers.add(base, 0x1000, r"\SystemRoot\System32\drivers\ndis.sys");
        drivers.add(base, 0x1000, r"\SystemRoot\System32\drivers\ndis.sys");
        drivers.add(base + 0x1000, 0x1000, "a.sys");
        drivers.add(base + 0x1800, 0x1000, "b.sys");
        drivers.add(0x7717_0000, u64::MAX, "user.dll");

        assert_eq!(drivers.routine(base + 0x12), "ndis.sys+0x12");
        assert_eq!(drivers.driver(base + 0xfff), "ndis.sys");
        assert_eq!(drivers.driver(base + 0x17ff), "a.sys");
        assert_eq!(drivers.driver(base + 0x1800), "unknown", "two were there");
        assert_eq!(drivers.routine(base + 0x1800), "0xfffff80100001800");
        assert_eq!(drivers.driver(0x7717_0001), "unknown", "no driver is there");
    }
}
