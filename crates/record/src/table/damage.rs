//! Damage of a file.

use parquet::errors::ParquetError;

/// Reason why a file's content cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Damage {
    #[error("it has no checksum: another program wrote it, or it is truncated")]
    NoChecksum,
    #[error("its checksum is wrong: some of its bytes changed after it was written")]
    WrongChecksum,
    #[error("column `{0}` is missing")]
    NoColumn(String),
    #[error("column `{0}` has another type than it should")]
    OtherType(String),
    #[error("column `{0}` ends early")]
    ColumnShort(String),
    #[error("it holds {0}")]
    BadValue(String),
    #[error("the Parquet reader cannot make sense of it")]
    ReaderGaveUp,
    #[error("{0}")]
    Parquet(#[from] ParquetError),
    #[error("{0}")]
    Io(#[from] std::io::Error),
}
