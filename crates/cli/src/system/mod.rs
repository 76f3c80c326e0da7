//! What the program takes of the system that it runs on, under names that are the
//! same on all.

#[cfg(target_os = "linux")]
mod linux;
#[cfg(target_os = "linux")]
mod linux_files;
#[cfg(not(target_os = "linux"))]
mod windows;
#[cfg(not(target_os = "linux"))]
mod windows_files;

#[cfg(target_os = "linux")]
pub(crate) use linux::{
    at_ending, become_normal, endings, first_stack, has_room, is_of_memory, is_short, is_unmet,
    ran_out, survive_file_limit,
};
#[cfg(target_os = "linux")]
pub(crate) use linux_files::{
    LeftFile, TemporaryLock, is_left, is_safe_around, leave, new_file, of_replacing,
};
#[cfg(not(target_os = "linux"))]
pub(crate) use windows::{
    at_ending, become_normal, first_stack, has_room, is_of_memory, is_short, is_unmet, ran_out,
    survive_file_limit,
};
#[cfg(not(target_os = "linux"))]
pub(crate) use windows_files::{
    LeftHandle as LeftFile, LockBeside as TemporaryLock, is_left, is_safe_around, leave, new_file,
    of_replacing,
};
