//! Reasons why a file cannot be read as a trace.

use std::io;

/// Reason why a file cannot be read as a trace. Damage in the middle is not an error:
/// the readable part is read, and the rest is counted.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EtlError {
    #[error("read at byte {at}")]
    Io {
        /// Offset.
        at: u64,
        source: io::Error,
    },
    /// The file is shorter than the header of a buffer.
    #[error(
        "not a Windows trace: the file has {length} bytes; name a file that WPR, xperf or PerfView wrote"
    )]
    Short {
        /// Length of the file, bytes.
        length: u64,
    },
    /// The file does not start like a trace.
    #[error(
        "not a Windows trace (at byte 0); name a file that WPR, xperf or PerfView wrote, unpacked"
    )]
    Foreign,
    /// The first event is not the header of a trace.
    #[error(
        "the trace header is damaged (at byte 72), so the times of events are unknown; record or copy it again"
    )]
    Header,
    /// Sorting the events by time would need too much memory.
    #[error(
        "at byte {at}, buffers that overlap in time take more than {} MB; merge the trace with `xperf -merge`, or record with smaller buffers",
        most >> 20
    )]
    Overlap {
        /// Offset of the first buffer that exceeds the limit.
        at: u64,
        /// Limit, bytes.
        most: usize,
    },
}
