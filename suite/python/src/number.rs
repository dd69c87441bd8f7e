//! `float()` and the printing of floats.

use super::decimal_digit;

/// Digits beyond which CPython converts no text to an integer and no integer to text
/// (`sys.get_int_max_str_digits()`).
pub const MAX_STR_DIGITS: usize = 4300;

/// Python's `float(str)`: surrounding white space, any decimal digits, single underscores between
/// digits, `inf`, `infinity` and `nan` in any case. `None` where Python raises ValueError.
pub fn float(text: &str) -> Option<f64> {
    // Unlike `str.strip`, `float` keeps U+001C to U+001F, and so does Rust's `trim`.
    let text = text.trim();
    let mut ascii = String::with_capacity(text.len());
    for c in text.chars() {
        match decimal_digit(c) {
            Some(digit) => ascii.push(char::from_digit(digit, 10)?),
            None if c.is_ascii() => ascii.push(c),
            None => return None,
        }
    }
    let plain = without_underscores(&ascii)?;
    let unsigned = plain.strip_prefix(['+', '-']).unwrap_or(&plain);
    let lower = unsigned.to_ascii_lowercase();
    let value = match lower.as_str() {
        "inf" | "infinity" => f64::INFINITY,
        "nan" => f64::NAN,
        _ if is_decimal(&lower) => lower.parse().ok()?,
        _ => return None,
    };
    Some(if plain.starts_with('-') { -value } else { value })
}

fn without_underscores(text: &str) -> Option<String> {
    let bytes = text.as_bytes();
    for (index, _) in text.match_indices('_') {
        let digit = |at: Option<usize>| at.and_then(|at| bytes.get(at)).is_some_and(u8::is_ascii_digit);
        if !digit(index.checked_sub(1)) || !digit(Some(index + 1)) {
            return None;
        }
    }
    Some(text.replace('_', ""))
}

/// `digits[.digits][e[sign]digits]` with a digit before or after the point.
fn is_decimal(text: &str) -> bool {
    let (mantissa, exponent) = match text.split_once('e') {
        Some((mantissa, exponent)) => (mantissa, Some(exponent)),
        None => (text, None),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let exponent_fits = exponent.is_none_or(|text| {
        let text = text.strip_prefix(['+', '-']).unwrap_or(text);
        !text.is_empty() && digits(text)
    });
    !(whole.is_empty() && fraction.is_empty()) && digits(whole) && digits(fraction) && exponent_fits
}

/// A Python integer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Int {
    /// One of at most 36 digits, with which sums and products of the protocols do not overflow.
    Small(i128),
    Huge,
}

/// Python's `int(str)`: white space, a sign, decimal digits of any script with single underscores between them.
/// `None` where Python raises ValueError.
pub fn int(text: &str) -> Option<Int> {
    let text = text.trim();
    let digit = |c: char| match decimal_digit(c) {
        Some(digit) => char::from_digit(digit, 10),
        None => c.is_ascii().then_some(c),
    };
    let plain = without_underscores(&text.chars().map(digit).collect::<Option<String>>()?)?;
    let digits = plain.strip_prefix(['+', '-']).unwrap_or(&plain);
    if digits.is_empty() || digits.len() > MAX_STR_DIGITS || !digits.bytes().all(|byte| byte.is_ascii_digit())
    {
        return None;
    }
    let significant = digits.trim_start_matches('0');
    if significant.len() > 36 {
        return Some(Int::Huge);
    }
    let value: i128 = if significant.is_empty() { 0 } else { significant.parse().ok()? };
    Some(Int::Small(if plain.starts_with('-') { -value } else { value }))
}

/// `str(int(value))`: cut off towards zero, all digits written out.
///
/// # Errors
/// NaN and infinities, as Python words it.
pub fn whole(value: f64) -> Result<String, &'static str> {
    if value.is_nan() {
        return Err("cannot convert float NaN to integer");
    }
    if value.is_infinite() {
        return Err("cannot convert float infinity to integer");
    }
    // Adding zero takes the sign from -0.
    Ok(format!("{:.0}", value.trunc() + 0.0))
}

