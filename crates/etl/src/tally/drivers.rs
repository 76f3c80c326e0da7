//! Whose an address is: images that the kernel has, or had, in memory.

use std::collections::HashMap;

use crate::kernel::ImageChange;

/// Most images that are kept, and most changes of what is in memory.
const MOST: usize = 16_384;
/// Most addresses whose last change is remembered rather than looked up.
const MOST_REMEMBERED: usize = 16_384;
/// Longest name that is kept, characters.
const LONGEST: usize = 260;
/// Where the kernel's half of the addresses begins, in 64 and in 32 bits.
const KERNEL: u64 = 0x8000_0000_0000_0000;
const KERNEL_32: u64 = 0x8000_0000;

/// Number of changes of what is in memory at an address before some time.
///
/// Between two changes the same image is there, so an address with this number
/// names an image for good, although the trace may name the image only at its
/// end.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct ImageEpoch(u32);

/// An image, and from which change to which it was there.
#[derive(Debug)]
struct Image {
    base: u64,
    size: u64,
    name: String,
    /// The change that put it there; `None`: it was there before the trace.
    loaded: Option<ImageEpoch>,
    /// The change that took it away; `None`: it stayed.
    unloaded: Option<ImageEpoch>,
}

impl Image {
    fn holds(&self, address: u64) -> bool {
        (self.base..self.base.saturating_add(self.size)).contains(&address)
    }

    fn overlaps(&self, base: u64, size: u64) -> bool {
        base < self.base.saturating_add(self.size) && self.base < base.saturating_add(size)
    }

    fn is_there(&self, epoch: ImageEpoch) -> bool {
        self.loaded.is_none_or(|loaded| loaded <= epoch)
            && self.unloaded.is_none_or(|unloaded| epoch < unloaded)
    }
}

/// Images of the kernel by address.
#[derive(Debug, Default)]
pub(crate) struct Drivers {
    images: Vec<Image>,
    /// The addresses of each change, in the order of time: where, and how long.
    changes: Vec<(u64, u64)>,
    /// The last change of addresses that were looked up since there was one.
    remembered: HashMap<u64, ImageEpoch>,
}

impl Drivers {
    /// Takes in what an event says of an image of the kernel; one of a process is
    /// left out. Events come in the order of time.
    pub(crate) fn add(&mut self, change: ImageChange, (base, size): (u64, u64), path: &str) {
        let is_kernel = base >= KERNEL || (KERNEL_32..1 << 32).contains(&base);
        if !is_kernel || size == 0 {
            return;
        }
        let name = path.rsplit(['\\', '/']).next().unwrap_or(path);
        let name: String = name.chars().take(LONGEST).collect();
        let is_it = |image: &&mut Image| {
            image.unloaded.is_none()
                && (image.base, image.size) == (base, size)
                && image.name == name
        };
        let known = self.images.iter_mut().find(is_it);
        match change {
            ImageChange::Present => {
                if known.is_none() {
                    // What is there now came with the last change, if there was one.
                    let loaded = self.last_change(base, size);
                    self.keep(Image {
                        base,
                        size,
                        name,
                        loaded,
                        unloaded: None,
                    });
                }
            }
            ImageChange::Unloaded => {
                let Some(epoch) = self.changed(base, size) else {
                    return;
                };
                let known = self.images.iter_mut().find(is_it);
                match known {
                    Some(image) => image.unloaded = Some(epoch),
                    None => {
                        let loaded = self.change_before(epoch, base, size);
                        self.keep(Image {
                            base,
                            size,
                            name,
                            loaded,
                            unloaded: Some(epoch),
                        });
                    }
                }
            }
            ImageChange::Loaded => {
                let Some(epoch) = self.changed(base, size) else {
                    return;
                };
                // Whatever was there is gone, also if the trace lost that event.
                for image in &mut self.images {
                    if image.unloaded.is_none() && image.overlaps(base, size) {
                        image.unloaded = Some(epoch);
                    }
                }
                self.keep(Image {
                    base,
                    size,
                    name,
                    loaded: Some(epoch),
                    unloaded: None,
                });
            }
        }
    }

    fn keep(&mut self, image: Image) {
        if self.images.len() < MOST {
            self.images.push(image);
        }
    }

    /// Notes a change there; `None`: there were too many.
    fn changed(&mut self, base: u64, size: u64) -> Option<ImageEpoch> {
        if self.changes.len() >= MOST {
            return None;
        }
        self.remembered.clear();
        self.changes.push((base, size));
        u32::try_from(self.changes.len()).ok().map(ImageEpoch)
    }

    fn last_change(&self, base: u64, size: u64) -> Option<ImageEpoch> {
        let after_all = u32::try_from(self.changes.len() + 1).unwrap_or(u32::MAX);
        self.change_before(ImageEpoch(after_all), base, size)
    }

