//! Integration tests that need neither root nor a quiet machine.

mod answers;
mod architecture;
mod check;
mod command_line;
mod compare;
mod compare_made;
mod compare_over;
mod completion;
mod damaged;
mod digest;
mod doctor;
mod documents;
mod exit_codes;
mod export;
mod figure;
mod for_application;
mod foreign_names;
mod import;
mod import_recorded;
mod in_short;
mod intervals;
mod json_of_answers;
mod mutated;
mod on_late;
mod pipeline;
mod redact;
mod refused;
mod rehearse;
mod report;
mod same;
mod schedulable;
mod schemas;
#[path = "../scripted/mod.rs"]
mod scripted;
mod scripted_truth;
mod serve;
#[path = "../served/mod.rs"]
mod served;
mod starved;
#[cfg(target_os = "linux")]
mod study;
mod supply;
mod tail;
mod twice;
mod until_decided;
#[path = "../whole/mod.rs"]
mod whole;
mod whole_files;
mod why_windows;
mod width;
mod windows;
