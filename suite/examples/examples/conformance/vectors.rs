//! Outputs of functions of agents' protocols and of benchmarks: one list of cases for each function.

mod agents;
mod benchmarks;
mod frames;

use serde_json::{Map, Value};

use super::Case;
use super::extraction::number;

/// A function of a protocol or a benchmark.
struct Function {
    /// Its name in the files of cases.
    name: &'static str,
    /// Keys of a case that are outputs; the others are inputs.
    outputs: &'static [&'static str],
    /// Outputs of this build by their keys, or `None` for a case without the inputs.
    run: fn(&Value) -> Option<Value>,
}

fn function(name: &str) -> Option<&'static Function> {
    agents::FUNCTIONS
        .iter()
        .chain(frames::FUNCTIONS)
        .chain(benchmarks::FUNCTIONS)
        .find(|function| function.name == name)
}

/// The lists of cases by the names of their functions.
fn lists(content: &Value) -> impl Iterator<Item = (&String, &Value)> {
    content.as_object().into_iter().flatten().filter(|(name, _)| *name != "about")
}

/// Whether the file is of this kind: nothing but lists, or one at least of a function that there is.
pub(super) fn are_in(content: &Value) -> bool {
    let is_known = lists(content).any(|(name, _)| function(name).is_some());
    is_known || (lists(content).next().is_some() && lists(content).all(|(_, list)| list.is_array()))
}

/// Every case of every function; one of an unknown function, or without its inputs, has no output.
pub(super) fn cases(content: &Value) -> Vec<Case> {
    lists(content).flat_map(|(name, list)| of_function(name, list)).collect()
}

fn of_function(name: &str, list: &Value) -> Vec<Case> {
    let no_list = std::slice::from_ref(list);
    let cases = list.as_array().map_or(no_list, Vec::as_slice);
    let function = function(name);
    let case = |case: &Value| {
        let outputs = function.map_or(&[][..], |function| function.outputs);
        let is_output = |key: &str| outputs.contains(&key);
        let (expected, inputs): (Map<String, Value>, Map<String, Value>) =
            case.as_object().cloned().unwrap_or_default().into_iter().partition(|(key, _)| is_output(key));
        Case {
            function: name.to_owned(),
            input: Value::Object(inputs).to_string(),
            got: function.filter(|_| !expected.is_empty()).and_then(|function| (function.run)(case)),
            expected: Value::Object(expected),
        }
    };
    cases.iter().map(case).collect()
}

/// A text among the inputs.
fn text<'a>(case: &'a Value, key: &str) -> Option<&'a str> {
    case[key].as_str()
}

/// A number among the inputs; files of cases write those that JSON has none for as texts.
fn real(value: &Value) -> Option<f64> {
    match value.as_str() {
        Some(text) => paravt_python::float(text),
        None => value.as_f64(),
    }
}

fn index(value: &Value) -> Option<usize> {
    usize::try_from(value.as_u64()?).ok()
}

/// Width and height, at the keys `w` and `h`.
fn size(case: &Value) -> Option<(u32, u32)> {
    let side = |key: &str| u32::try_from(case[key].as_u64()?).ok();
    Some((side("w")?, side("h")?))
}

fn reals(values: impl IntoIterator<Item = f64>) -> Value {
    values.into_iter().map(number).collect()
}
