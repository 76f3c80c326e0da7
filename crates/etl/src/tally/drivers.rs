//! Images that the kernel has, or had, in memory, by address.

use std::collections::HashMap;

use crate::kernel::ImageChange;

/// Maximum number of images, and of loads and unloads.
const MAX_IMAGES: usize = 16_384;
/// Maximum number of addresses whose last change is cached.
const MAX_CACHED: usize = 16_384;
/// Maximum length of a name, characters.
const MAX_NAME_CHARS: usize = 260;
/// Start of the kernel's half of the addresses, in 64 and in 32 bits.
const KERNEL: u64 = 0x8000_0000_0000_0000;
const KERNEL_32: u64 = 0x8000_0000;

/// Number of loads and unloads at an address before some time.
///
/// Between two changes the image is the same, so an address with this number identifies
/// an image, although the trace may name the image only at its end.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct ImageEpoch(u32);

/// Image with the changes that loaded and unloaded it.
#[derive(Debug)]
struct Image {
    base: u64,
    size: u64,
    name: String,
    /// Change that loaded it; `None` if before the trace.
    loaded: Option<ImageEpoch>,
    /// Change that unloaded it; `None` if it stayed.
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
    /// Address range of each change, in time order: start and length.
    changes: Vec<(u64, u64)>,
    /// Last change of addresses that were looked up since then.
    remembered: HashMap<u64, ImageEpoch>,
}

impl Drivers {
    /// Adds the event of a kernel image, in time order. Images of processes are
    /// skipped.
    pub(crate) fn add(&mut self, change: ImageChange, (base, size): (u64, u64), path: &str) {
        let is_kernel = base >= KERNEL || (KERNEL_32..1 << 32).contains(&base);
        if !is_kernel || size == 0 {
            return;
        }
        let name = path.rsplit(['\\', '/']).next().unwrap_or(path);
        let name: String = name.chars().take(MAX_NAME_CHARS).collect();
        let is_it = |image: &&mut Image| {
            image.unloaded.is_none()
                && (image.base, image.size) == (base, size)
                && image.name == name
        };
        let image = self.images.iter_mut().find(is_it);
        match change {
            ImageChange::Present => {
                if image.is_none() {
                    // The image at this address came with the last change, if there was
                    // one.
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
                let image = self.images.iter_mut().find(is_it);
                match image {
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
                // Any earlier image is unloaded, even if the trace lost that event.
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
        if self.images.len() < MAX_IMAGES {
            self.images.push(image);
        }
    }

    /// Records a change of a range; `None` if there were too many.
    fn changed(&mut self, base: u64, size: u64) -> Option<ImageEpoch> {
        if self.changes.len() >= MAX_IMAGES {
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

    /// Returns the last change of any of these addresses before `epoch`.
    fn change_before(&self, epoch: ImageEpoch, base: u64, size: u64) -> Option<ImageEpoch> {
        let end = base.saturating_add(size);
        let overlaps =
            |&(other, length): &(u64, u64)| base < other.saturating_add(length) && other < end;
        let before = self.changes.get(..(epoch.0 as usize).saturating_sub(1))?;
        let place = before.iter().rposition(overlaps)?;
        u32::try_from(place + 1).ok().map(ImageEpoch)
    }

    /// Returns the number of the last change at `address` so far.
    pub(crate) fn epoch(&mut self, address: u64) -> ImageEpoch {
        if self.changes.is_empty() {
            return ImageEpoch::default();
        }
        if let Some(epoch) = self.remembered.get(&address) {
            return *epoch;
        }
        let epoch = self.last_change(address, 1).unwrap_or_default();
        if self.remembered.len() < MAX_CACHED {
            self.remembered.insert(address, epoch);
        }
        epoch
    }

    /// Returns the image at `address` at that time, and the offset in it; `None` if
    /// unknown or ambiguous.
    fn find(&self, (address, epoch): (u64, ImageEpoch)) -> Option<(&str, u64)> {
        let holds = |image: &&Image| image.holds(address) && image.is_there(epoch);
        let mut images = self.images.iter().filter(holds);
        let image = images.next()?;
        images
            .all(|other| other.name == image.name && other.base == image.base)
            .then(|| (image.name.as_str(), address - image.base))
    }

    /// Returns the image and the offset at `address` now.
    pub(crate) fn current_place(&self, address: u64) -> Option<String> {
        let epoch = self.last_change(address, 1).unwrap_or_default();
        self.place((address, epoch))
    }

    pub(crate) fn driver(&self, place: (u64, ImageEpoch)) -> String {
        self.find(place)
            .map_or_else(|| "unknown".into(), |(name, _)| name.into())
    }

    pub(crate) fn routine(&self, place: (u64, ImageEpoch)) -> String {
        self.place(place)
            .unwrap_or_else(|| format!("{:#x}", place.0))
    }

    /// Returns the image and the offset, if the image is known.
    fn place(&self, place: (u64, ImageEpoch)) -> Option<String> {
        let (name, into) = self.find(place)?;
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
    fn address_belongs_to_the_only_driver_that_was_there() {
        let mut drivers = Drivers::default();
        present(&mut drivers, BASE, r"\SystemRoot\System32\drivers\ndis.sys");
        present(&mut drivers, BASE, r"\SystemRoot\System32\drivers\ndis.sys");
        present(&mut drivers, BASE + 0x1000, "a.sys");
        present(&mut drivers, BASE + 0x1800, "b.sys");
        drivers.add(ImageChange::Present, (0x7717_0000, u64::MAX), "user.dll");

        let address_now = |address| (address, ImageEpoch::default());
        assert_eq!(drivers.routine(address_now(BASE + 0x12)), "ndis.sys+0x12");
        assert_eq!(drivers.driver(address_now(BASE + 0xfff)), "ndis.sys");
        assert_eq!(drivers.driver(address_now(BASE + 0x17ff)), "a.sys");
        assert_eq!(
            drivers.driver(address_now(BASE + 0x1800)),
            "unknown",
            "two were there"
        );
        assert_eq!(
            drivers.routine(address_now(BASE + 0x1800)),
            "0xfffff80100001800"
        );
        assert_eq!(
            drivers.driver(address_now(0x7717_0001)),
            "unknown",
            "no driver is there"
        );
    }

    /// Each step of a trace, with the image at the address after it.
    #[test]
    fn drivers_at_one_address_are_distinguished_by_time() {
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
        let mut epochs = vec![("first.sys", drivers.epoch(address))];
        for (change, name, then) in steps {
            drivers.add(change, (BASE, 0x1000), name);
            epochs.push((then, drivers.epoch(address)));
        }
        // Named only at the end of the trace.
        drivers.add(Present, (BASE, 0x1000), "fifth.sys");
        drivers.add(Present, (BASE + 0x4000, 0x1000), "apart.sys");
        epochs.last_mut().unwrap().0 = "fifth.sys";

        for (name, epoch) in epochs {
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
