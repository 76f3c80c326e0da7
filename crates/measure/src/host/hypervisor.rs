//! Detection of virtual machines and their hypervisor.

use super::Files;

/// Words in the firmware's vendor and product names, and the hypervisor that they indicate.
const FIRMWARE: [(&str, &str); 12] = [
    ("KVM", "kvm"),
    ("QEMU", "qemu"),
    ("VMware", "vmware"),
    ("VirtualBox", "virtualbox"),
    ("innotek", "virtualbox"),
    ("Xen", "xen"),
    ("Bochs", "bochs"),
    ("Parallels", "parallels"),
    ("BHYVE", "bhyve"),
    ("Google Compute Engine", "google"),
    ("Amazon EC2", "amazon"),
    ("Microsoft Corporation Virtual Machine", "hyper-v"),
];

/// Clock sources that exist only in guests, and their hypervisor.
const CLOCKS: [(&str, &str); 3] = [("kvm-clock", "kvm"), ("hyperv", "hyper-v"), ("xen", "xen")];

/// Returns the hypervisor's name, `unknown` if it is hidden, or `None` if the machine is not
/// virtual.
pub(super) fn identify(files: &Files) -> Option<String> {
    let named = files
        .text("sys/hypervisor/type")
        .or_else(|| match_name(&CLOCKS, &clocks(files)))
        .or_else(|| match_name(&FIRMWARE, &firmware(files)));
    let is_x86 = files.field("proc/cpuinfo", "vendor_id").is_some();
    if is_x86 {
        // Every hypervisor sets this flag for its guests. Firmware names alone do not prove a
        // guest: clouds use the same names on rented physical machines.
        let flags = files.field("proc/cpuinfo", "flags")?;
        let is_guest = flags.split_whitespace().any(|flag| flag == "hypervisor");
        return is_guest.then(|| named.unwrap_or_else(|| "unknown".into()));
    }
    files
        .text("proc/device-tree/hypervisor/compatible")
        .map(|name| name.trim_start_matches("linux,").to_owned())
        .or(named)
        .or_else(|| {
            let board = files.text("proc/device-tree/compatible")?;
            board.contains("linux,dummy-virt").then(|| "qemu".into())
        })
}

fn clocks(files: &Files) -> String {
    let clocks = "sys/devices/system/clocksource/clocksource0/available_clocksource";
    files.text(clocks).unwrap_or_default()
}

fn firmware(files: &Files) -> String {
    ["sys_vendor", "product_name"]
        .into_iter()
        .filter_map(|name| files.text(&format!("sys/class/dmi/id/{name}")))
        .collect::<Vec<_>>()
        .join(" ")
}

fn match_name(names: &[(&str, &str)], text: &str) -> Option<String> {
    names
        .iter()
        .find(|(word, _)| text.contains(word))
        .map(|&(_, name)| name.to_owned())
}
