//! Protocols as files that a user writes: TOML, or JSON as a run directory's `protocol.json` has it.
//!
//! A file with `base` holds only what it changes of another protocol; tables are merged, every other value is
//! replaced, and no inherited text stands before one of the file ([`KindOf`]). Templates are written as text with slots in braces, `{{` and `}}` for braces themselves.
//! `suite/docs/protocols.md` shows some.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use paravt_files::read_text;
use serde_json::{Map, Value, json};

use super::{Fidelity, InvalidProtocol, KindOf, Protocol, Source, inherit};
use crate::fields::{self, FieldsError};

/// Bytes that a protocol file may have.
const MAX_FILE: u64 = 16 << 20;
/// [`Source::repository`] of a protocol that was read from a user's file.
pub const FROM_FILE: &str = "protocol file";

/// Why a protocol file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ProtocolFileError {
    /// It cannot be read, or a field is wrong.
    #[error(transparent)]
    Fields(#[from] FieldsError),
    /// `base` cannot be used.
    #[error("{path}: base: {message}", path = .path.display())]
    Base { path: PathBuf, message: String },
    /// A value is not one that works.
    #[error("{path}: {problem}", path = .path.display())]
    Invalid { path: PathBuf, problem: InvalidProtocol },
}

/// Reads a protocol; `base` gives the protocol that the file's `base` names, `kind_of` the kind of a split's questions:
/// the file's text for a kind goes before an inherited one for a split of that kind.
///
/// # Errors
/// The file cannot be read, is not a valid protocol, or has a text that no request can have; the message names the
/// field.
pub fn read(
    path: &Path,
    base: impl FnOnce(&str) -> Result<Protocol, String>,
    kind_of: KindOf<'_>,
) -> Result<Protocol, ProtocolFileError> {
    let format = |message: String| FieldsError::format(path, message);
    let text = read_text(path, MAX_FILE).map_err(|source| FieldsError::io(path, source))?;
    let is_json = path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("json"));
    let mut fields: Map<String, Value> = if is_json {
        serde_json::from_str(&text).map_err(|error| format(error.to_string()))?
    } else {
        toml::from_str(&text).map_err(|error| format(error.to_string()))?
    };
    let based = fields.shift_remove("base");
    let own = fields.clone();
    if let Some(name) = &based {
        let name = name.as_str().ok_or_else(|| format(format!("base: expected a name, found {name}")))?;
        if !fields.contains_key("name") {
            return Err(format("missing field `name`".to_owned()).into());
        }
        let based =
            base(name).map_err(|message| ProtocolFileError::Base { path: path.to_owned(), message })?;
        let mut whole = match serde_json::to_value(based) {
            Ok(Value::Object(whole)) => whole,
            other => unreachable!("a protocol is an object: {other:?}"),
        };
        let says = fields.get("agent").is_some_and(|own| own.get("fidelity").is_some());
        inherit::give_way(&mut whole, &fields, kind_of);
        merge(&mut whole, fields);
        if let Some(own) = whole.get_mut("agent").filter(|own| own.is_object() && !says) {
            own["fidelity"] = json!(Fidelity::Variant);
        }
        fields = whole;
    }
    let hash = paravt_files::sha256(&text);
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let source = Source {
        repository: FROM_FILE.to_owned(),
        commit: hash[..12].to_owned(),
        files: [(name, hash)].into(),
        pinned: true,
    };
    let mut protocol = with_source(fields, &source).map_err(format)?;
    let invalid = |problem| ProtocolFileError::Invalid { path: path.to_owned(), problem };
    protocol.check().map_err(invalid)?;
    if based.is_some() {
        inherit::settle_instructions(&mut protocol, &own);
    }
    // A file with its origin was written by this program: `protocol.json` of a run, an export.
    if !own.contains_key("source") {
        inherit::check_use(&protocol, &own, kind_of).map_err(invalid)?;
    }
    Ok(protocol)
}

