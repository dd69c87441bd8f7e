//! Texts that the upstream driver renders over made-up rows, by SHA-256 and length.

use std::path::Path;

use anyhow::Context as _;
use paravt_suite::data::Folders;
use paravt_suite::profile::Profile;
use paravt_suite::protocol::{PromptMode, Protocol, render};
use paravt_suite::sample::{QuestionKind, Sample};
use paravt_upstream::paravt;
use serde_json::{Value, json};

use super::Case;

/// Every text in the file, rendered with the imported protocol.
pub(super) fn cases(content: &Value) -> anyhow::Result<Vec<Case>> {
    let stored = paravt_files::cache_dir().map(|cache| paravt::import::RELEASE.stored(&cache)).transpose()?;
    let protocol = stored.flatten()
        .context("needs the upstream texts; run `paravt-bench protocol import --from <checkout of EvolvingLMMs-Lab/ParaVT>`")?;
    let subtitles = tempfile::tempdir().context("cannot make a temporary folder")?;
    for (name, text) in content["subtitles"].as_object().into_iter().flatten() {
        let file =
            Path::new(name).file_name().with_context(|| format!("subtitles `{name}`: not a file name"))?;
        let text = text.as_str().with_context(|| format!("subtitles `{name}`: expected a string"))?;
        std::fs::write(subtitles.path().join(file), text).context("cannot write subtitles")?;
    }
    let folders = Folders { videos: "videos".into(), subtitles: Some(subtitles.path().to_owned()) };
    let mut cases = Vec::new();
    for (mode, expected) in content["system"].as_object().into_iter().flatten() {
        let got = mode.parse::<PromptMode>().ok();
        let got = got.and_then(|mode| protocol.system_text(&mode).ok());
        cases.push(Case {
            function: "system".into(),
            input: mode.clone(),
            expected: fingerprint_of(expected),
            got: got.map(fingerprint),
        });
    }
    for entry in content["user"].as_array().context("`user`: expected a list")? {
        cases.push(user_case(entry, content, &folders, &protocol)?);
    }
    for (kind, expected) in content["force"].as_object().into_iter().flatten() {
        let kind_of = if kind == "charades" { QuestionKind::Grounding } else { QuestionKind::Choice };
        let force = render::force(&protocol, kind_of)?;
        let mut got = fingerprint(&force.text);
        let mut wanted = fingerprint_of(expected);
        got["max_tokens"] = force.max_tokens.into();
        wanted["max_tokens"] = expected["max_tokens"].clone();
        cases.push(Case { function: "force".into(), input: kind.clone(), expected: wanted, got: Some(got) });
    }
    Ok(cases)
}

fn user_case(entry: &Value, content: &Value, folders: &Folders, protocol: &Protocol) -> anyhow::Result<Case> {
    let text = |name: &str| entry[name].as_str().with_context(|| format!("a user entry has no `{name}`"));
    let (dataset, mode) = (text("dataset")?, text("mode")?);
    let row = entry["row"].as_u64().context("a user entry has no `row`")? as usize;
    let value =
        content["rows"][dataset][row].as_object().context("a user entry names a row that is not there")?;
    let task = paravt_tasks::select(&[dataset])?[0];
    let file = Path::new("rows");
    let sample =
        task.sample(file, row, value, Profile::Release)?.context("the row does not count under `release`")?;
    let sample = task.find_files(sample, file, folders, Profile::Release)?;
    let mode: PromptMode = mode.parse().map_err(anyhow::Error::msg)?;
    let name = sample.video_name();
    let rendered = render::user_text(protocol, &sample, &mode, &Profile::Release.switches(), &name, None)?;
    let mut expected = fingerprint_of(entry);
    let mut got = fingerprint(&rendered);
    for (key, ours) in
        [("upstream_gold", gold(&sample)), ("id", id(&sample, &entry["id"])), ("video", name.into())]
    {
        if entry.get(key).is_some() {
            expected[key] = entry[key].clone();
            got[key] = ours;
        }
    }
    Ok(Case {
        function: format!("user {dataset}"),
        input: format!("{mode}, row {row}"),
        expected,
        got: Some(got),
    })
}

fn gold(sample: &Sample) -> Value {
    match sample.gold.interval() {
        Some(span) => json!([span.start, span.end]),
        None => sample.gold.to_string().into(),
    }
}

/// Ids are numbers upstream where the row's index is the id.
fn id(sample: &Sample, expected: &Value) -> Value {
    if expected.is_number() {
        sample.id.parse::<u64>().map_or(Value::Null, Value::from)
    } else {
        sample.id.clone().into()
    }
}

fn fingerprint(text: &str) -> Value {
    json!({"sha256": paravt_files::sha256(text), "bytes": text.len()})
}

fn fingerprint_of(entry: &Value) -> Value {
    json!({"sha256": entry["sha256"], "bytes": entry["bytes"]})
}
