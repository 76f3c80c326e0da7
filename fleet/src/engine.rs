//! Query engine: `DataFusion`, in this process or on a Ballista cluster, behind three methods.

use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context as _;
use datafusion::arrow::array::AsArray as _;
use datafusion::arrow::compute::{cast, concat_batches};
use datafusion::arrow::datatypes::{DataType, Float64Type, Int64Type, UInt64Type};
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::execution::options::ParquetReadOptions;
use datafusion::prelude::{SQLOptions, SessionConfig, SessionContext};
use tokio::runtime::{Builder, Runtime};

use crate::cluster::Scheduler;

/// Query engine, initially without tables.
pub struct Engine {
    runtime: Runtime,
    context: SessionContext,
    /// Names and paths of the tables, in the order of binding.
    bound: RefCell<Vec<(String, PathBuf)>>,
    /// Queries so far, in order.
    asked: RefCell<Vec<String>>,
}

impl std::fmt::Debug for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Engine").finish_non_exhaustive()
    }
}

/// Result of a query.
#[derive(Clone, Debug)]
pub struct Rows(RecordBatch);

impl Engine {
    /// Creates an engine that uses all CPUs.
    ///
    /// # Errors
    /// If a thread cannot be created.
    pub fn new() -> anyhow::Result<Self> {
        let config = SessionConfig::new().with_information_schema(true);
        Ok(Self::of(
            runtime()?,
            SessionContext::new_with_config(config),
        ))
    }

    fn of(runtime: Runtime, context: SessionContext) -> Self {
        Self {
            runtime,
            context,
            bound: RefCell::default(),
            asked: RefCell::default(),
        }
    }

    /// Creates an engine that runs its queries on a cluster. Its scheduler and executors open the
    /// tables at the same paths.
    ///
    /// # Errors
    /// If the scheduler does not accept connections.
    #[cfg(feature = "cluster")]
    pub fn on_cluster(scheduler: &Scheduler) -> anyhow::Result<Self> {
        use ballista::prelude::SessionContextExt as _;
        use datafusion::execution::SessionStateBuilder;

        scheduler.reach()?;
        let runtime = runtime()?;
        let url = format!("df://{scheduler}");
        let config = SessionConfig::new().with_information_schema(true);
        let state = SessionStateBuilder::new()
            .with_config(config)
            .with_default_features()
            .build();
        let context = runtime
            .block_on(SessionContext::remote_with_state(&url, state))
            .with_context(|| {
                format!("cannot open a session with the scheduler at `{scheduler}`")
            })?;
        Ok(Self::of(runtime, context))
    }

    /// Creates an engine that runs its queries on a cluster.
    ///
    /// # Errors
    /// Always: this program was built without the client of a cluster.
    #[cfg(not(feature = "cluster"))]
    pub fn on_cluster(scheduler: &Scheduler) -> anyhow::Result<Self> {
        anyhow::bail!(
            "this laggard-fleet cannot ask the cluster at `{scheduler}`: it was built without a client; `make fleet FEATURES=cluster` builds one with it"
        )
    }

    /// Binds a table's name to a Parquet file, or to a directory of them.
    ///
    /// # Errors
    /// If they cannot be read.
    pub fn bind(&self, table: &str, place: &Path) -> anyhow::Result<()> {
        let path = place
            .to_str()
            .with_context(|| format!("`{}` is not UTF-8", place.display()))?;
        let options = ParquetReadOptions::default();
        let bound = self.context.register_parquet(table, path, options);
        self.runtime
            .block_on(bound)
            .with_context(|| format!("cannot open `{}`", place.display()))?;
        self.bound.borrow_mut().push((table.into(), place.into()));
        Ok(())
    }

    /// Returns the tables and all queries so far as a script for `DuckDB`. Each query ends with `;`
    /// and a line feed.
    pub fn script(&self) -> String {
        let table = |(table, place): &(String, PathBuf)| {
            let files = crate::sql::literal(&place.join("*.parquet").to_string_lossy());
            format!("CREATE VIEW {table} AS SELECT * FROM read_parquet({files});\n")
        };
        let queries = self.asked.borrow();
        let queries = queries.iter().map(|query| format!("\n{};\n", query.trim()));
        let tables = self.bound.borrow();
        tables.iter().map(table).chain(queries).collect()
    }

    /// Clears the list of queries.
    pub fn forget(&self) {
        self.asked.borrow_mut().clear();
    }

    /// Runs a query. Other statements, which could change or write data, are refused.
    ///
    /// # Errors
    /// If it is not a query, or names an unknown table or column.
    pub fn query(&self, sql: &str) -> anyhow::Result<Rows> {
        let rows = self.runtime.block_on(self.asked(sql))?;
        self.asked.borrow_mut().push(sql.into());
        Ok(rows)
    }

