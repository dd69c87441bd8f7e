//! Precedence in a file with `base`: what the file says goes before what it inherits, also where the inherited text
//! is the more special one (of a split, a profile, a dialect). What could never reach a model is refused.

use serde_json::{Map, Value};

use super::{AgentLoop, Instructions, InvalidProtocol, Protocol, Template};
use crate::sample::QuestionKind;

/// The kind of the questions of a split, of those that are known.
pub type KindOf<'a> = &'a dyn Fn(&str) -> Option<QuestionKind>;

/// Tables of texts by split, else by kind.
const BY_SPLIT: [&[&str]; 5] =
    [&["questions"], &["force"], &["agent", "round"], &["agent", "last"], &["agent", "continued"]];

/// A field, and what stands in its place in single splits or for long videos.
const SPECIAL: [(&[&str], &[&str]); 5] = [
    (&["max_tokens"], &["agent", "harness", "max_tokens"]),
    (&["agent", "opening"], &["agent", "harness", "openings"]),
    (&["agent", "frames", "overview"], &["agent", "frames", "long"]),
    (&["agent", "frames", "size"], &["agent", "frames", "long"]),
    (&["system"], &["agent", "tries", "system"]),
];

/// Takes out of the fields of a base what would stand before a field of the file.
pub(super) fn give_way(base: &mut Map<String, Value>, own: &Map<String, Value>, kind_of: KindOf<'_>) {
    if let (Some(round), None) = (at(own, &["agent", "round"]), at(own, &["agent", "last"])) {
        again_in_the_last_turn(base, round, kind_of);
    }
    for path in BY_SPLIT {
        if let (Some(own), Some(base)) = (table(own, path), table_mut(base, path)) {
            base.retain(|name, _| own.contains_key(name) || !own.keys().any(|key| is_of(name, key, kind_of)));
        }
    }
    for (general, special) in SPECIAL {
        if at(own, general).is_some() && at(own, special).is_none() {
            let (last, parents) = special.split_last().expect("no path is empty");
            if let Some(parent) = table_mut(base, parents) {
                parent.shift_remove(*last);
            }
        }
    }
    if let (Some(modes), Some(chat)) = (table(own, &["system"]), table_mut(base, &["chat_tools", "system"])) {
        chat.retain(|mode, _| !modes.contains_key(mode));
    }
    for (general, part) in [("option_line", "line"), ("option_separator", "separator")] {
        if let (Some(text), Some(forms)) = (own.get(general), table_mut(base, &["option_forms"])) {
            forms.values_mut().for_each(|form| form[part] = text.clone());
        }
    }
}

/// A question of later turns is that of the last one, where the file has no other.
fn again_in_the_last_turn(base: &mut Map<String, Value>, round: &Value, kind_of: KindOf<'_>) {
    let last = table_mut(base, &["agent", "last"]).filter(|last| !last.is_empty());
    if let (Some(last), Some(round)) = (last, round.as_object()) {
        last.retain(|name, _| !round.keys().any(|key| is_of(name, key, kind_of)));
        last.extend(round.clone());
    }
}

/// Whether `name`, a split or a kind, is more special than the kind `key` that is looked for after it.
fn is_of(name: &str, key: &str, kind_of: KindOf<'_>) -> bool {
    let keys = QuestionKind::ALL.map(QuestionKind::text_keys);
    let after_kind =
        keys.iter().filter_map(|keys| keys.iter().position(|known| *known == name).map(|at| &keys[at + 1..]));
    let after_split = kind_of(name).map(QuestionKind::text_keys);
    after_kind.chain(after_split).any(|after| after.contains(&key))
}

fn at<'a>(fields: &'a Map<String, Value>, path: &[&str]) -> Option<&'a Value> {
    let (first, rest) = path.split_first()?;
    rest.iter().try_fold(fields.get(*first)?, |value, name| value.get(name))
}

fn table<'a>(fields: &'a Map<String, Value>, path: &[&str]) -> Option<&'a Map<String, Value>> {
    at(fields, path)?.as_object()
}

fn table_mut<'a>(fields: &'a mut Map<String, Value>, path: &[&str]) -> Option<&'a mut Map<String, Value>> {
    path.iter().try_fold(fields, |table, name| table.get_mut(*name)?.as_object_mut())
}

