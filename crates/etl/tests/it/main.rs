//! Integration tests that need neither root nor a quiet machine.

mod constructed;
mod damage;
mod log;
mod real;
mod traces;
