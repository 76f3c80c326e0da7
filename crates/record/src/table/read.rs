//! Decoding of files.

use std::cell::Cell;
use std::panic::{self, AssertUnwindSafe};

use bytes::Bytes;
use parquet::basic::Type;
use parquet::column::reader::{ColumnReader, get_typed_column_reader};
use parquet::data_type::{
    BoolType, ByteArrayType, DataType, FixedLenByteArrayType, Int32Type, Int64Type,
};
use parquet::file::reader::{FileReader, RowGroupReader};
use parquet::file::serialized_reader::SerializedFileReader;

use super::damage::Damage;
use super::{NO_CHECKSUM, checksum_place, page};

/// Checks the checksum and the declared page sizes of a file, and opens it.
pub(crate) fn open(file: Vec<u8>) -> Result<SerializedFileReader<Bytes>, Damage> {
    let place = checksum_place(&file).ok_or(Damage::NoChecksum)?;
    let mut crc = crc32fast::Hasher::new();
    crc.update(&file[..place]);
    crc.update(NO_CHECKSUM.as_bytes());
    crc.update(&file[place + NO_CHECKSUM.len()..]);
    if format!("{:08x}", crc.finalize()).as_bytes() != &file[place..place + NO_CHECKSUM.len()] {
        return Err(Damage::WrongChecksum);
    }
    let file = Bytes::from(file);
    guarded(|| {
        let reader = SerializedFileReader::new(file.clone())?;
        page::check(&file, reader.metadata())?;
        Ok(reader)
    })
}

thread_local! {
    /// Whether this thread is within a step whose panic means damage.
    static IS_GUARDED: Cell<bool> = const { Cell::new(false) };
}

/// Runs a step of the Parquet reader and converts a panic to damage.
///
/// The checksum excludes accidents. This function is for malicious files, which can violate
/// assertions of the reader.
pub(crate) fn guarded<T>(step: impl FnOnce() -> Result<T, Damage>) -> Result<T, Damage> {
    let before = IS_GUARDED.replace(true);
    let done = panic::catch_unwind(AssertUnwindSafe(step));
    IS_GUARDED.set(before);
    done.unwrap_or(Err(Damage::ReaderGaveUp))
}

/// Suppresses the message of a panic of the Parquet reader. A damaged file can cause
/// it, and it becomes a [`Shortfall`](crate::Shortfall), not a fault of this program.
/// Call it at the start of a program.
pub fn hush_damage() {
    let usual = panic::take_hook();
    panic::set_hook(Box::new(move |panic| {
        if !IS_GUARDED.get() {
            usual(panic);
        }
    }));
}

/// Returns the reader of the column `name`.
pub(crate) fn column(group: &dyn RowGroupReader, name: &str) -> Result<ColumnReader, Damage> {
    Ok(group.get_column_reader(index_of(group, name)?)?)
}

/// Returns the position of the column `name`.
pub(crate) fn index_of(group: &dyn RowGroupReader, name: &str) -> Result<usize, Damage> {
    let mut columns = group.metadata().columns().iter();
    columns
        .position(|column| column.column_path().string() == name)
        .ok_or_else(|| Damage::NoColumn(name.into()))
}

/// Returns the damage for a value that a writer never writes.
pub(crate) fn bad(what: &str, value: impl std::fmt::Display) -> Damage {
    Damage::BadValue(format!("{what} {value}"))
}

/// Maximum number of rows of a file.
pub(crate) const MAX_ROWS: usize = 1 << 24;

/// Complete small table, read column by column.
pub(crate) struct Rows {
    file: SerializedFileReader<Bytes>,
    rows: usize,
}

impl Rows {
    /// Opens a table of at most `limit` rows.
    pub(crate) fn read(content: Vec<u8>, limit: usize) -> Result<Self, Damage> {
        let file = open(content)?;
        let groups = file.metadata().row_groups();
        let [group] = groups else {
            return Err(bad("a number of row groups of", groups.len()));
        };
        let rows = usize::try_from(group.num_rows())
            .ok()
            .filter(|&rows| rows <= limit.min(MAX_ROWS))
            .ok_or_else(|| {
                let limit = limit.min(MAX_ROWS);
                Damage::BadValue(format!(
                    "{} rows, above the {limit} that such a file can have",
                    group.num_rows()
                ))
            })?;
        Ok(Self { file, rows })
    }

    pub(crate) const fn len(&self) -> usize {
        self.rows
    }

