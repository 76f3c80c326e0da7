//! Floating point: endless divisions of the numbers that showed the Pentium's division
//! fault, as in Heubaum's program.

use std::hint::black_box;

pub(super) const THREADS: u32 = 4;

/// Number of divisions between two checks of the stop flag: some tens of microseconds.
const BURST: u64 = 10_000;

/// Divides until it `ends`. Returns the number of divisions.
pub(super) fn run(ends: &dyn Fn() -> bool) -> u64 {
    let mut divisions = 0;
    while !ends() {
        for _ in 0..BURST {
            let quotient = black_box(4_195_835.0_f64) / black_box(3_145_727.0_f64);
            black_box(4_195_835.0_f64 - quotient * 3_145_727.0_f64);
        }
        divisions += BURST;
    }
    divisions
}
