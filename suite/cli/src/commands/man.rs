//! `paravt-bench man`: the manual pages, one per command.

use paravt_files::write_atomic;
use paravt_reports::terminal::counted;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap_mangen::Man;
use clap_mangen::roff::{Roff, roman};

use crate::exit::Exit;

/// Flags of `man`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Folder for the pages, one file per command; made where it is missing.
    dir: PathBuf,
}

pub(crate) fn run(args: &Args, mut command: clap::Command) -> anyhow::Result<Exit> {
    std::fs::create_dir_all(&args.dir).with_context(|| format!("cannot create {}", args.dir.display()))?;
    command.build();
    let pages = write(&args.dir, command)?;
    println!("{}: {}", args.dir.display(), counted(pages, "manual page"));
    Ok(Exit::Ok)
}

/// Writes the page of a command and those of the commands below it; the number of pages.
fn write(dir: &Path, command: clap::Command) -> anyhow::Result<usize> {
    let below: Vec<clap::Command> = below(&command).cloned().collect();
    let name = command.get_display_name().unwrap_or_else(|| command.get_name()).to_owned();
    let file = dir.join(format!("{name}.1"));
    write_atomic(&file, &page(&name, command)?)
        .with_context(|| format!("cannot write {}", file.display()))?;
    below.into_iter().try_fold(1, |pages, command| Ok(pages + write(dir, command)?))
}

/// Its commands, without `help` and hidden ones.
fn below(command: &clap::Command) -> impl Iterator<Item = &clap::Command> {
    command.get_subcommands().filter(|below| below.get_name() != "help" && !below.is_hide_set())
}

fn page(name: &str, command: clap::Command) -> std::io::Result<Vec<u8>> {
    let man = Man::new(command.clone());
    let mut page = Vec::new();
    man.render_title(&mut page)?;
    man.render_name_section(&mut page)?;
    man.render_synopsis_section(&mut page)?;
    man.render_description_section(&mut page)?;
    man.render_options_section(&mut page)?;
    if command.has_subcommands() {
        man.render_subcommands_section(&mut page)?;
    }
    let mut examples = Roff::default();
    examples.control("SH", ["EXAMPLES"]);
    for (_, line) in EXAMPLES.iter().filter(|(page, _)| *page == name) {
        examples.control("PP", []);
        examples.control("EX", []);
        examples.text([roman(*line)]);
        examples.control("EE", []);
    }
    examples.to_writer(&mut page)?;
    if command.get_after_long_help().is_some() || command.get_after_help().is_some() {
        man.render_extra_section(&mut page)?;
    }
    if command.get_version().is_some() {
        man.render_version_section(&mut page)?;
    }
    Ok(page)
}

/// Command lines by the page that shows them.
const EXAMPLES: &[(&str, &str)] = &[
    ("paravt-bench", "paravt-bench reproduce paravt-nano --out runs/nano"),
    ("paravt-bench", "paravt-bench run all --base-url http://localhost:8000/v1 --out runs/mine"),
    ("paravt-bench", "paravt-bench report runs/mine -o report"),
    (
        "paravt-bench-ask",
        "paravt-bench ask match.mp4 'When is the first goal?' --ground --backend candle --model weights/",
    ),
    ("paravt-bench-audit", "paravt-bench audit logs/samples_videomme.jsonl --split videomme"),
    ("paravt-bench-check", "paravt-bench check runs/new --baseline baseline.json --junit check.xml"),
    ("paravt-bench-check", "paravt-bench check runs/old --baseline baseline.json --write"),
    ("paravt-bench-compare", "paravt-bench compare runs/notool runs/mine -o comparison"),
    ("paravt-bench-data", "paravt-bench data check mlvu lvbench"),
    ("paravt-bench-data-check", "paravt-bench data check --decode --data /srv/videos"),
    ("paravt-bench-data-fetch", "paravt-bench data fetch mlvu --dry-run"),
    ("paravt-bench-data-fetch", "paravt-bench data fetch all --delete-archives"),
    ("paravt-bench-data-make", "paravt-bench data make --out world --videos 4 --seed 7"),
    ("paravt-bench-doctor", "paravt-bench doctor --for paravt-8b"),
    ("paravt-bench-export", "paravt-bench export runs/mine --to inspect --out logs"),
    ("paravt-bench-frames", "paravt-bench frames match.mp4 --nframes 16 --start 60 --end 90 --out frames"),
    (
        "paravt-bench-generate",
        "paravt-bench generate --messages question.json --base-url http://localhost:8000/v1 --json",
    ),
    ("paravt-bench-merge", "paravt-bench merge shards/1/mlvu shards/2/mlvu --out runs/mine/mlvu"),
    ("paravt-bench-protocol", "paravt-bench protocol import --from ParaVT"),
    (
        "paravt-bench-protocol-import",
        "paravt-bench protocol import --from https://github.com/EvolvingLMMs-Lab/ParaVT",
    ),
    ("paravt-bench-protocol-list", "paravt-bench protocol list"),
    ("paravt-bench-protocol-export", "paravt-bench protocol export native"),
    ("paravt-bench-protocol-show", "paravt-bench protocol show native mlvu --row 3"),
    ("paravt-bench-report", "paravt-bench report runs/mine runs/notool -o report"),
    ("paravt-bench-reproduce", "paravt-bench reproduce paravt-8b --limit 10 --out runs/paravt-8b"),
    ("paravt-bench-run", "paravt-bench run mlvu lvbench --base-url http://localhost:8000/v1 --out runs/mine"),
    (
        "paravt-bench-run",
        "paravt-bench run all --backend candle --model Qwen/Qwen3-VL-8B-Instruct --out runs/mine",
    ),
    ("paravt-bench-status", "paravt-bench status runs/paravt-8b"),
    ("paravt-bench-tasks", "paravt-bench tasks"),
];

#[cfg(test)]
mod tests {
    use clap::{CommandFactory as _, Parser as _};

    use super::*;
    use crate::Cli;

    fn names(command: &clap::Command, found: &mut Vec<String>) {
        found.push(command.get_display_name().unwrap_or_else(|| command.get_name()).to_owned());
        below(command).for_each(|command| names(command, found));
    }

    #[test]
    fn every_page_has_an_example_that_the_command_accepts() {
        let mut command = Cli::command();
        command.build();
        let mut pages = Vec::new();
        names(&command, &mut pages);
        for page in &pages {
            assert!(EXAMPLES.iter().any(|(name, _)| name == page), "no example of {page}");
        }
        for (page, line) in EXAMPLES {
            assert!(pages.iter().any(|name| name == page), "no command {page}");
            let words = line.split(" > ").next().unwrap();
            let words = words.replace("'When is the first goal?'", "When?");
            if let Err(error) = Cli::try_parse_from(words.split(' ')) {
                panic!("{line}: {error}");
            }
        }
    }

    #[test]
    fn pages_are_written_for_commands_at_every_depth() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("man1");
        run(&Args { dir: folder.clone() }, Cli::command()).unwrap();
        let page = |name: &str| std::fs::read_to_string(folder.join(format!("{name}.1"))).unwrap();
        let top = page("paravt-bench");
        for heading in ["NAME", "SYNOPSIS", "OPTIONS", "SUBCOMMANDS", "EXAMPLES"] {
            assert!(top.contains(&format!(".SH {heading}\n")), "{top}");
        }
        assert!(top.contains("Exit codes"), "{top}");
        let fetch = page("paravt-bench-data-fetch");
        assert!(fetch.contains("\\-\\-delete\\-archives"), "{fetch}");
        assert!(!folder.join("paravt-bench-help.1").exists());
    }
}
