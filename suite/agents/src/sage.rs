//! SAGE (allenai/SAGE b5d9c93): the text of its first conversation, for ParaVT's mode of that name.
//!
//! The authors' own loop needs a web search, a speech recogniser and a second model, and evaluates none of the suite's
//! splits: it is not part of the suite.

use paravt_python::{PyValue, dumps};
use paravt_suite::protocol::{AgentLoop, Fidelity, Protocol, Source};
use paravt_upstream::import::parts::{Parts, protocol, questions, shape};
use paravt_upstream::import::shapes::Module;
use paravt_upstream::import::{Files, ImportError, Pinned, Release};

use crate::agent::Agent;

/// SAGE: its text.
pub const AGENT: Agent = Agent { reference: None, releases: &[&RELEASE] };

const CONTEXT: &str = "sage/prompts/sage/context_vlm.txt";
/// Tools in the order in which the model reads of them: those that need no other service.
const TOOLS: [&str; 3] = [
    "sage/src/functions/tools/extract.py",
    "sage/src/functions/tools/reason.py",
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
    make,
};

/// The tools as the text lists them.
fn tools(files: &Files) -> Result<String, ImportError> {
    let mut lines = Vec::new();
    for file in TOOLS {
        for schema in Module::parse(file, files.required(file)?)?.schemas() {
            let kind = ("type".to_owned(), PyValue::Str("function".to_owned()));
            lines.push(dumps(&PyValue::Dict(vec![kind, ("function".to_owned(), schema)]), false));
        }
    }
    Ok(format!("<tools>\n{}\n</tools>", lines.join("\n")))
}

fn make(files: &Files, source: Source) -> Result<Protocol, ImportError> {
    let text = files.required(CONTEXT)?;
    // Its slots stand between such marks; it has this one.
    let slots = |text: &str| text.matches("<<<").count();
    if slots(text) == 0 || slots(text) != text.matches("<<<tools>>>").count() {
        return Err(shape(CONTEXT, "no other slot than `tools`"));
    }
    Ok(protocol(Parts {
        name: RELEASE.name,
        source,
        system: text.replace("<<<tools>>>", &tools(files)?),
        tool: ("perform_reasoning", 128),
        questions: questions([]),
        agent: AgentLoop::new(Fidelity::Variant, 1),
        max_tokens: 32_768,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_lists_the_tools_in_the_order_of_their_files() {
        let mut files = Files { texts: [].into(), commit: "no commit".to_owned() };
        files.texts.insert(CONTEXT, "Use\n<<<tools>>>\nwell.".to_owned());
        for (place, file) in TOOLS.into_iter().enumerate() {
            files.texts.insert(file, format!("def tool{place}(path: str):\n    pass\n"));
        }
        let text = RELEASE.import(&files, true).unwrap().system.values().next().unwrap().clone();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(
            (lines[0], lines[1], lines[5], lines[6]),
            ("Use", "<tools>", "</tools>", "well."),
            "{text}"
        );
        assert!((0..3).all(|place| lines[place + 2].contains(&format!("tool{place}"))), "{text}");
        files.texts.insert(CONTEXT, "<<<tools>>> <<<other>>>".to_owned());
        assert!(RELEASE.import(&files, true).is_err());
    }
}
