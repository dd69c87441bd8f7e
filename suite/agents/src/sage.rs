//! SAGE (allenai/SAGE b5d9c93): the text of its first conversation, for ParaVT's mode of that name.
//!
//! The authors' own loop needs a web search, a speech recogniser and a second model, and evaluates none of the suite's
//! splits: it is not part of the suite.

use paravt_python::{PyValue, dumps};
use paravt_suite::protocol::{AgentLoop, Fidelity, Protocol, Shape, Source};
use paravt_upstream::import::parts::{Parts, protocol, questions};
use paravt_upstream::import::{ImportError, Pinned, Release, Text, Texts};

use crate::agent::Agent;

/// SAGE: its text.
pub(crate) const AGENT: Agent = Agent { reference: None, releases: &[&RELEASE] };

const CONTEXT: &str = "sage/prompts/sage/context_vlm.txt";
/// Tools in the order in which the model reads of them: those that need no other service.
const TOOLS: [&str; 3] = [
    "sage/src/functions/tools/extract.py", "sage/src/functions/tools/reason.py",
    "sage/src/functions/tools/temporal.py",
];

/// The release: its text, and the tools that are listed in it.
pub static RELEASE: Release = Release {
    name: "sage",
    repository: "allenai/SAGE",
    commit: "b5d9c932b25fcbdbb80e7ae9ffb0cd741308bee8",
    files: &[
        Pinned::new(CONTEXT, "fa8c38891d3640d234c1852a57b8c3a03a46fad5fb29a4c8d6232dec87722cb3"),
        Pinned::new(TOOLS[0], "05bf3f698949ea5dea823903ffcb667437865b38d286dc7a70abd3df17b543b7"),
        Pinned::new(TOOLS[1], "9fadf198ca998cf6f15b1211ef94b593c3ed9db8eb91f0fdda7ea803af31de4a"),
        Pinned::new(TOOLS[2], "b92c093406d7e638ad994506dfabf4c554474dedd5b63d19f316d0e4c3315bb9"),
    ],
    texts: &[
        Text::raw("context", CONTEXT, 0..1042),
        Text::raw("extract", TOOLS[0], 420..577),
        Text::raw("extract.video_path", TOOLS[0], 609..631),
        Text::raw("extract.timestamp_start", TOOLS[0], 657..683),
        Text::raw("extract.timestamp_end", TOOLS[0], 707..731),
        Text::raw("extract.extract_type", TOOLS[0], 754..784),
        Text::raw("reason", TOOLS[1], 257..397),
        Text::raw("reason.query", TOOLS[1], 424..444),
        Text::raw("reason.media_paths", TOOLS[1], 466..499),
        Text::raw("identify", TOOLS[2], 559..854),
        Text::raw("identify.video_path", TOOLS[2], 886..908),
        Text::raw("identify.event", TOOLS[2], 924..952),
        Text::raw("identify.timestamp_start", TOOLS[2], 978..1053),
        Text::raw("identify.timestamp_end", TOOLS[2], 1077..1150),
    ],
    make,
};

/// Functions as the text lists them: the name of each, its text's here, and its parameters with their types and defaults.
/// What a subscripted type holds is not in them.
const FUNCTIONS: [(&str, &str, &[Parameter]); 3] = [
    (
        "extract_parts_from_timestamp",
        "extract",
        &[
            ("video_path", "string", None),
            ("timestamp_start", "string", None),
            ("timestamp_end", "string", None),
            ("extract_type", "string", Some("frames")),
        ],
    ),
    ("perform_reasoning", "reason", &[("query", "string", None), ("media_paths", "any", None)]),
    (
        "identify_timestamps_visually",
        "identify",
        &[
            ("video_path", "string", None),
            ("event", "string", None),
            ("timestamp_start", "string", None),
            ("timestamp_end", "string", None),
        ],
    ),
];

/// Name, type, default.
type Parameter = (&'static str, &'static str, Option<&'static str>);

fn text(text: impl Into<String>) -> PyValue {
    PyValue::Str(text.into())
}

fn dict<const N: usize>(items: [(&str, PyValue); N]) -> PyValue {
    PyValue::Dict(items.map(|(key, value)| (key.to_owned(), value)).into())
}

/// A function as `_get_function_info` describes it.
fn function(texts: &Texts, name: &str, key: &str, parameters: &[Parameter]) -> Result<PyValue, ImportError> {
    let (mut properties, mut required) = (Vec::new(), Vec::new());
    for (parameter, kind, default) in parameters {
        let description = texts.text(&format!("{key}.{parameter}"))?;
        let mut property =
            vec![("type".to_owned(), text(*kind)), ("description".to_owned(), text(description))];
        match default {
            None => required.push(text(*parameter)),
            Some(default) => property.push(("default".to_owned(), text(*default))),
        }
        properties.push(((*parameter).to_owned(), PyValue::Dict(property)));
    }
    let parameters = dict([
        ("type", text("object")),
        ("properties", PyValue::Dict(properties)),
        ("required", PyValue::List(required)),
    ]);
    // A docstring without its indentation.
    let description = texts.text(key)?.replace("\n    ", "\n");
    let described =
        dict([("name", text(name)), ("description", text(description)), ("parameters", parameters)]);
    Ok(dict([("type", text("function")), ("function", described)]))
}

fn make(texts: &Texts, source: Source) -> Result<Protocol, ImportError> {
    let mut system = texts.text("context")? + "<tools>\n";
    for (name, key, parameters) in FUNCTIONS {
        system.push_str(&dumps(&function(texts, name, key, parameters)?, false));
        system.push('\n');
    }
    system.push_str("</tools>");
    Ok(protocol(Parts {
        name: RELEASE.name,
        source,
        system,
        tool: ("perform_reasoning", 128),
        questions: questions([]),
        agent: AgentLoop::new(Fidelity::Variant, Shape::OneTurn),
        max_tokens: 32_768,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_lists_the_tools_in_the_order_of_their_files() {
        let words = RELEASE.texts.iter().map(|text| (text.name(), format!("the {}\n    here", text.name())));
        let made = RELEASE.with_texts(&Texts::of(words)).unwrap();
        let system = made.system.values().next().unwrap();
        let lines: Vec<&str> = system.lines().collect();
        assert_eq!(
            (lines[0], lines[1], lines[5]),
            ("the context", "    here<tools>", "</tools>"),
            "{system}"
        );
        let media = r#"{"type": "function", "function": {"name": "perform_reasoning", "description": "the reason\nhere", "#;
        assert!(lines[3].starts_with(media), "{system}");
        assert!(
            lines[4].contains(r#""required": ["video_path", "event", "timestamp_start", "timestamp_end"]"#)
        );
    }
}
