//! Tests that need root, BPF, a test host or real time: `make test-system`. They run one at a
//! time.

mod hosts;
mod kernels;
mod short;