/// Python's `a // b` of floats.
pub fn floor_div(a: f64, b: f64) -> f64 {
    let remainder = a % b;
    let quotient = (a - remainder) / b;
    let quotient = if remainder != 0.0 && (b < 0.0) != (remainder < 0.0) { quotient - 1.0 } else { quotient };
    let floor = quotient.floor();
    if quotient - floor > 0.5 { floor + 1.0 } else { floor }
}

/// Python's `repr(float)`, as `json.dumps` prints it (with `NaN`, `Infinity`).
pub fn repr_float(value: f64) -> String {
    if value.is_nan() {
        return "NaN".to_owned();
    }
    if value.is_infinite() {
        return if value > 0.0 { "Infinity" } else { "-Infinity" }.to_owned();
    }
    // Shortest digits that read back, in scientific form: d.ddde±x
    let scientific = format!("{value:e}");
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if (-4..16).contains(&exponent) {
        let plain = format!("{value}");
        if plain.contains('.') { plain } else { format!("{plain}.0") }
    } else {
        let sign = if exponent < 0 { '-' } else { '+' };
        format!("{mantissa}e{sign}{:02}", exponent.abs())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn float_reads_what_python_reads() {
        for (text, value) in [
            ("1e2", 100.0),
            (" 3.5 ", 3.5),
            ("1_000", 1000.0),
            ("３.５", 3.5),
            ("+.5", 0.5),
            ("5.", 5.0),
            ("\u{85}\u{3000}5\u{b}", 5.0),
            ("-Infinity", f64::NEG_INFINITY),
            ("1e999", f64::INFINITY),
        ] {
            assert_eq!(float(text), Some(value), "{text}");
        }
        assert!(float("-NaN").is_some_and(f64::is_nan));
        for text in [
            "", ".", "1__0", "_1", "1_", "1._5", "0x10", "90s", "1e", "e5", "--1", "infin", "²", "\u{1c}5",
            "5\u{1f}",
        ] {
            assert_eq!(float(text), None, "{text}");
        }
    }

    #[test]
    fn floats_print_as_in_python() {
        for (value, text) in [
            (1.0, "1.0"),
            (1e16, "1e+16"),
            (1e15, "1000000000000000.0"),
            (1e-5, "1e-05"),
            (0.0001, "0.0001"),
            (1.5e300, "1.5e+300"),
            (-0.0, "-0.0"),
        ] {
            assert_eq!(repr_float(value), text);
        }
    }

    #[test]
    fn int_reads_what_python_reads() {
        for (text, value) in [(" 12 ", 12), ("-1_0", -10), ("+３", 3), ("007", 7), ("-0", 0)] {
            assert_eq!(int(text), Some(Int::Small(value)), "{text}");
        }
        for text in ["", "-", "1.0", "1e2", "1__0", "_1", "²", "0x1", "1 2"] {
            assert_eq!(int(text), None, "{text}");
        }
        assert_eq!(int(&"9".repeat(40)), Some(Int::Huge));
        assert_eq!(int(&"9".repeat(4301)), None);
        assert_eq!(whole(-2.9).as_deref(), Ok("-2"));
        assert_eq!(whole(-0.5).as_deref(), Ok("0"));
        assert_eq!(whole(1e22).as_deref(), Ok("10000000000000000000000"));
        assert!(whole(f64::NAN).is_err());
    }

    #[test]
    fn division_rounds_down() {
        for (a, b, value) in [(7.5, 2.0, 3.0), (-7.5, 2.0, -4.0), (0.3, 0.1, 2.0), (6.0, 3.0, 2.0)] {
            assert_eq!(floor_div(a, b), value, "{a} // {b}");
        }
    }
}
