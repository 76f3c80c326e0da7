//! Tests that need root, BPF, a test host or real time: `make test-system`. One at a
//! time.

mod disturb;
mod load_process;
mod task;
