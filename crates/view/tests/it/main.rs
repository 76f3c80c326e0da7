//! Integration tests that need neither root nor a quiet machine.

mod advice;
mod compared;
mod contexts;
mod golden;
mod overview;
mod page_types;
mod printable;
mod random;
mod trust;
mod width;
