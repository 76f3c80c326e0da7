//! Board, firmware, file system and devices (OSDI'99 Table 2).

use laggard_model::Hardware;

use super::Files;

/// Names of block devices that are not hardware.
const VIRTUAL_DISKS: [&str; 6] = ["dm-", "fd", "loop", "md", "ram", "zram"];

pub(super) fn identify(files: &Files) -> Hardware {
    let dmi = |names: [&str; 2]| {
        let texts = names.map(|name| files.text(&format!("sys/class/dmi/id/{name}")));
        joined(texts.into_iter().flatten())
    };
    Hardware {
        board: dmi(["board_vendor", "board_name"]).or_else(|| files.text("proc/device-tree/model")),
        firmware: dmi(["bios_vendor", "bios_version"]),
        file_system: file_system(files),
        disks: disks(files),
        graphics: drivers(files, "sys/class/drm", |name| !name.contains('-')),
        audio: drivers(files, "sys/class/sound", |name| name.starts_with("card")),
        network: drivers(files, "sys/class/net", |_| true),
    }
}

fn joined(texts: impl Iterator<Item = String>) -> Option<String> {
    let texts: Vec<String> = texts.filter(|text| !text.is_empty()).collect();
    (!texts.is_empty()).then(|| texts.join(" "))
}

/// Returns the type of the root file system. The last mount is the visible one.
fn file_system(files: &Files) -> Option<String> {
    let mounts = files.text("proc/self/mounts")?;
    let mut types = mounts.lines().filter_map(|line| {
        let mut words = line.split(' ').skip(1);
        (words.next()? == "/").then(|| words.next().map(str::to_owned))?
    });
    types.next_back()
}

/// Returns the model and the I/O scheduler of each disk, or its driver without a model.
fn disks(files: &Files) -> Vec<String> {
    let is_disk = |name: &String| !VIRTUAL_DISKS.iter().any(|prefix| name.starts_with(prefix));
    let names = files.names("sys/block").into_iter().filter(is_disk);
    names
        .filter_map(|name| {
            let disk = format!("sys/block/{name}");
            let model = files.text(&format!("{disk}/device/model"));
            let model = model.or_else(|| driver(files, &disk))?;
            let scheduler = files.chosen(&format!("{disk}/queue/scheduler"), '[', ']');
            joined(
                [model]
                    .into_iter()
                    .chain(scheduler.map(|name| format!("({name})"))),
            )
        })
        .collect()
}

/// Returns the drivers of the devices of a class, each once.
fn drivers(files: &Files, class: &str, is_device: impl Fn(&str) -> bool) -> Vec<String> {
    let names = files.names(class).into_iter();
    let names = names.filter(|name| is_device(name));
    let mut drivers: Vec<String> = names
        .filter_map(|name| driver(files, &format!("{class}/{name}")))
        .collect();
    drivers.sort_unstable();
    drivers.dedup();
    drivers
}

fn driver(files: &Files, device: &str) -> Option<String> {
    let events = files.text(&format!("{device}/device/uevent"))?;
    let mut drivers = events
        .lines()
        .filter_map(|line| line.strip_prefix("DRIVER="));
    drivers.next().map(str::to_owned)
}
