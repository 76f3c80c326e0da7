//! Every view of a report: the only place that rounds and formats.

#![forbid(unsafe_code)]
