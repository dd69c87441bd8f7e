//! The help of every command at 80 columns, as snapshots.

use crate::common::{bench, ok};

const COLUMNS: usize = 80;

fn help(path: &[String]) -> String {
    let output = ok(bench().args(path).arg("--help").env("COLUMNS", COLUMNS.to_string()));
    String::from_utf8(output.stdout).unwrap()
}

/// Names below `Commands:` of a help text.
fn commands(help: &str) -> Vec<String> {
    let below = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    let lines = below.take_while(|line| !line.is_empty());
    let named = lines.filter(|line| line.starts_with("  ") && !line.starts_with("   "));
    let names = named.map(|line| line.split_whitespace().next().unwrap().to_owned());
    names.filter(|name| name != "help").collect()
}

/// A command and those below it with their help.
fn all(path: &[String], found: &mut Vec<(String, String)>) {
    let text = help(path);
    let below = commands(&text);
    let name = if path.is_empty() { "paravt-bench".to_owned() } else { path.join(" ") };
    found.push((name, text));
    for command in below {
        all(&[path, &[command]].concat(), found);
    }
}

#[test]
fn help_of_every_command() {
    let mut found = Vec::new();
    all(&[], &mut found);
    assert!(found.len() > 20, "{} commands", found.len());
    for (name, text) in found {
        // A line is as wide as its characters here: help texts have none of double width.
        let wide = text.lines().find(|line| line.chars().count() > COLUMNS);
        assert_eq!(wide, None, "{name}");
        insta::assert_snapshot!(name.replace(' ', "_"), text);
    }
}

#[test]
fn the_help_of_reproduce_names_every_recipe() {
    let help = help(&["reproduce".to_owned()]);
    // The rows of `authors` stand in its plan.
    let is_row = |name: &String| name.ends_with("-authors") || name.ends_with("-card");
    for name in paravt_reproduce::Recipe::names().into_iter().filter(|name| !is_row(name)) {
        assert!(help.contains(&name), "{name}");
    }
}
