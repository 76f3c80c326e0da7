//! Integration tests that need neither root nor a quiet machine.

mod alone;
#[path = "../../../otlp/tests/it/collector/mod.rs"]
mod collector;
mod pushed;
mod secured;
