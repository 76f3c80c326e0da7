//! Tests that need root, BPF, a test host or real time: `make test-system`.

mod attach_beside_root;
mod attach_marks_root;
mod attach_programs_root;
mod attach_recorded_root;
mod attach_root;
mod capabilities_root;
mod command_fails;
mod compare_made_root;
mod container_root;
mod contexts;
mod deadline;
mod exported;
#[path = "../fault/mod.rs"]
mod fault;
mod handlers_root;
mod host_root;
mod limited;
mod on_late_root;
mod other_tracers;
mod overload;
mod packaged;
mod prometheus;
mod provoke;
mod provoke_measured;
mod rows;
mod rtos;
#[path = "../scripted/mod.rs"]
mod scripted;
#[path = "../served/mod.rs"]
mod served;
#[path = "../some_cpu/mod.rs"]
mod some_cpu;
mod started;
mod stopped;
mod switch;
mod timers;
mod top;
mod tutorials;
mod why_root;
