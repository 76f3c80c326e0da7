//! Why a file's content cannot be used.

use parquet::errors::ParquetError;

/// Why a file's content cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Damage {
    #[error("it has no checksum, so it was not written by laggard or its end is gone")]
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
