//! Why a file cannot be read as a trace.

use std::io;

/// Why a file cannot be read as a trace. Damage in the middle is none of these:
/// what can be read is, and what cannot is counted.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EtlError {
    /// Reading the file failed.
    #[error("read at byte {at}")]
    Io {
        /// Where.
        at: u64,
        /// Why.
        source: io::Error,
    },
    /// It is shorter than the header of a buffer.
    #[error(
        "{length} bytes are no trace of Windows; name a file that WPR, xperf or PerfView wrote"
    )]
    Short {
        /// How long it is.
        length: u64,
    },
    /// It does not begin as a trace does.
    #[error(
        "no trace of Windows begins so (at byte 0); name a file that WPR, xperf or PerfView wrote, unpacked"
    )]
    Foreign,
    /// Its first event is not the one that every trace begins with.
    #[error(
        "the trace's own header is damaged (at byte 72), and without it no time can be told; record or copy it again"
    )]
    Header,
    /// Too much would have to be held to put events in the order of time.
    #[error(
        "at byte {at}, buffers that overlap in time take more than {} MB; merge the trace with `xperf -merge`, or record with smaller buffers",
        most >> 20
    )]
    Overlap {
        /// Where the buffer begins that was one too many.
        at: u64,
        /// How much may be held, bytes.
        most: usize,
    },
}
