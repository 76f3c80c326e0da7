//! The program: joins the engine crates and talks to a person.

#![forbid(unsafe_code)]

fn main() {}
