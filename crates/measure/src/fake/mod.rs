//! A probe that plays a script.
