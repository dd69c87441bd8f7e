//! The answer key of a JSON reply.

use serde_json::Value;

use super::Said::{self, Nothing, One, Open};
use super::alone::short;
use crate::scoring::strict::options::Options;
use crate::scoring::strict::reply::plain;

/// The answer key of an object, or of the only object of a list.
pub(super) fn in_json(value: &Value, options: &Options) -> Said {
    const KEYS: [&str; 26] = [
        "result", "response", "output", "final", "antwort", "réponse", "respuesta", "resposta", "answer",
        "finalanswer", "correctanswer", "choice", "finalchoice", "option", "correctoption", "selected",
        "selectedoption", "selectedanswer", "selectedchoice", "prediction", "predictedanswer", "ans",
        "letter", "答案", "选项", "回答",
    ];
    /// Beside an answer key: what must not contradict it.
    const TEXTS: [&str; 4] = ["text", "answertext", "optiontext", "content"];
    /// Parts of keys of what is not the answer.
    const OTHERS: [&str; 9] =
        ["wrong", "incorrect", "false", "not", "reject", "exclud", "eliminat", "previous", "second"];
    if let Some(letters) = judged_right(value, options) {
        return match letters[..] {
            [letter] => One(letter, "json"),
            _ => Open,
        };
    }
    match value {
        Value::String(text) => short(&plain(text), options),
        Value::Number(number) => short(&number.to_string(), options),
        Value::Array(all) => match &all[..] {
            [one] => in_json(one, options),
            several => {
                let found = several.iter().filter(|value| in_json(value, options) != Nothing).count();
                if found > 1 { Open } else { Nothing }
            }
        },
        Value::Object(fields) => {
            let key = |name: &str| name.to_lowercase().replace(['_', '-', ' '], "");
            let answers = fields.iter().filter(|(name, _)| KEYS.contains(&key(name).as_str()));
            let mut said: Vec<Said> =
                answers.map(|(_, value)| in_json(value, options)).filter(|said| *said != Nothing).collect();
            if !said.is_empty() {
                let texts = fields.iter().filter(|(name, _)| TEXTS.contains(&key(name).as_str()));
                said.extend(texts.map(|(_, value)| in_json(value, options)).filter(|said| *said != Nothing));
            }
            match said[..] {
                [] if fields.len() == 1 => {
                    let only = fields
                        .iter()
                        .next()
                        .filter(|(name, _)| !OTHERS.iter().any(|other| key(name).contains(other)));
                    only.map_or(Nothing, |(_, value)| in_json(value, options))
                }
                [] => Nothing,
                [One(letter, _), ref rest @ ..]
                    if rest.iter().all(|said| matches!(said, One(other, _) if *other == letter)) =>
                {
                    One(letter, "json")
                }
                _ => Open,
            }
        }
        _ => Nothing,
    }
}

/// Letters that JSON calls right where it judges several options: `{"A": false, "B": true}`, or a list of such objects.
pub(super) fn judged_right(value: &Value, options: &Options) -> Option<Vec<char>> {
    const RIGHT: [&str; 5] = ["true", "correct", "right", "yes", "✓"];
    const WRONG: [&str; 6] = ["false", "incorrect", "wrong", "no", "✗", "not correct"];
    let verdict = |value: &Value| {
        let text = value.as_bool().map(|right| right.to_string());
        let text = text.or_else(|| value.as_str().map(str::to_lowercase))?;
        if RIGHT.contains(&text.as_str()) {
            Some(true)
        } else {
            WRONG.contains(&text.as_str()).then_some(false)
        }
    };
    let letter = |text: &str| match short(&plain(text), options) {
        One(letter, _) => Some(letter),
        _ => None,
    };
    let judged: Option<Vec<(char, bool)>> = match value {
        Value::Object(fields) => {
            fields.iter().map(|(name, value)| Some((letter(name)?, verdict(value)?))).collect()
        }
        Value::Array(all) => all
            .iter()
            .map(|one| {
                let fields = one.as_object()?;
                let label = fields.values().filter_map(Value::as_str).find_map(letter)?;
                Some((label, fields.values().find_map(verdict)?))
            })
            .collect(),
        _ => None,
    };
    let judged = judged.filter(|judged| judged.len() > 1)?;
    Some(judged.into_iter().filter(|(_, right)| *right).map(|(letter, _)| letter).collect())
}
