//! Published test vectors of the mathematics.

mod compare;
mod counts;
mod forecast;
mod period;
mod qos;
mod sched;
mod vector;
