//! The walk over the columns `messages` and `videos`: JSON texts, and the same as nested columns.

use std::sync::Arc;

use arrow_array::cast::AsArray as _;
use arrow_array::{Array, ArrayRef, GenericListArray, GenericStringArray, OffsetSizeTrait, StructArray};
use arrow_schema::{DataType, FieldRef};
use paravt_python::{PyValue, dumps, loads};

use super::Media;
use super::paths::Paths;

/// Parts of a message that refer to a medium.
const KINDS: [(&str, Media); 2] = [("video_url", Media::Video), ("image_url", Media::Image)];

/// The column `messages`, or a part of it, with absolute paths.
pub(super) fn messages(array: &ArrayRef, paths: &mut Paths) -> Result<ArrayRef, String> {
    match array.data_type() {
        DataType::Utf8 => texts(array.as_string::<i32>(), &mut |text| json(text, paths)),
        DataType::LargeUtf8 => texts(array.as_string::<i64>(), &mut |text| json(text, paths)),
        DataType::List(field) => items(array.as_list::<i32>(), field, |values| messages(values, paths)),
        DataType::LargeList(field) => items(array.as_list::<i64>(), field, |values| messages(values, paths)),
        DataType::Struct(_) => message(array.as_struct(), paths),
        _ => Ok(Arc::clone(array)),
    }
}

/// The column `videos` with absolute paths.
pub(super) fn videos(array: &ArrayRef, paths: &mut Paths) -> Result<ArrayRef, String> {
    let mut each = |values: &ArrayRef| match values.as_struct_opt() {
        Some(structs) => with_column(structs, "video", |video| path_column(video, None, Media::Video, paths)),
        None => Ok(Arc::clone(values)),
    };
    match array.data_type() {
        DataType::List(field) => items(array.as_list::<i32>(), field, &mut each),
        DataType::LargeList(field) => items(array.as_list::<i64>(), field, &mut each),
        _ => Ok(Arc::clone(array)),
    }
}

/// One level of messages or parts: addresses by type, then what lies deeper.
fn message(structs: &StructArray, paths: &mut Paths) -> Result<ArrayRef, String> {
    let mut current = structs.clone();
    for (kind, media) in KINDS {
        let Some(types) = current.column_by_name("type").cloned() else { break };
        let of_kind = is_text(&types, kind);
        let changed = with_column(&current, kind, |part| match part.as_struct_opt() {
            Some(part) => with_column(part, "url", |url| path_column(url, Some(&of_kind), media, paths)),
            None => Ok(Arc::clone(part)),
        })?;
        current = changed.as_struct().clone();
    }
    for deeper in ["content", "messages"] {
        current = with_column(&current, deeper, |column| messages(column, paths))?.as_struct().clone();
    }
    Ok(Arc::new(current))
}

fn is_text(array: &ArrayRef, wanted: &str) -> Vec<bool> {
    let texts: Vec<Option<&str>> = match array.data_type() {
        DataType::Utf8 => array.as_string::<i32>().iter().collect(),
        DataType::LargeUtf8 => array.as_string::<i64>().iter().collect(),
        _ => vec![None; array.len()],
    };
    texts.into_iter().map(|text| text == Some(wanted)).collect()
}

/// Paths of the rows that `chosen` marks, or of all.
fn path_column(
    array: &ArrayRef,
    chosen: Option<&[bool]>,
    media: Media,
    paths: &mut Paths,
) -> Result<ArrayRef, String> {
    let mut one = |text: &str, row: usize| -> Result<String, String> {
        let changed =
            chosen.is_none_or(|chosen| chosen[row]).then(|| paths.absolute(text, media)).transpose()?;
        Ok(changed.flatten().unwrap_or_else(|| text.to_owned()))
    };
    match array.data_type() {
        DataType::Utf8 => indexed(array.as_string::<i32>(), &mut one),
        DataType::LargeUtf8 => indexed(array.as_string::<i64>(), &mut one),
        _ => Ok(Arc::clone(array)),
    }
}

fn texts<O: OffsetSizeTrait>(
    array: &GenericStringArray<O>,
    change: &mut dyn FnMut(&str) -> Result<String, String>,
) -> Result<ArrayRef, String> {
    indexed(array, &mut |text, _| change(text))
}

