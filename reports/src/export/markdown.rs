//! Markdown tables for pull requests.

use paravt_suite::printable::printable;

use super::Failure;
use crate::table::{Table, View};

/// GitHub's tables, rounded.
pub(super) fn write(table: &Table, file: &mut Vec<u8>) -> Result<(), Failure> {
    file.extend(markdown(&table.whole()).into_bytes());
    Ok(())
}

/// A view as Markdown.
pub fn markdown(view: &View) -> String {
    let line = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
    let mut out = line(view.columns.iter().map(|column| column.title.to_owned()).collect());
    let rule = |number| if number { "--:" } else { "---" };
    let rules: Vec<&str> = view.columns.iter().map(|column| rule(column.is_number)).collect();
    out.push_str(&format!("|{}|\n", rules.join("|")));
    for row in 0..view.rows {
        out.push_str(&line(view.row(row).map(escape).collect()));
    }
    out
}

/// Keeps titles, labels and reasons from breaking the table or becoming markup.
pub fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in printable(text).chars() {
        match character {
            '\\' | '|' | '`' | '*' | '[' | ']' => out.extend(['\\', character]),
            '<' => out.push_str("&lt;"),
            '&' => out.push_str("&amp;"),
            '\n' | '\t' => out.push(' '),
            _ => out.push(character),
        }
    }
    out
}
