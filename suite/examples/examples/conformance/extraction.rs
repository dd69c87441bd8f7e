//! `paravt/eval/utils.py` and `_score`.

use paravt_python::{PyValue, float};
use paravt_suite::sample::Gold;
use paravt_suite::span::TimeSpan;
use paravt_upstream::paravt::scoring;
use paravt_upstream::paravt::srt::parse_srt;
use paravt_upstream::paravt::toolcall::time_value;
use serde_json::{Value, json};

/// Our output, or `None` for a function that is not of this module.
pub(super) fn call(function: &str, value: &PyValue) -> Option<Value> {
    let input = &value.to_json();
    Some(match function {
        "extract_letter" => scoring::extract_letter(input.as_str()?).text.into(),
        "extract_time_from_response" => match scoring::extract_interval(input.as_str()?) {
            Ok(Some(found)) => json!([number(found.start), number(found.end)]),
            Ok(None) => Value::Null,
            Err(error) => json!({ "raises": error.to_string() }),
        },
        "parse_time_val" => match time_value(value) {
            Ok(value) => number(value),
            Err(error) => json!({ "raises": format!("OverflowError: {error}") }),
        },
        "temporal_iou" => number(scoring::temporal_iou(span(&input[0])?, span(&input[1])?)),
        "parse_srt" => parse_srt(input.as_str()?).into(),
        "driver._score(mcq)" => {
            let gold = Gold::Choice { answer: input[1].as_str()?.to_owned() };
            let score = scoring::score(&gold, input[0].as_str()?);
            json!([score.value == 1.0, score.value, score.prediction])
        }
        name => {
            let gold = name.strip_prefix("driver._score(tvg gt=")?.strip_suffix(')')?;
            let TimeSpan { start, end } = span(&serde_json::from_str(gold).ok()?)?;
            let text = input.as_str()?;
            if let Err(error) = scoring::extract_interval(text) {
                return Some(json!({ "raises": error.to_string() }));
            }
            let score = scoring::score(&Gold::Interval { start, end }, text);
            json!([null, number(score.value), score.prediction])
        }
    })
}

/// A number as case files write it.
pub(super) fn number(value: f64) -> Value {
    PyValue::Float(value).to_json()
}

fn span(value: &Value) -> Option<TimeSpan> {
    let number = |value: &Value| value.as_f64().or_else(|| float(value.as_str()?));
    Some(TimeSpan::new(number(value.get(0)?)?, number(value.get(1)?)?))
}
