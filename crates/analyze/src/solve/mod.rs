//! Roots and minima of functions without derivatives.

mod line;
mod root;
mod simplex;

pub(crate) use line::minimum_on_grid;
pub(crate) use root::root_between;
pub(crate) use simplex::{Simplex, lowest};
