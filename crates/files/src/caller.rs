//! The user that `sudo` works for.

use nix::unistd::geteuid;

/// Returns the user and the group that ran `sudo` to start this program as root.
pub fn sudo_caller() -> Option<(u32, u32)> {
    let number = |name: &str| std::env::var(name).ok()?.parse().ok();
    let caller = number("SUDO_UID").zip(number("SUDO_GID"));
    caller.filter(|_| geteuid().is_root())
}
