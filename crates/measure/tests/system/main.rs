//! Tests that need root, BPF, a test host or real time: `make test-system`. They run one at a
//! time.

mod asked;
mod flight_root;
mod handlers_root;
mod linux_root;
mod measuring_threads_root;