/// Instructions of the file before inherited ones under every profile; between two of the file the profile decides.
pub(super) fn settle_instructions(protocol: &mut Protocol, own: &Map<String, Value>) {
    let Some(own) = table(own, &["instructions"]) else { return };
    let has = |name: &str| own.contains_key(name);
    let with_tool = protocol.tool.modes.clone();
    let Instructions { modes, other: _, neutral, neutral_agentic, always } = &mut protocol.instructions;
    if has("other") {
        modes.retain(|mode, _| has(mode.as_str()));
        neutral.take_if(|_| !has("neutral"));
        neutral_agentic.take_if(|_| !has("neutral_agentic"));
        return;
    }
    for mode in protocol.system.keys() {
        let (name, text) = match with_tool.contains(mode) {
            true => ("neutral_agentic", &*neutral_agentic),
            false => ("neutral", &*neutral),
        };
        let Some(text) = text else { continue };
        let (is_written, is_neutral) = (has(mode.as_str()), has(name));
        if is_written && !is_neutral && modes.get(mode) != Some(text) {
            always.insert(mode.clone());
        } else if is_neutral && !is_written {
            modes.insert(mode.clone(), text.clone());
        }
    }
}

/// Refuses texts of a file that no request can have.
pub(super) fn check_use(
    protocol: &Protocol,
    own: &Map<String, Value>,
    kind_of: KindOf<'_>,
) -> Result<(), InvalidProtocol> {
    check_slots(protocol, own)?;
    check_inherited_questions(protocol, own, kind_of)?;
    check_loop(protocol, own)
}

fn refuse<T>(field: &str, problem: String) -> Result<T, InvalidProtocol> {
    Err(InvalidProtocol { field: field.to_owned(), problem })
}

/// Parts of questions, which need a slot in one.
fn check_slots(protocol: &Protocol, own: &Map<String, Value>) -> Result<(), InvalidProtocol> {
    let frames = protocol.agent.as_ref().and_then(AgentLoop::frames);
    let later = frames.into_iter().flat_map(|frames| frames.round.values().chain(frames.last.values()));
    let questions: Vec<&Template> = protocol.questions.values().chain(later).collect();
    for (field, slot) in [
        ("instructions", "instruction"),
        ("option_line", "options"),
        ("option_separator", "options"),
        ("option_forms", "options"),
        ("subtitles_block", "subtitles_block"),
        ("duration_note", "duration_note"),
    ] {
        if own.contains_key(field) && !questions.iter().any(|text| text.has_slot(slot)) {
            let problem = format!("would never be sent: no question of the protocol has the slot {{{slot}}}");
            return refuse(field, problem);
        }
    }
    Ok(())
}

/// Parts that a file leaves out of its own questions if it likes; that an inherited one lacks them is not its will.
fn check_inherited_questions(
    protocol: &Protocol,
    own: &Map<String, Value>,
    kind_of: KindOf<'_>,
) -> Result<(), InvalidProtocol> {
    let is_own = |name: &str| table(own, &["questions"]).is_some_and(|written| written.contains_key(name));
    let general = |name: &str| QuestionKind::ALL.into_iter().find(|kind| kind.text_keys()[0] == name);
    for (field, slot, kinds) in [
        ("instructions", "instruction", &[QuestionKind::Choice][..]),
        ("duration_note", "duration_note", &QuestionKind::ALL[..]),
    ] {
        let mut questions = protocol.questions.iter();
        let is_placed = questions.any(|(name, text)| is_own(name) && text.has_slot(slot));
        let lacking = protocol.questions.iter().find(|(name, text)| {
            let kind = kind_of(name).or_else(|| general(name));
            !is_own(name) && !text.has_slot(slot) && kind.is_some_and(|kind| kinds.contains(&kind))
        });
        if let (true, false, Some((name, _))) = (own.contains_key(field), is_placed, lacking) {
            let problem = format!(
                "would not be sent: questions.{name} is inherited and has no slot {{{slot}}}; write that question, too"
            );
            return refuse(field, problem);
        }
    }
    Ok(())
}

/// Texts of a loop that the protocol does not run.
fn check_loop(protocol: &Protocol, own: &Map<String, Value>) -> Result<(), InvalidProtocol> {
    let (fields, why): (&[&str], _) = if protocol.agent.is_some() {
        let why = "an agent's own loop has no forced answer and no sub-agents";
        (&["force", "subagent_prompt", "subagent_response"], why)
    } else if protocol.tool.modes.is_empty() {
        let fields = &[
            "force", "crop_response", "crop_error", "call_error", "subagent_prompt", "subagent_response",
            "video_path", "chat_tools",
        ];
        (fields, "no mode offers the tool (tool.modes)")
    } else {
        return Ok(());
    };
    match fields.iter().find(|field| own.contains_key(**field)) {
        Some(field) => refuse(field, format!("would never be sent: {why}")),
        None => Ok(()),
    }
}
