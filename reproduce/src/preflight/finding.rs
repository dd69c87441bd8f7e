//! Findings of the checks, and the report of all of them.

use std::fmt::Write as _;

use serde::Serialize;

/// Columns of the page.
const WIDTH: usize = 80;
/// Columns of the level before an item.
const INDENT: usize = 6;

/// Severity of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Level {
    Ok,
    /// The recipe runs, slower or with a risk.
    Warn,
    /// The recipe would fail.
    Refuse,
}

/// One thing that was looked at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// Name of the check.
    pub item: &'static str,
    pub level: Level,
    pub found: String,
    pub how: &'static str,
    pub needed: String,
    /// What to do; empty where nothing is to be done.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub remedy: String,
}

/// All findings about one recipe.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Report {
    pub recipe: String,
    /// The findings, in the order of the checks.
    pub findings: Vec<Finding>,
}

impl Level {
    fn label(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Warn => "warn",
            Self::Refuse => "FAIL",
        }
    }
}

impl Report {
    /// The highest severity.
    pub fn level(&self) -> Level {
        self.findings.iter().map(|finding| finding.level).max().unwrap_or(Level::Ok)
    }

    /// Findings of a level.
    pub fn count(&self, level: Level) -> usize {
        self.findings.iter().filter(|finding| finding.level == level).count()
    }

    /// All findings as text of at most 80 columns, except for words that are longer.
    pub fn page(&self) -> String {
        self.text(Level::Ok)
    }

    /// The findings that ask for something to be done.
    pub fn problems(&self) -> String {
        self.text(Level::Warn)
    }

    fn text(&self, from: Level) -> String {
        let count = |level| self.count(level);
        let warnings = if count(Level::Warn) == 1 { "warning" } else { "warnings" };
        let mut text = format!(
            "preflight of {}: {} failed, {} {warnings}, {} ok\n",
            self.recipe,
            count(Level::Refuse),
            count(Level::Warn),
            count(Level::Ok)
        );
        for finding in self.findings.iter().filter(|finding| finding.level >= from) {
            let Finding { item, level, found, needed, remedy, .. } = finding;
            let is_ok = *level == Level::Ok;
            let line = format!("{item}: {}", if is_ok { found } else { needed });
            let _ = writeln!(text, "{:<INDENT$}{}", level.label(), wrapped(&line, INDENT));
            for (name, value) in [("found:  ", found), ("remedy: ", remedy)] {
                if !is_ok && !value.is_empty() {
                    let indent = INDENT + name.len();
                    let _ = writeln!(text, "{:INDENT$}{name}{}", "", wrapped(value, indent));
                }
            }
        }
        text
    }
}

/// Words in lines that end before the page does; lines after the first are indented.
fn wrapped(text: &str, indent: usize) -> String {
    let mut lines = String::new();
    let mut column = indent;
    for word in text.split_whitespace() {
        let width = word.chars().count();
        if column > indent && column + 1 + width > WIDTH {
            let _ = write!(lines, "\n{:indent$}", "");
            column = indent;
        }
        if column > indent {
            lines.push(' ');
            column += 1;
        }
        lines.push_str(word);
        column += width;
    }
    lines
}