    /// The last change before `epoch` of any of these addresses.
    fn change_before(&self, epoch: ImageEpoch, base: u64, size: u64) -> Option<ImageEpoch> {
        let end = base.saturating_add(size);
        let overlaps =
            |&(other, length): &(u64, u64)| base < other.saturating_add(length) && other < end;
        let before = self.changes.get(..(epoch.0 as usize).saturating_sub(1))?;
        let place = before.iter().rposition(overlaps)?;
        u32::try_from(place + 1).ok().map(ImageEpoch)
    }

    /// The number of the last change at `address` so far.
    pub(crate) fn epoch(&mut self, address: u64) -> ImageEpoch {
        if self.changes.is_empty() {
            return ImageEpoch::default();
        }
        if let Some(epoch) = self.remembered.get(&address) {
            return *epoch;
        }
        let epoch = self.last_change(address, 1).unwrap_or_default();
        if self.remembered.len() < MOST_REMEMBERED {
            self.remembered.insert(address, epoch);
        }
        epoch
    }

    /// The image at `address` then, and how far into it that is; `None`: none is
    /// known there, or there were two.
    fn find(&self, (address, epoch): (u64, ImageEpoch)) -> Option<(&str, u64)> {
        let holds = |image: &&Image| image.holds(address) && image.is_there(epoch);
        let mut found = self.images.iter().filter(holds);
        let image = found.next()?;
        found
            .all(|other| other.name == image.name && other.base == image.base)
            .then(|| (image.name.as_str(), address - image.base))
    }

    /// The image and the place in it that are at `address` now.
    pub(crate) fn current_place(&self, address: u64) -> Option<String> {
        let epoch = self.last_change(address, 1).unwrap_or_default();
        self.place((address, epoch))
    }

    pub(crate) fn driver(&self, at: (u64, ImageEpoch)) -> String {
        self.find(at)
            .map_or_else(|| "unknown".into(), |(name, _)| name.into())
    }

    pub(crate) fn routine(&self, at: (u64, ImageEpoch)) -> String {
        self.place(at).unwrap_or_else(|| format!("{:#x}", at.0))
    }

    /// The same, where an image is known there.
    fn place(&self, at: (u64, ImageEpoch)) -> Option<String> {
        let (name, into) = self.find(at)?;
        Some(format!("{name}+{into:#x}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BASE: u64 = 0xffff_f801_0000_0000;

    fn present(drivers: &mut Drivers, base: u64, name: &str) {
        drivers.add(ImageChange::Present, (base, 0x1000), name);
    }

    #[test]
    fn an_address_is_that_of_the_one_driver_that_was_there() {
        let mut drivers = Drivers::default();
        present(&mut drivers, BASE, r"\SystemRoot\System32\drivers\ndis.sys");
        present(&mut drivers, BASE, r"\SystemRoot\System32\drivers\ndis.sys");
        present(&mut drivers, BASE + 0x1000, "a.sys");
        present(&mut drivers, BASE + 0x1800, "b.sys");
        drivers.add(ImageChange::Present, (0x7717_0000, u64::MAX), "user.dll");

        let at = |address| (address, ImageEpoch::default());
        assert_eq!(drivers.routine(at(BASE + 0x12)), "ndis.sys+0x12");
        assert_eq!(drivers.driver(at(BASE + 0xfff)), "ndis.sys");
        assert_eq!(drivers.driver(at(BASE + 0x17ff)), "a.sys");
        assert_eq!(
            drivers.driver(at(BASE + 0x1800)),
            "unknown",
            "two were there"
        );
        assert_eq!(drivers.routine(at(BASE + 0x1800)), "0xfffff80100001800");
        assert_eq!(
            drivers.driver(at(0x7717_0001)),
            "unknown",
            "no driver is there"
        );
    }

    /// Each step of a trace, and whose the address is after it.
    #[test]
    fn drivers_at_one_address_are_told_apart_by_when_they_were_there() {
        use ImageChange::{Loaded, Present, Unloaded};
        let mut drivers = Drivers::default();
        let address = BASE + 0x10;
        let steps = [
            (Unloaded, "first.sys", "unknown"),
            (Loaded, "second.sys", "second.sys"),
            (Unloaded, "second.sys", "unknown"),
            (Loaded, "third.sys", "third.sys"),
            // The end of the third was lost.
            (Loaded, "fourth.sys", "fourth.sys"),
            (Present, "fourth.sys", "fourth.sys"),
            (Unloaded, "fourth.sys", "unknown"),
        ];
        let mut seen = vec![("first.sys", drivers.epoch(address))];
        for (change, name, then) in steps {
            drivers.add(change, (BASE, 0x1000), name);
            seen.push((then, drivers.epoch(address)));
        }
        // Named at the end of the trace only.
        drivers.add(Present, (BASE, 0x1000), "fifth.sys");
        drivers.add(Present, (BASE + 0x4000, 0x1000), "apart.sys");
        seen.last_mut().unwrap().0 = "fifth.sys";

        for (name, epoch) in seen {
            assert_eq!(drivers.driver((address, epoch)), name, "after {epoch:?}");
        }
        let before = (BASE + 0x4000, ImageEpoch::default());
        assert_eq!(
            drivers.driver(before),
            "apart.sys",
            "it was there from the start"
        );
    }
}
