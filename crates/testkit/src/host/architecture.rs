//! Architectures of test hosts: names in packages, and how QEMU imitates them.

use std::fmt;

use super::results::RESULTS_BYTES;

/// Processor architecture of a kernel, by Debian's name.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum Architecture {
    Amd64,
    Arm64,
}

impl Architecture {
    /// Returns Debian's name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Amd64 => "amd64",
            Self::Arm64 => "arm64",
        }
    }

    /// Returns whether this machine has this architecture.
    pub(super) fn is_of_this_machine(self) -> bool {
        match self {
            Self::Amd64 => cfg!(target_arch = "x86_64"),
            Self::Arm64 => cfg!(target_arch = "aarch64"),
        }
    }

    /// Returns the C compiler for programs of a guest, which are static.
    pub fn compiler(self) -> &'static str {
        match self {
            _ if self.is_of_this_machine() => "gcc",
            Self::Amd64 => "x86_64-linux-gnu-gcc",
            Self::Arm64 => "aarch64-linux-gnu-gcc",
        }
    }

    /// Returns Debian's directory of shared libraries.
    pub(super) const fn libraries(self) -> &'static str {
        match self {
            Self::Amd64 => "lib/x86_64-linux-gnu",
            Self::Arm64 => "lib/aarch64-linux-gnu",
        }
    }

    /// Returns the dynamic loader: its file in the directory of shared libraries, and its path in
    /// a guest.
    pub(super) const fn loader(self) -> (&'static str, &'static str) {
        match self {
            Self::Amd64 => ("ld-linux-x86-64.so.2", "lib64/ld-linux-x86-64.so.2"),
            Self::Arm64 => ("ld-linux-aarch64.so.1", "lib/ld-linux-aarch64.so.1"),
        }
    }

    /// Returns QEMU's program and its Debian package.
    pub(super) const fn emulator(self) -> (&'static str, &'static str) {
        match self {
            Self::Amd64 => ("qemu-system-x86_64", "qemu-system-x86"),
            Self::Arm64 => ("qemu-system-aarch64", "qemu-system-arm"),
        }
    }

    /// Returns QEMU's options for the machine and its processor.
    pub(super) const fn machine(self, has_large_pages: bool) -> [&'static str; 4] {
        // `max` computes pointer authentication in software, which is slow. The A72 does not
        // support pages of 16 KiB.
        let cortex = if has_large_pages {
            "cortex-a76"
        } else {
            "cortex-a72"
        };
        match self {
            Self::Amd64 => ["-machine", "q35", "-cpu", "max"],
            Self::Arm64 => ["-machine", "virt,gic-version=3", "-cpu", cortex],
        }
    }

    /// Returns the physical address of the memory for the results in a machine with this much
    /// memory in MiB.
    pub(super) const fn results_at(self, memory_mib: u64) -> u64 {
        match self {
            // Above the part that any of the kernels needs to boot, below the initial file system.
            Self::Amd64 => 256 << 20,
            // Memory starts at 1 GiB. Its end carries the results, because `memmap=` does not
            // exist.
            Self::Arm64 => (1 << 30) + (memory_mib << 20) - RESULTS_BYTES,
        }
    }

    /// Returns the largest initial file system in a machine with this much memory in MiB. The
    /// kernel keeps it while it unpacks it into the same amount of memory again.
    pub(super) const fn initramfs_limit(self, memory_mib: u64) -> u64 {
        let reserved = match self {
            Self::Amd64 => self.results_at(memory_mib) + RESULTS_BYTES,
            // QEMU puts it 128 MiB above the start of memory.
            Self::Arm64 => RESULTS_BYTES + (128 << 20),
        };
        (memory_mib << 20).saturating_sub(reserved) / 2
    }

    /// Returns the kernel's options for the console, the clock and the memory for the results.
    pub(super) fn kernel_options(self, memory_mib: u64) -> String {
        match self {
            Self::Amd64 => format!(
                "console=ttyS0 tsc=reliable memmap={RESULTS_BYTES}${}",
                self.results_at(memory_mib)
            ),
            Self::Arm64 => format!(
                "console=ttyAMA0 mem={}M",
                memory_mib - (RESULTS_BYTES >> 20)
            ),
        }
    }
}

impl fmt::Display for Architecture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_lie_outside_the_memory_of_the_kernel() {
        assert_eq!(Architecture::Arm64.results_at(704), 0x6800_0000);
        assert!(Architecture::Arm64.kernel_options(704).contains("mem=640M"));
        assert_eq!(
            Architecture::Amd64.initramfs_limit(512),
            ((512 - 256 - 64) / 2) << 20
        );
    }
}
