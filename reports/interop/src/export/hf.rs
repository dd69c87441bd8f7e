//! The Hugging Face hub: results for a model's page, and a dataset of samples and tool calls. Nothing is uploaded.
//!
//! Fields of `.eval_results/*.yaml` are those of huggingface_hub ee0a451 `src/huggingface_hub/_eval_results.py`. A result
//! with tools has the note `With tools`, one without has none.

use std::collections::BTreeMap;

use paravt_reports::export::{as_parquet, escape};
use paravt_reports::table::Table;
use paravt_reports::tables;
use paravt_reports::terminal::counted;
use paravt_suite::profile::Profile;
use serde_json::json;

use super::ExportError;
use super::evaluation::Evaluation;
use super::folder::Folder;
use crate::names::file_name;

pub(super) fn write(evaluations: &[Evaluation<'_>], folder: &mut Folder) -> Result<(), ExportError> {
    evaluations.iter().try_for_each(check)?;
    let mut models: BTreeMap<&str, Vec<&Evaluation<'_>>> = BTreeMap::new();
    evaluations.iter().for_each(|evaluation| models.entry(&evaluation.model).or_default().push(evaluation));
    for (model, evaluations) in models {
        let base = file_name(model);
        for evaluation in &evaluations {
            let tools = if evaluation.run.manifest.offers_tool { "_with_tools" } else { "" };
            let name = format!("{base}/model/.eval_results/{}{tools}.yaml", file_name(evaluation.task()));
            folder.put(&name, result(evaluation)?.as_bytes())?;
        }
        let mut tables = tables::records(evaluations.iter().map(|evaluation| evaluation.run));
        // `datasets` loads no file without rows.
        tables.retain(|table| table.frame.height() > 0);
        for table in &tables {
            folder.put(&format!("{base}/dataset/{}.parquet", table.name), &as_parquet(table)?)?;
        }
        folder.put(&format!("{base}/dataset/README.md"), card(model, &evaluations, &tables).as_bytes())?;
        let [model_dir, dataset_dir] = ["model", "dataset"]
            .map(|name| folder.path(&format!("{base}/{name}")).to_string_lossy().into_owned())
            // A path that begins with a dash would be read as a flag.
            .map(|path| if path.starts_with('-') { format!("./{path}") } else { path });
        let dataset = format!("{model}-paravt-bench");
        // The model's name is a server's word, and the lines are there to be pasted into a shell.
        folder.exported.commands.extend(shlex::try_join([
            "hf",
            "upload",
            model,
            &model_dir,
            ".",
            "--create-pr",
        ]));
        let words = ["hf", "upload", &dataset, &dataset_dir, ".", "--repo-type", "dataset"];
        folder.exported.commands.extend(shlex::try_join(words));
    }
    Ok(())
}

/// Refuses a run whose number is not that of the whole published split.
fn check(evaluation: &Evaluation<'_>) -> Result<(), ExportError> {
    let (manifest, summary) = (&evaluation.run.manifest, evaluation.summary());
    let (rows, expected) = (manifest.selection.split_rows, manifest.selection.sizes.expected);
    let published = [manifest.task.expected_rows, manifest.task.paper_rows];
    let why = if evaluation.model.split('/').count() != 2 {
        return Err(ExportError::NoOrganisation {
            run: evaluation.name(),
            format: "the hub",
            model: evaluation.model.clone(),
        });
    } else if summary.n_recorded < expected {
        format!("{} of {expected} samples are recorded; continue it with --resume", summary.n_recorded)
    } else if summary.n_errors > 0 {
        format!(
            "{} failed; repair the cause and continue it with --resume",
            counted(summary.n_errors, "sample")
        )
    } else if expected < rows {
        format!("it has {expected} of the {rows} samples of the split; run the whole split")
    } else if !published.contains(&rows) {
        format!("the data have {rows} rows, the published split {}", manifest.task.expected_rows)
    } else if manifest.plan.profile() == Profile::Release {
        "the profile `release` keeps mistakes of the released code; run it under `strict` or `paper`"
            .to_owned()
    } else {
        return Ok(());
    };
    Err(ExportError::NotPublishable { run: evaluation.name(), why })
}

/// The list of one result. A JSON string is a YAML string.
fn result(evaluation: &Evaluation<'_>) -> Result<String, ExportError> {
    let (manifest, summary) = (&evaluation.run.manifest, evaluation.summary());
    let hub = &manifest.task.hub;
    let Some(id) = hub.repos.first() else {
        let why = "its task names no dataset of the hub".to_owned();
        return Err(ExportError::NotPublishable { run: evaluation.name(), why });
    };
    let task = hub.config.as_ref().unwrap_or(&manifest.task.name);
    let mut yaml = format!("- dataset:\n    id: {}\n    task_id: {}\n", json!(id), json!(task));
    if let Some(revision) = &manifest.data_revision {
        yaml += &format!("    revision: {}\n", json!(revision));
    }
    let percent = 100.0 * summary.headline().value;
    let date = evaluation.ended().format("%Y-%m-%dT%H:%M:%SZ").to_string();
    yaml += &format!("  value: {percent:.2}\n  date: {}\n", json!(date));
    if manifest.offers_tool {
        yaml += "  notes: \"With tools\"\n";
    }
    Ok(yaml)
}

/// The dataset's card.
fn card(model: &str, evaluations: &[&Evaluation<'_>], tables: &[Table]) -> String {
    let mut text = "---\nconfigs:\n".to_owned();
    for Table { name, .. } in tables {
        text += &format!("- config_name: {name}\n  data_files: {name}.parquet\n");
    }
    text += &format!(
        "tags:\n- evaluation\n---\n\n# {model}: evaluation by paravt-bench\n\n`samples` has one row per sample, `calls` one \
         per tool call.\n\n| split | run | profile | protocol | metric | score | 95 % interval | N |\n\
         |---|---|---|---|---|--:|---|--:|\n"
    );
    for evaluation in evaluations {
        let (manifest, headline) = (&evaluation.run.manifest, evaluation.summary().headline());
        let interval = evaluation.cell.interval;
        let interval = interval.map(|(low, high)| format!("{:.2} to {:.2}", 100.0 * low, 100.0 * high));
        let hash: String = manifest.protocol_hash.chars().take(12).collect();
        let protocol = format!("{} ({hash})", escape(&manifest.protocol));
        text += &format!(
            "| {} | {} | {} | {} | {} | {:.2} | {} | {} |\n",
            escape(&manifest.task.title),
            escape(&manifest.display_name()),
            manifest.plan.profile(),
            protocol,
            headline.name,
            100.0 * headline.value,
            interval.unwrap_or_default(),
            evaluation.summary().n,
        );
    }
    text
}
