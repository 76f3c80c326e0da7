//! Task sets in files, in either form.

use std::path::Path;

use super::tasks::{self, TasksError};
use super::{SchedQuestion, rtapp};

/// Reads a task set: rt-app's JSON if the name ends in `.json`, otherwise TOML.
///
/// # Errors
/// When the file is not a task set that can be analysed.
pub fn read_tasks(file: &Path) -> Result<SchedQuestion, TasksError> {
    let text = laggard_files::read_text(file).map_err(|source| TasksError::Read {
        file: file.into(),
        source,
    })?;
    let is_json = file.extension().is_some_and(|end| end == "json");
    let set = parse(&text, is_json).map_err(|error| TasksError::File {
        file: file.into(),
        source: error.into(),
    })?;
    if set.tasks.is_empty() {
        return Err(TasksError::Empty(file.into()));
    }
    Ok(set)
}

fn parse(text: &str, is_json: bool) -> Result<SchedQuestion, TasksError> {
    let set = if is_json {
        rtapp::parse(text)?
    } else {
        tasks::parse(text)?
    };
    for task in &set.tasks {
        tasks::check(task, set.permitted)?;
    }
    Ok(set)
}
