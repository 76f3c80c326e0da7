//! Tests on test hosts: `make test-system`, two at a time.

mod hosts;
mod kernels;
mod short;
