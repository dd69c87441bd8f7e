//! The `.eval` form of a log: a zip file.

use std::io::{self, Seek, Write};

use serde_json::{Map, Value, json};
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipWriter};

use super::super::ExportError;
use super::super::folder::Failure;

/// Fields of a sample that its summary has as well.
const SUMMARY: [&str; 8] = ["id", "epoch", "input", "choices", "target", "metadata", "scores", "total_time"];

/// Writes header, summaries and samples as members, one at a time. They are stored as they are: this build's zip does not
/// deflate, and JPEG images would not shrink.
pub(super) fn write(
    out: &mut (impl Write + Seek),
    header: &Value,
    samples: impl Iterator<Item = Result<Value, ExportError>>,
) -> Result<(), Failure> {
    let mut zip = ZipWriter::new(out);
    let mut put = |name: &str, text: &str| {
        let options = SimpleFileOptions::default().compression_method(CompressionMethod::Stored);
        zip.start_file(name, options).map_err(io::Error::other)?;
        zip.write_all(text.as_bytes())
    };
    let start = json!({ "version": header["version"], "eval": header["eval"], "plan": header["plan"] });
    put("_journal/start.json", &start.to_string())?;
    let mut summaries = String::from("[");
    for sample in samples {
        let sample = sample?;
        let id = sample["id"].as_str().unwrap_or_default();
        put(&format!("samples/{}_epoch_{}.json", member(id), sample["epoch"]), &sample.to_string())?;
        if summaries.len() > 1 {
            summaries.push(',');
        }
        summaries += &summary(&sample).to_string();
    }
    summaries.push(']');
    put("_journal/summaries/1.json", &summaries)?;
    put("summaries.json", &summaries)?;
    put("header.json", &header.to_string())?;
    zip.finish().map_err(io::Error::other)?;
    Ok(())
}

/// A sample's name in the name of its member. Inspect looks for it as it is; one that leads out of the folder, or has
/// characters that no name of a file should have, is written as in addresses.
fn member(id: &str) -> String {
    let is_odd = |c: char| c.is_control() || c == '\\';
    // What would look like an escaped one.
    let is_coded = id.split('%').skip(1).any(|rest| {
        rest.get(..2).is_some_and(|digits| digits.bytes().all(|digit| digit.is_ascii_hexdigit()))
    });
    if !is_coded && !id.contains(is_odd) && !id.split('/').any(|part| matches!(part, "" | "." | "..")) {
        return id.to_owned();
    }
    let write = |c: char| {
        if is_odd(c) || matches!(c, '/' | '%') { format!("%{:02X}", u32::from(c)) } else { c.to_string() }
    };
    id.chars().map(write).collect()
}

/// What a list of samples shows of one.
fn summary(sample: &Value) -> Value {
    let fields = SUMMARY.into_iter().filter_map(|name| Some((name.to_owned(), sample.get(name)?.clone())));
    let mut summary: Map<String, Value> = fields.collect();
    summary.insert("completed".to_owned(), json!(true));
    summary.insert("message_count".to_owned(), json!(sample["messages"].as_array().map(Vec::len)));
    if let Some(error) = sample.get("error") {
        summary.insert("error".to_owned(), error["message"].clone());
    }
    Value::Object(summary)
}

#[cfg(test)]
mod tests {
    use super::member;

    #[test]
    fn members_stay_below_the_folder_of_samples() {
        for (id, name) in [
            ("q1", "q1"),
            ("scene/7", "scene/7"),
            ("../../x", "..%2F..%2Fx"),
            ("/etc/x", "%2Fetc%2Fx"),
            ("a/../../x", "a%2F..%2F..%2Fx"),
            ("..\\x", "..%5Cx"),
            ("a\nb", "a%0Ab"),
            ("50% more", "50% more"),
            ("..%2F..%2Fx", "..%252F..%252Fx"),
        ] {
            assert_eq!(member(id), name);
        }
    }
}
