//! Integration tests that need neither root nor a quiet machine.

mod blackouts;
mod citations;
mod closed_form;
mod coverage;
mod drifting;
mod envelope;
mod failures;
mod golden;
mod limits;
mod looks;
mod mixture;
mod oracle;
mod power;
mod predictions;
#[path = "../processes/mod.rs"]
mod processes;
mod schedule;
mod series;
mod slow;
mod verdicts;
