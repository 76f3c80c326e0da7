//! Task sets in files, in either form.

use std::path::Path;

use super::tasks::{self, TasksError};
use super::{SchedQuestion, rtapp};

/// Reads a task set: TOML, or rt-app's JSON where the name ends so.
///
/// # Errors
/// When the file is neither, or a task of it is none.
pub fn read_tasks(file: &Path) -> Result<SchedQuestion, TasksError> {
    let text = laggard_files::read_text(file).map_err(|source| TasksError::Read {
        file: file.into(),
        source,
    })?;
    let asked = if file.extension().is_some_and(|end| end == "json") {
        rtapp::parse(&text).map_err(TasksError::from)
    } else {
        tasks::parse(&text)
    };
    let asked = asked.map_err(|error| TasksError::File {
        file: file.into(),
        source: error.into(),
    })?;
    for task in &asked.tasks {
        tasks::check(task, asked.permitted)?;
    }
    if asked.tasks.is_empty() {
        return Err(TasksError::Empty(file.into()));
    }
    Ok(asked)
}
