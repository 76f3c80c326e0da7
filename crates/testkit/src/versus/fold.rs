//! Wraps text to the line length of documents.

/// Maximum length of a line in characters.
const MAX_LINE: usize = 120;

/// Wraps the text lines of Markdown at spaces. Rows of tables are not wrapped, and continuation
/// lines of a list item are indented.
pub(super) fn folded(markdown: &str) -> String {
    markdown.lines().map(line).collect()
}

fn line(line: &str) -> String {
    if line.starts_with('|') {
        return format!("{line}\n");
    }
    let below = if line.starts_with("- ") { "  " } else { "" };
    let mut text = String::new();
    let mut wide = 0;
    for word in line.split(' ') {
        let letters = word.chars().count();
        if wide == 0 {
            wide = letters;
        } else if wide + 1 + letters > MAX_LINE {
            text += &format!("\n{below}");
            wide = below.len() + letters;
        } else {
            text.push(' ');
            wide += 1 + letters;
        }
        text += word;
    }
    text + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_wrapped_and_tables_are_not() {
        let word = "w".repeat(59);
        let row = format!("| {word} | {word} | {word} |");
        let markdown = format!("- {word} {word}\n\n{word} {word} {word}\n{row}\n");

        let folded = folded(&markdown);

        let expected = format!("- {word}\n  {word}\n\n{word} {word}\n{word}\n{row}\n");
        assert_eq!(folded, expected);
    }
}
