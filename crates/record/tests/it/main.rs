//! Integration tests that need neither root nor a quiet machine.

mod access;
mod damage;
mod disk_full;
mod earlier;
mod fixture;
mod hostile;
mod kill;
mod manifest_schema;
mod round_trip;
mod swapped;
mod tail;
