//! The recording on disk: written so that a kill loses little, read so that damage is an error.

#![forbid(unsafe_code)]
