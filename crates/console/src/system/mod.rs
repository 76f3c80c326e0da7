//! System-dependent parts of a program, under the same names on every system.

#[cfg(target_os = "linux")]
mod linux;
#[cfg(not(target_os = "linux"))]
mod windows;

#[cfg(target_os = "linux")]
pub use linux::{
    become_normal, end_at_signals, endings, first_stack, has_room, interruption, is_of_memory,
    is_short, keep_free_memory, output_was_closed, ran_out, read_symbols_if_asked,
    survive_file_limit,
};
#[cfg(not(target_os = "linux"))]
pub use windows::{
    at_ending, become_normal, end_at_signals, first_stack, has_room, interruption, is_of_memory,
    is_short, keep_free_memory, output_was_closed, ran_out, read_symbols_if_asked,
    survive_file_limit,
};
