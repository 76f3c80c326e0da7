//! Every published test vector of the mathematics.

#[path = "../closed_form/mod.rs"]
mod closed_form;
mod compare;
mod counts;
mod forecast;
mod period;
mod qos;
mod sched;
mod vector;