fn indexed<O: OffsetSizeTrait>(
    array: &GenericStringArray<O>,
    change: &mut dyn FnMut(&str, usize) -> Result<String, String>,
) -> Result<ArrayRef, String> {
    let changed: Result<Vec<Option<String>>, String> =
        array.iter().enumerate().map(|(row, text)| text.map(|text| change(text, row)).transpose()).collect();
    Ok(Arc::new(GenericStringArray::<O>::from(changed?)))
}

fn items<O: OffsetSizeTrait>(
    list: &GenericListArray<O>,
    field: &FieldRef,
    change: impl FnOnce(&ArrayRef) -> Result<ArrayRef, String>,
) -> Result<ArrayRef, String> {
    let values = change(list.values())?;
    let (field, offsets, nulls) = (Arc::clone(field), list.offsets().clone(), list.nulls().cloned());
    let changed =
        GenericListArray::<O>::try_new(field, offsets, values, nulls).map_err(|error| error.to_string())?;
    Ok(Arc::new(changed))
}

/// The same struct with one of its columns changed, if it has it.
fn with_column(
    structs: &StructArray,
    name: &str,
    change: impl FnOnce(&ArrayRef) -> Result<ArrayRef, String>,
) -> Result<ArrayRef, String> {
    let Some(at) = structs.fields().iter().position(|field| field.name() == name) else {
        return Ok(Arc::new(structs.clone()));
    };
    let (fields, mut columns, nulls) = structs.clone().into_parts();
    columns[at] = change(&columns[at])?;
    let changed = StructArray::try_new(fields, columns, nulls).map_err(|error| error.to_string())?;
    Ok(Arc::new(changed))
}

/// A JSON text, walked and written again as Python does.
fn json(text: &str, paths: &mut Paths) -> Result<String, String> {
    let value = loads(text)
        .map_err(|error| format!("messages: a text that is not JSON ({error}): {}", start(text)))?;
    Ok(dumps(&walk(value, paths)?, false))
}

fn start(text: &str) -> String {
    text.chars().take(60).collect()
}

fn walk(value: PyValue, paths: &mut Paths) -> Result<PyValue, String> {
    match value {
        PyValue::Str(text) => Ok(PyValue::Str(json(&text, paths)?)),
        PyValue::List(items) => {
            Ok(PyValue::List(items.into_iter().map(|item| walk(item, paths)).collect::<Result<_, _>>()?))
        }
        PyValue::Dict(mut entries) => {
            for (kind, media) in KINDS {
                if !matches!(get(&entries, "type"), Some(PyValue::Str(found)) if found == kind) {
                    continue;
                }
                let part = entries.iter_mut().find(|(key, _)| key == kind).map(|(_, value)| value);
                let Some(PyValue::Dict(part)) = part else { continue };
                match part.iter_mut().find(|(key, _)| key == "url").map(|(_, value)| value) {
                    Some(PyValue::Str(url)) => {
                        if let Some(absolute) = paths.absolute(url, media)? {
                            *url = absolute;
                        }
                    }
                    Some(other) if !is_falsy(other) => {
                        return Err(format!("{kind}: `url` is a {}, expected a text", other.type_name()));
                    }
                    _ => {}
                }
            }
            for deeper in ["content", "messages"] {
                if let Some((_, value)) = entries.iter_mut().find(|(key, _)| key == deeper) {
                    *value = walk(std::mem::replace(value, PyValue::None), paths)?;
                }
            }
            Ok(PyValue::Dict(entries))
        }
        other => Ok(other),
    }
}

fn get<'a>(entries: &'a [(String, PyValue)], key: &str) -> Option<&'a PyValue> {
    entries.iter().find(|(name, _)| name == key).map(|(_, value)| value)
}

fn is_falsy(value: &PyValue) -> bool {
    match value {
        PyValue::None => true,
        PyValue::Bool(value) => !value,
        PyValue::Int(digits) => digits.trim_start_matches('-') == "0",
        PyValue::Float(value) => *value == 0.0,
        PyValue::Str(text) => text.is_empty(),
        PyValue::List(items) => items.is_empty(),
        PyValue::Dict(entries) => entries.is_empty(),
    }
}