/// A protocol of this project that is compiled in.
///
/// # Panics
/// The text is not a protocol.
pub fn built_in(toml: &str) -> Protocol {
    let source = Source {
        repository: "paravt-bench".to_owned(),
        commit: env!("CARGO_PKG_VERSION").to_owned(),
        files: BTreeMap::new(),
        pinned: true,
    };
    let parse = || {
        let fields = toml::from_str(toml).map_err(|error| error.to_string())?;
        let protocol = with_source(fields, &source)?;
        protocol.check().map_err(|problem| problem.to_string()).map(|()| protocol)
    };
    parse().unwrap_or_else(|error| panic!("{error}: a protocol that is compiled in parses"))
}

fn with_source(mut fields: Map<String, Value>, source: &Source) -> Result<Protocol, String> {
    fields.insert("source".to_owned(), json!(source));
    // One mode needs no name, and without a text it is an agent's.
    let system = fields.entry("system").or_insert_with(|| json!({ "agent": "" }));
    if let Some(mode) =
        system.as_object().filter(|modes| modes.len() == 1).and_then(|modes| modes.keys().next())
    {
        let mode = json!(mode);
        fields.entry("default_mode").or_insert(mode);
    }
    fields::deserialize(Value::Object(fields), ToString::to_string)
}

/// Objects are merged field by field; every other value is replaced.
fn merge(base: &mut Map<String, Value>, changes: Map<String, Value>) {
    for (name, change) in changes {
        match (base.get_mut(&name), change) {
            (Some(Value::Object(base)), Value::Object(change)) => merge(base, change),
            (_, change) => drop(base.insert(name, change)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::Profile;
    use crate::protocol::{OptionForm, PromptMode, Template, native, render};
    use crate::sample::QuestionKind;

    fn written(name: &str, text: &str) -> Result<Protocol, String> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(name);
        std::fs::write(&path, text).unwrap();
        let base = |name: &str| match name {
            "native" => Ok(native::protocol()),
            "special" => Ok(special()),
            other => Err(format!("no protocol {other}")),
        };
        let kind_of = |split: &str| match split {
            "videomme" | "mlvu" => Some(QuestionKind::Choice),
            "charades" => Some(QuestionKind::Grounding),
            _ => None,
        };
        read(&path, base, &kind_of).map_err(|error| error.to_string())
    }

    /// A protocol with texts of single splits, modes and dialects.
    fn special() -> Protocol {
        let mut special = native::protocol();
        for split in ["videomme", "mlvu", "charades", "of a task file"] {
            let text = format!("{split}: {{question}}{{options}}{{instruction}}{{duration_note}}");
            special.questions.insert(split.to_owned(), Template::parse(&text));
        }
        special.questions.insert("number".to_owned(), Template::parse("How many: {question}"));
        let form = OptionForm {
            line: Template::parse("({letter}) {option}"),
            separator: " ".into(),
            line_break: None,
        };
        special.option_forms.insert("mlvu".to_owned(), form);
        special
    }

    /// The names in a protocol's table of questions.
    fn questions(protocol: &Protocol) -> Vec<&str> {
        protocol.questions.keys().map(String::as_str).collect()
    }

    #[test]
    fn a_text_for_a_kind_goes_before_inherited_ones_for_splits_of_it() {
        let with = |questions: &str| {
            written("m.toml", &format!("name = \"m\"\nbase = \"special\"\n[questions]\n{questions}")).unwrap()
        };
        let choice = with("choice = \"Which? {question}{options}\"\nmlvu = \"Own: {question}{options}\"");
        assert_eq!(
            questions(&choice),
            ["charades", "choice", "grounding", "mlvu", "number", "of a task file", "open"]
        );
        let open = with("open = \"In words: {question}\"");
        assert_eq!(
            questions(&open),
            ["charades", "choice", "grounding", "mlvu", "of a task file", "open", "videomme"],
            "a number is asked openly"
        );
        let split = with("videomme = \"Own: {question}{options}\"");
        assert_eq!(questions(&split), questions(&special()), "a text for a split leaves the others alone");
    }

    #[test]
    fn options_and_calls_of_a_file_go_before_those_of_single_splits_and_dialects() {
        let lines = "option_line = \"{letter}: {option}\"\n[system]\nnative = \"Look.\"";
        let own = written("m.toml", &format!("name = \"m\"\nbase = \"special\"\n{lines}")).unwrap();
        assert_eq!(own.option_forms["mlvu"].line, own.option_line);
        assert_eq!(own.option_forms["mlvu"].separator, " ", "the file has no other one");
        let chat = own.chat_tools.unwrap();
        assert_eq!(
            chat.system.keys().map(PromptMode::as_str).collect::<Vec<_>>(),
            ["agentic_general", "agentic_minimal"]
        );
    }

    #[test]
    fn instructions_of_a_file_go_before_inherited_ones_under_every_profile() {
        let asked = |instructions: &str, mode: &'static str| {
            let text = format!("name = \"m\"\nbase = \"native\"\n[instructions]\n{instructions}");
            let protocol = written("m.toml", &text).unwrap();
            let sample = crate::fixtures::sample("u");
            Profile::ALL.map(|profile| {
                let mode = PromptMode::named(mode);
                let text =
                    render::user_text(&protocol, &sample, &mode, &profile.switches(), "v", None).unwrap();
                text.lines().last().unwrap().to_owned()
            })
        };
        let inherited = asked("other = \"x\"\nneutral = \"x\"", "native");
        assert_eq!(inherited, ["x"; 3], "the inherited neutral text of modes with the tool has given way");
        for mode in ["direct", "reasoning", "native"] {
            assert_eq!(asked(&format!("{mode} = \"Own.\""), mode), ["Own."; 3]);
            assert_eq!(asked("other = \"Own.\"", mode), ["Own."; 3]);
            assert_eq!(asked(&format!("other = \"Rest.\"\n{mode} = \"Own.\""), mode), ["Own."; 3]);
        }
        assert_eq!(asked("neutral_agentic = \"Own.\"", "native"), ["Own."; 3]);
        // Between texts of the file the profile decides.
        let both = "native = \"Release.\"\nneutral_agentic = \"Strict.\"";
        assert_eq!(asked(both, "native"), ["Release.", "Release.", "Strict."]);
        // What the file does not name stays as it is.
        let others = native::protocol();
        let sample = crate::fixtures::sample("u");
        let text = |protocol: &Protocol, profile: Profile| {
            let mode = PromptMode::named("agentic_general");
            render::user_text(protocol, &sample, &mode, &profile.switches(), "v", None).unwrap()
        };
        let own =
            written("m.toml", "name = \"m\"\nbase = \"native\"\n[instructions]\nnative = \"Own.\"").unwrap();
        assert!(Profile::ALL.iter().all(|profile| text(&own, *profile) == text(&others, *profile)));
    }

    #[test]
    fn a_file_that_beats_no_inherited_text_has_the_hash_of_its_merged_fields() {
        let own = written("m.toml", "name = \"m\"\nbase = \"native\"\ncall_error = \"{reason}\"").unwrap();
        let by_hand =
            Protocol { name: "m".into(), call_error: Template::parse("{reason}"), ..native::protocol() };
        assert_eq!(own.hash(), by_hand.hash());
        let again = written("protocol.json", &serde_json::to_string(&own).unwrap()).unwrap();
        assert_eq!(again.hash(), own.hash());
    }

    const WATCH: &str = r#"
        name = "mine"
        base = "native"
        default_mode = "watch"
        call_error = "{{{reason}}}"
        [tool]
        modes = ["watch"]
        [system]
        watch = "Watch {closely}."
        [instructions]
        watch = "One letter."
    "#;

    #[test]
    fn a_file_adds_a_mode_to_another_protocol() {
        let protocol = written("mine.toml", WATCH).unwrap();
        let watch = PromptMode::named("watch");
        assert_eq!(protocol.system_text(&watch).unwrap(), "Watch {closely}.", "a system text has no slots");
        assert_eq!(protocol.instructions.modes[&watch], "One letter.");
        assert_eq!(protocol.call_error.render(&[("reason", "r")]).unwrap(), "{r}");
        assert!(protocol.offers_tool(&watch) && !protocol.offers_tool(&native::protocol().default_mode));
        assert_eq!(protocol.system.len(), native::protocol().system.len() + 1);
        assert_eq!(protocol.source.files.keys().collect::<Vec<_>>(), ["mine.toml"], "no path");
    }

    #[test]
    fn a_protocol_that_was_written_is_read_back_with_its_hash() {
        let text = serde_json::to_string(&native::protocol()).unwrap();
        let protocol = written("protocol.json", &text).unwrap();
        assert_eq!(protocol.hash(), native::protocol().hash());
    }

    #[test]
    fn every_field_but_the_default_mode_and_the_source_is_in_the_hash() {
        let base = written("mine.toml", WATCH).unwrap().hash();
        for (from, to) in [
            ("[\"watch\"]", "[\"watch\", \"direct\"]"),
            ("[tool]", "[chat_tools.definition.function]\nname = \"look\"\n[tool]\nname = \"look\""),
            ("[tool]", "[tool]\nstart = [\"start_time\"]"),
            ("[tool]", "[tool]\nmax_frames = 8"),
            ("[tool]", "[tool]\ndefault_seconds = 4.0"),
            ("[tool]", "[tool]\ntoo_large = \"too large\""),
            ("name =", "option_separator = \"; \"\nname ="),
            ("closely", "well"),
            ("One letter", "A letter"),
        ] {
            assert_ne!(written("mine.toml", &WATCH.replace(from, to)).unwrap().hash(), base, "{to}");
        }
        let other = WATCH.replace("default_mode = \"watch\"", "default_mode = \"direct\"");
        assert_eq!(written("other.toml", &other).unwrap().hash(), base);
    }

    #[test]
    fn invalid_protocols_are_refused_by_file_and_field() {
        let problem = |from: &str, to: &str| {
            let text = WATCH.replace(from, to);
            assert_ne!(text, WATCH, "{from}");
            let problem = written("mine.toml", &text).unwrap_err();
            assert!(problem.contains("mine.toml: "), "{problem}");
            problem
        };
        for (from, to, words) in [
            ("base = \"native\"", "base = \"nativ\"", "base: no protocol nativ"),
            ("base = \"native\"", "", "missing field"),
            ("name = \"mine\"", "", "missing field `name`"),
            ("name = \"mine\"", "name = \"mine\"\nforces = 1", "unknown field `forces`"),
            ("name = \"mine\"", "name = \"mine\"\nforces = 1", "did you mean `force`?"),
            ("[tool]", "[tool]\nnames = \"look\"", "tool: unknown field `names`"),
            ("name = \"mine\"", "name = ", "line 2"),
            ("[\"watch\"]", "[\"wach\"]", "tool.modes: protocol mine has no mode wach"),
            ("[\"watch\"]", "[\"wach\"]", "did you mean `watch`?"),
            ("watch = \"One", "wach = \"One", "instructions: protocol mine has no mode wach"),
            ("= \"watch\"", "= \"Watch\"", "prompt mode `Watch`"),
            ("{{{reason}}}", "{why}", "call_error: unknown slot `{why}`: it has {reason}"),
            ("{{{reason}}}", "{reason", "`{` without `}`"),
            ("{{{reason}}}", "", "`call_error` answer its calls: one of them is missing"),
            ("[tool]", "[tool]\nname = \"look\"", "chat_tools.definition.function.name: expected"),
            ("[tool]", "[tool]\nstart = [\"from\"]", "tool.start: chat_tools.definition has no parameter"),
            ("[tool]", "[tool]\nmax_frames = 0", "tool.max_frames: expected a positive number"),
            ("[tool]", "[tool]\ndefault_seconds = -1.0", "tool.default_seconds: expected a positive number"),
        ] {
            let found = problem(from, to);
            assert!(found.contains(words), "{found}");
        }
        let missing = read(Path::new("nowhere.toml"), |_| unreachable!(), &|_| None).unwrap_err().to_string();
        assert!(missing.starts_with("nowhere.toml: "), "{missing}");
        let mut silent = native::protocol();
        silent.duration_note = None;
        let problem = silent.check().unwrap_err().to_string();
        assert!(problem.contains("slot `{duration_note}` needs the text"), "{problem}");
    }
}