    /// Runs a query with a time limit. Returns `None` if the limit is exceeded.
    ///
    /// # Errors
    /// Like [`Self::query`].
    pub fn query_within(&self, sql: &str, patience: Duration) -> anyhow::Result<Option<Rows>> {
        let result = async { tokio::time::timeout(patience, self.asked(sql)).await };
        self.runtime.block_on(result).ok().transpose()
    }

    async fn asked(&self, sql: &str) -> anyhow::Result<Rows> {
        let only = SQLOptions::new()
            .with_allow_ddl(false)
            .with_allow_dml(false)
            .with_allow_statements(false);
        let frame = self.context.sql_with_options(sql, only).await?;
        let schema = frame.schema().inner().clone();
        let batches = frame.collect().await?;
        let schema = batches.first().map_or(schema, RecordBatch::schema);
        Ok(Rows(concat_batches(&schema, &batches)?))
    }
}

fn runtime() -> anyhow::Result<Runtime> {
    Builder::new_multi_thread()
        .enable_all()
        .build()
        .context("cannot start threads for queries")
}

impl Rows {
    /// Returns the number of rows.
    pub fn len(&self) -> usize {
        self.0.num_rows()
    }

    /// Returns true without rows.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the names of the columns.
    pub fn names(&self) -> Vec<String> {
        self.0
            .schema()
            .fields()
            .iter()
            .map(|field| field.name().clone())
            .collect()
    }

    fn column(
        &self,
        name: &str,
        kind: &DataType,
    ) -> anyhow::Result<datafusion::arrow::array::ArrayRef> {
        let column = self
            .0
            .column_by_name(name)
            .with_context(|| format!("the answer has no column `{name}`"))?;
        cast(column, kind).with_context(|| format!("cannot read column `{name}`"))
    }

    /// Returns a column of whole numbers.
    ///
    /// # Errors
    /// If the column does not exist, or has another type.
    pub fn whole(&self, name: &str) -> anyhow::Result<Vec<Option<i64>>> {
        Ok(self
            .column(name, &DataType::Int64)?
            .as_primitive::<Int64Type>()
            .iter()
            .collect())
    }

    /// Returns a column of numbers.
    ///
    /// # Errors
    /// Like [`Self::whole`].
    pub fn number(&self, name: &str) -> anyhow::Result<Vec<Option<f64>>> {
        Ok(self
            .column(name, &DataType::Float64)?
            .as_primitive::<Float64Type>()
            .iter()
            .collect())
    }

    /// Returns a column as text.
    ///
    /// # Errors
    /// Like [`Self::whole`].
    pub fn text(&self, name: &str) -> anyhow::Result<Vec<Option<String>>> {
        let column = self.column(name, &DataType::Utf8)?;
        Ok(column
            .as_string::<i32>()
            .iter()
            .map(|text| text.map(Into::into))
            .collect())
    }

    /// Returns every row as JSON. Numbers are numbers, except that infinite ones are text. Missing
    /// values are null, and all other values are text. Column names must be unique.
    ///
    /// # Errors
    /// If the type of a column lacks a text format.
    pub fn json(&self) -> anyhow::Result<Vec<serde_json::Map<String, serde_json::Value>>> {
        let mut rows = vec![serde_json::Map::new(); self.len()];
        for (number, field) in self.0.schema().fields().iter().enumerate() {
            let column = self.0.column(number);
            let kind = field.data_type();
            let values: Vec<serde_json::Value> = if *kind == DataType::UInt64 {
                let values = column.as_primitive::<UInt64Type>();
                values.iter().map(Into::into).collect()
            } else if kind.is_integer() {
                let cast = cast(column, &DataType::Int64)?;
                cast.as_primitive::<Int64Type>()
                    .iter()
                    .map(Into::into)
                    .collect()
            } else if kind.is_numeric() {
                let cast = cast(column, &DataType::Float64)?;
                cast.as_primitive::<Float64Type>()
                    .iter()
                    .map(|value| match value {
                        // JSON cannot represent infinity and NaN.
                        Some(value) if !value.is_finite() => value.to_string().into(),
                        value => value.into(),
                    })
                    .collect()
            } else if *kind == DataType::Boolean {
                column.as_boolean().iter().map(Into::into).collect()
            } else {
                let cast = cast(column, &DataType::Utf8)?;
                cast.as_string::<i32>().iter().map(Into::into).collect()
            };
            for (row, value) in rows.iter_mut().zip(values) {
                row.insert(field.name().clone(), value);
            }
        }
        Ok(rows)
    }
}
