//! Programs.

use super::Findings;
use crate::preflight::finding::Level;
use crate::preflight::machine::Machine;
use crate::preflight::needs::Needs;

pub(super) fn tools(needs: &Needs, machine: &Machine, findings: &mut Findings<'_>) {
    let mut there = Vec::new();
    for tool in &needs.tools {
        let bad = if tool.optional { Level::Warn } else { Level::Refuse };
        let name = &tool.name;
        let needed = match tool.major {
            Some((low, high)) if low == high => format!("{name} {low}"),
            Some((low, high)) => format!("{name} {low} to {high}"),
            None => name.clone(),
        };
        let Some(said) = machine.tools.get(name).and_then(Option::as_ref) else {
            findings.add(bad, format!("{name} is not on the search path"), needed, tool.remedy.clone());
            continue;
        };
        let found = major(said);
        match tool.major {
            Some((low, high)) if !found.is_some_and(|found| (low..=high).contains(&found)) => {
                findings.add(bad, format!("{name}: {said}"), needed, tool.remedy.clone());
            }
            _ => there.push(match version_of(said) {
                Some(version) => format!("{name} {version}"),
                None => name.clone(),
            }),
        }
    }
    if !there.is_empty() {
        findings.ok(there.join(", "));
    }
}

/// The first word of a program's answer that begins with a digit.
fn version_of(said: &str) -> Option<&str> {
    let words = said.split_whitespace().map(|word| word.trim_start_matches(['v', 'V', 'n', '(']));
    let words = words.map(|word| word.trim_end_matches([',', ';', ')']));
    words
        .filter(|word| word.contains('.'))
        .find(|word| word.starts_with(|first: char| first.is_ascii_digit()))
}

fn major(said: &str) -> Option<u64> {
    version_of(said)?.split(['.', '-']).next()?.parse().ok()
}
