//! LaTeX tables with booktabs.

use paravt_suite::printable::printable_line;

use super::Failure;
use crate::table::Table;

/// A `tabular` for `\input`, rounded; needs `\usepackage{booktabs}`.
pub(super) fn write(table: &Table, file: &mut Vec<u8>) -> Result<(), Failure> {
    let view = table.whole();
    let align: String = view.columns.iter().map(|column| if column.is_number { 'r' } else { 'l' }).collect();
    let line = |cells: Vec<String>| format!("{} \\\\\n", cells.join(" & "));
    let mut out = format!("% {}\n\\begin{{tabular}}{{{align}}}\n\\toprule\n", printable_line(&table.title));
    out.push_str(&line(view.columns.iter().map(|column| escape(column.title)).collect()));
    out.push_str("\\midrule\n");
    for row in 0..view.rows {
        out.push_str(&line(view.row(row).map(escape).collect()));
    }
    out.push_str("\\bottomrule\n\\end{tabular}\n");
    file.extend(out.into_bytes());
    Ok(())
}

/// Every character that means something to LaTeX as the character itself.
fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in printable_line(text).chars() {
        match character {
            '&' | '%' | '$' | '#' | '_' | '{' | '}' => out.extend(['\\', character]),
            '\\' => out.push_str("\\textbackslash{}"),
            '~' => out.push_str("\\textasciitilde{}"),
            '^' => out.push_str("\\textasciicircum{}"),
            '<' => out.push_str("\\textless{}"),
            '>' => out.push_str("\\textgreater{}"),
            // The brackets of a control character's code, which pdfTeX does not have.
            '⟨' => out.push('['),
            '⟩' => out.push(']'),
            _ => out.push(character),
        }
    }
    out
}
