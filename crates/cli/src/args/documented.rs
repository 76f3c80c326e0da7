//! Tests that laggard accepts the commands in its documentation.

use std::fs;
use std::path::{Path, PathBuf};

use clap::Parser as _;

use super::Args;

/// Returns README.md and every page below `docs`.
fn documents() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut paths = vec![root.join("README.md")];
    let mut directories = vec![root.join("docs")];
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                directories.push(path);
            } else if path.extension().is_some_and(|kind| kind == "md") {
                paths.push(path);
            }
        }
    }
    paths
}

/// Returns the words of each laggard command that a document shows, in a shell or a workflow.
fn commands(text: &str) -> Vec<Vec<String>> {
    let mut command_lines = Vec::new();
    let mut is_printed = false;
    for line in text.lines() {
        let line = line.trim_start();
        is_printed ^= line.starts_with("```");
        let prompts = ["$ ", "# ", "- run: "];
        let command = prompts.iter().find_map(|prompt| line.strip_prefix(prompt));
        for words in command
            .filter(|_| is_printed)
            .map(split)
            .into_iter()
            .flatten()
        {
            let start = usize::from(words.first().is_some_and(|word| word == "sudo"));
            if words.get(start).is_some_and(|word| word == "laggard") {
                command_lines.push(words[start..].to_vec());
            }
        }
    }
    command_lines
}

/// Splits a line like a shell. Supports quoted words, several commands, redirections and
/// comments.
fn split(line: &str) -> Vec<Vec<String>> {
    let mut commands = vec![Vec::new()];
    let mut rest = line.trim();
    let mut is_target = false;
    while !rest.is_empty() {
        let quote = rest.chars().next().filter(|letter| "'\"".contains(*letter));
        let (word, after) = match quote {
            Some(quote) => rest[1..].split_once(quote).unwrap(),
            None => rest.split_once(' ').unwrap_or((rest, "")),
        };
        rest = after.trim_start();
        match word {
            _ if quote.is_none() && word.starts_with('#') => break,
            "&&" | "|" | "&" | ";" => commands.push(Vec::new()),
            ">" | "<" => is_target = true,
            _ if is_target => is_target = false,
            _ => commands.last_mut().unwrap().push(word.to_owned()),
        }
    }
    commands
}

#[test]
fn documented_commands_parse() {
    let mut taken = 0;
    for path in documents() {
        let text = fs::read_to_string(&path).unwrap();
        for words in commands(&text) {
            // `...` stands for a value of the reader.
            if words.iter().any(|word| word == "...") {
                continue;
            }
            let parsed = Args::try_parse_from(&words);
            let result = parsed.map_err(|err| err.to_string());
            assert!(result.is_ok(), "{}: {words:?}\n{result:?}", path.display());
            taken += 1;
        }
    }
    assert!(taken >= 30, "only {taken} commands were found");
}

#[test]
fn shell_line_is_split_into_commands() {
    let text = "```console\n# laggard a --run 'b c' > d.txt &\n$ sudo laggard e && laggard f  # g\n```\n# laggard h\n";

    let command_lines = commands(text);

    let words = [
        &["laggard", "a", "--run", "b c"][..],
        &["laggard", "e"],
        &["laggard", "f"],
    ];
    assert_eq!(command_lines, words);
}
