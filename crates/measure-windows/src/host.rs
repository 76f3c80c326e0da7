//! Properties of the machine that affect timers.

use std::ffi::{CStr, c_char};

use laggard_model::{Caveat, CaveatKind, Host, Processor};
use windows_sys::Wdk::System::SystemServices::RtlGetVersion;
use windows_sys::Win32::System::SystemInformation::{
    ComputerNameDnsHostname, GetComputerNameExW, GlobalMemoryStatusEx, MEMORYSTATUSEX,
    OSVERSIONINFOW,
};
use windows_sys::Win32::System::Threading::GetActiveProcessorCount;
use windows_sys::core::w;

use super::{procedure, registry};

/// Maximum length of names in UTF-16 units.
const MAX_NAME_UNITS: usize = 256;
/// `ALL_PROCESSOR_GROUPS`.
const ALL_GROUPS: u16 = u16::MAX;

/// Identifies the machine and its system. Values that Windows does not report are empty.
pub fn identify() -> Host {
    Host {
        node: node(),
        architecture: std::env::consts::ARCH.into(),
        processor: Processor {
            model: processor(),
            threads: active(),
            ..Processor::default()
        },
        memory_bytes: memory(),
        ..Host::windows(&version())
    }
}

fn active() -> u32 {
    // SAFETY: the call does not take pointers.
    unsafe { GetActiveProcessorCount(ALL_GROUPS) }
}

/// Returns the number of CPUs, at least 1.
pub(super) fn processors() -> usize {
    active().max(1) as usize
}

/// Returns warnings about this system.
pub fn caveats() -> Vec<Caveat> {
    let of_wine = wine().map(|version| {
        Caveat::new(
            CaveatKind::Wine,
            format!("this is Wine {version}, which implements Windows on another system"),
            "these results do not apply to Windows; measure on Windows",
        )
    });
    of_wine.into_iter().collect()
}

/// Returns the version of Wine, or `None` on Windows.
pub(super) fn wine() -> Option<String> {
    let function = procedure::find(b"ntdll.dll\0", b"wine_get_version\0")?;
    // SAFETY: only Wine has a function with this name. It returns a static text, without arguments.
    let version = unsafe {
        let function: unsafe extern "C" fn() -> *const c_char = std::mem::transmute(function);
        CStr::from_ptr(function())
    };
    Some(version.to_string_lossy().into_owned())
}

/// Returns the build number, such as `19045`.
pub(super) fn build() -> u32 {
    numbers().dwBuildNumber
}

/// Returns the version, such as `10.0.19045`.
fn version() -> String {
    let version = numbers();
    let (major, minor) = (version.dwMajorVersion, version.dwMinorVersion);
    format!("{major}.{minor}.{}", version.dwBuildNumber)
}

fn numbers() -> OSVERSIONINFOW {
    let mut version = OSVERSIONINFOW {
        dwOSVersionInfoSize: size(size_of::<OSVERSIONINFOW>()),
        ..OSVERSIONINFOW::default()
    };
    // SAFETY: `version` is valid for writes and states its size. The call cannot fail.
    unsafe { RtlGetVersion(&raw mut version) };
    version
}

fn node() -> String {
    let mut name = [0_u16; MAX_NAME_UNITS];
    let mut length = size(MAX_NAME_UNITS);
    // SAFETY: `name` is valid for this number of units.
    let result =
        unsafe { GetComputerNameExW(ComputerNameDnsHostname, name.as_mut_ptr(), &raw mut length) };
    match result {
        0 => String::new(),
        _ => text(&name),
    }
}

/// Returns the name of the first processor.
fn processor() -> String {
    let name = registry::text(
        w!("HARDWARE\\DESCRIPTION\\System\\CentralProcessor\\0"),
        w!("ProcessorNameString"),
    );
    name.map_or_else(String::new, |name| name.trim().to_owned())
}

fn memory() -> u64 {
    let mut status = MEMORYSTATUSEX {
        dwLength: size(size_of::<MEMORYSTATUSEX>()),
        ..MEMORYSTATUSEX::default()
    };
    // SAFETY: `status` is valid for writes and states its size. If the call fails, it stays zero.
    unsafe { GlobalMemoryStatusEx(&raw mut status) };
    status.ullTotalPhys
}

/// Converts the units up to the first NUL.
fn text(units: &[u16]) -> String {
    let end = units.iter().position(|&unit| unit == 0);
    String::from_utf16_lossy(&units[..end.unwrap_or(units.len())])
}

/// Converts a length to the system's type: no length here reaches 4 GiB.
pub(super) fn size(length: usize) -> u32 {
    u32::try_from(length).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn machine_has_a_name_a_version_and_cpus() {
        let host = identify();

        assert!(host.system().starts_with("Windows "), "{host:?}");
        assert!(
            !host.node.is_empty() && !host.node.contains('\0'),
            "{host:?}"
        );
        assert!(
            host.processor.threads > 0 && host.memory_bytes > 0,
            "{host:?}"
        );
    }
}
