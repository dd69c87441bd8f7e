//! Times as SAGE writes and reads them (`sage/src/functions/utils/temporal.py`).

use crate::python::{PyValue, float, floor_div, repr_str, whole};

/// Fields of a time that are written although they are zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fields {
    /// Seconds.
    Seconds,
    /// Minutes and seconds.
    Minutes,
    /// Hours, minutes and seconds.
    Hours,
}

/// `timestamp_to_seconds`.
///
/// # Errors
/// Message of Python's `ValueError` for a text that is not a number.
pub(super) fn seconds(text: &str) -> Result<f64, String> {
    let number = |part: &str| {
        float(part).ok_or_else(|| format!("could not convert string to float: {}", repr_str(part)))
    };
    let whole = |part: &str| number(part).and_then(truncated);
    let parts: Vec<&str> = text.split(':').collect();
    match parts[..] {
        [hours, minutes, rest] => Ok(whole(hours)? * 3600.0 + whole(minutes)? * 60.0 + number(rest)?),
        [minutes, rest] => Ok(whole(minutes)? * 60.0 + number(rest)?),
        _ => number(text),
    }
}

/// The same of a value that should be a text.
///
/// # Errors
/// Python's words.
pub(super) fn seconds_of(value: &PyValue) -> Result<f64, String> {
    match value {
        PyValue::Str(text) => seconds(text),
        // A list has the method that is called first.
        PyValue::List(_) => value.to_float(),
        other => Err(format!("'{}' object has no attribute 'count'", other.type_name())),
    }
}

/// `seconds_to_timestamp`.
///
/// # Errors
/// Python's words for a number without whole seconds.
pub(super) fn timestamp(seconds: f64, fields: Fields) -> Result<String, String> {
    let hours = truncated(floor_div(seconds, 3600.0))?;
    let minutes = truncated(floor_div(modulo(seconds, 3600.0), 60.0))?;
    let rest = truncated(modulo(seconds, 60.0))?;
    Ok(match fields {
        _ if hours > 0.0 || fields == Fields::Hours => format!("{hours:02}:{minutes:02}:{rest:02}"),
        _ if minutes > 0.0 || fields == Fields::Minutes => format!("{minutes:02}:{rest:02}"),
        _ => format!("{rest:02}"),
    })
}

/// `int()` of a float.
fn truncated(value: f64) -> Result<f64, String> {
    whole(value).map(|_| value.trunc() + 0.0).map_err(str::to_owned)
}

/// Python's `a % b` of floats, `b` positive.
fn modulo(a: f64, b: f64) -> f64 {
    let rest = a % b;
    if rest < 0.0 { rest + b } else { rest }
}

/// `fix_timestamp` of a time of two or three whole numbers: one behind the end of a video of so many seconds is taken for
/// one of other fields, else for the end.
pub(super) fn fixed(parts: &[u32], duration: u32, hours: bool) -> String {
    let at = |h: u32, m: u32, s: u32| h * 3600 + m * 60 + s;
    let written = |seconds: u32| {
        let (h, m, s) = (seconds / 3600, seconds % 3600 / 60, seconds % 60);
        if h > 0 || hours { format!("{h:02}:{m:02}:{s:02}") } else { format!("{m:02}:{s:02}") }
    };
    let (original, others) = match *parts {
        [m, s] => (at(0, m, s), vec![at(m, s, 0)]),
        [h, m, s] if m < 60 && s < 60 => (at(h, m, s), vec![at(m, h, s), at(0, h, m)]),
        [h, m, s] => (at(h, m, s), Vec::new()),
        _ => (parts.first().copied().unwrap_or(0), Vec::new()),
    };
    if f64::from(original) <= f64::from(duration) * 1.1 {
        return written(original.min(duration));
    }
    let possible = std::iter::once(original).chain(others).filter(|at| *at <= duration).max();
    written(possible.unwrap_or(duration))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Values of the authors' functions on Python 3.11.
    #[test]
    fn times_are_those_of_the_authors_code() {
        for (text, value) in [("01:10:08.45", 4208.45), ("5.5:7", 307.0), ("12", 12.0), (" 3 ", 3.0)] {
            assert_eq!(seconds(text), Ok(value), "{text}");
        }
        for (text, reason) in [
            ("1:x", "could not convert string to float: 'x'"),
            ("inf:1", "cannot convert float infinity to integer"),
            ("nan:1:2", "cannot convert float NaN to integer"),
            ("1:2:3:4", "could not convert string to float: '1:2:3:4'"),
        ] {
            assert_eq!(seconds(text), Err(reason.to_owned()), "{text}");
        }
        for (value, fields, text) in [
            (0.0, Fields::Seconds, "00"),
            (65.9, Fields::Seconds, "01:05"),
            (5.0, Fields::Minutes, "00:05"),
            (3725.0, Fields::Seconds, "01:02:05"),
            (42.0, Fields::Hours, "00:00:42"),
            (-5.0, Fields::Seconds, "59:55"),
        ] {
            assert_eq!(timestamp(value, fields).as_deref(), Ok(text), "{value}");
        }
        assert_eq!(
            timestamp(f64::INFINITY, Fields::Hours),
            Err("cannot convert float NaN to integer".to_owned())
        );
        for (parts, duration, hours, text) in [
            (&[1, 10, 0][..], 300, false, "01:10"),
            (&[10, 30][..], 300, false, "05:00"),
            (&[2, 30, 0][..], 7200, false, "02:30"),
            (&[0, 5, 20][..], 300, true, "00:05:00"),
            (&[0, 6, 20][..], 300, true, "00:00:06"),
            (&[0, 0, 7][..], 30, true, "00:00:07"),
            (&[99, 59][..], 400_000, false, "01:39:59"),
        ] {
            assert_eq!(fixed(parts, duration, hours), text, "{parts:?} of {duration}");
        }
    }
}