    pub(crate) fn i32(&self, name: &str) -> Result<Vec<i32>, Damage> {
        self.every::<Int32Type>(name)
    }

    pub(crate) fn i64(&self, name: &str) -> Result<Vec<i64>, Damage> {
        self.every::<Int64Type>(name)
    }

    pub(crate) fn bool(&self, name: &str) -> Result<Vec<bool>, Damage> {
        self.every::<BoolType>(name)
    }

    pub(crate) fn text(&self, name: &str) -> Result<Vec<String>, Damage> {
        let texts = self.every::<ByteArrayType>(name)?;
        let text = |bytes: &parquet::data_type::ByteArray| Ok(bytes.as_utf8()?.to_owned());
        texts.iter().map(text).collect()
    }

    pub(crate) fn some_i64(&self, name: &str) -> Result<Vec<Option<i64>>, Damage> {
        self.some::<Int64Type>(name)
    }

    pub(crate) fn some_decimal(&self, name: &str) -> Result<Vec<Option<u128>>, Damage> {
        let numbers = self.some::<FixedLenByteArrayType>(name)?;
        let number = |bytes: parquet::data_type::FixedLenByteArray| {
            let bytes =
                <[u8; 16]>::try_from(bytes.data()).map_err(|_| Damage::OtherType(name.into()))?;
            Ok(u128::from_be_bytes(bytes))
        };
        let numbers = numbers.into_iter();
        numbers.map(|some| some.map(number).transpose()).collect()
    }

    fn every<T: DataType>(&self, name: &str) -> Result<Vec<T::T>, Damage> {
        let values = self.some::<T>(name)?;
        values
            .into_iter()
            .map(|value| value.ok_or_else(|| Damage::ColumnShort(name.into())))
            .collect()
    }

    fn some<T: DataType>(&self, name: &str) -> Result<Vec<Option<T::T>>, Damage> {
        guarded(|| {
            let group = self.file.get_row_group(0)?;
            let (mut values, mut present) = (Vec::new(), Vec::new());
            let reader = column(group.as_ref(), name)?;
            if physical_type(&reader) != T::get_physical_type() {
                return Err(Damage::OtherType(name.into()));
            }
            let mut reader = get_typed_column_reader::<T>(reader);
            reader.read_records(self.rows, Some(&mut present), None, &mut values)?;
            // A column without nulls does not have levels.
            if present.is_empty() {
                present.resize(values.len(), 1);
            }
            if present.len() != self.rows {
                return Err(Damage::ColumnShort(name.into()));
            }
            let mut values = values.into_iter();
            let mut value = |present| (present != 0).then(|| values.next()).flatten();
            Ok(present.into_iter().map(&mut value).collect())
        })
    }
}

const fn physical_type(reader: &ColumnReader) -> Type {
    match reader {
        ColumnReader::BoolColumnReader(_) => Type::BOOLEAN,
        ColumnReader::Int32ColumnReader(_) => Type::INT32,
        ColumnReader::Int64ColumnReader(_) => Type::INT64,
        ColumnReader::Int96ColumnReader(_) => Type::INT96,
        ColumnReader::FloatColumnReader(_) => Type::FLOAT,
        ColumnReader::DoubleColumnReader(_) => Type::DOUBLE,
        ColumnReader::ByteArrayColumnReader(_) => Type::BYTE_ARRAY,
        ColumnReader::FixedLenByteArrayColumnReader(_) => Type::FIXED_LEN_BYTE_ARRAY,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::thread;

    use super::*;

    #[test]
    fn panic_of_the_reader_is_damage_and_only_other_panics_are_printed() {
        static PRINTED: AtomicU32 = AtomicU32::new(0);
        let here = thread::current().id();
        let usual = panic::take_hook();
        panic::set_hook(Box::new(move |_| {
            // Other tests run at the same time.
            if thread::current().id() == here {
                PRINTED.fetch_add(1, Ordering::Relaxed);
            }
        }));
        hush_damage();

        let damage = guarded::<()>(|| panic!("of the reader"));
        let of_reader = PRINTED.load(Ordering::Relaxed);
        let other = panic::catch_unwind(|| panic!("of anybody else"));
        panic::set_hook(usual);

        assert!(matches!(damage, Err(Damage::ReaderGaveUp)));
        assert_eq!(of_reader, 0);
        assert!(other.is_err());
        assert_eq!(PRINTED.load(Ordering::Relaxed), 1);
    }
}
