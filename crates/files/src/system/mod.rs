//! Differences between operating systems, under the same names.

#[cfg(unix)]
mod unix;
#[cfg(not(unix))]
mod windows;

#[cfg(unix)]
pub(crate) use unix::{
    LeftFile, OutputPlace, is_of_directory, reserve, with_remedy_for_open_files,
};
#[cfg(not(unix))]
pub(crate) use windows::{
    LeftHandle as LeftFile, OutputPlace, is_of_directory, reserve, with_remedy_for_open_files,
};
