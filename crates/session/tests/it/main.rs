//! Integration tests that need neither root nor a quiet machine.

mod watched;
