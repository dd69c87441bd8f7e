//! Times and numbers of a text, as people and models write them.

/// A number of a text, or a time made of several.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Figure {
    /// Byte offset of its first digit, or of its sign.
    pub start: usize,
    /// Byte offset behind it and its unit of time.
    pub end: usize,
    /// Value; seconds where it is a time.
    pub value: f64,
    pub kind: FigureKind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FigureKind {
    /// `3:05`, `00:03:05.250`
    Clock,
    /// `3.5 s`, `1 min 20 s`, `1分20秒`
    Unit,
    /// `3.5`
    Bare,
}

/// All figures of a text, in their order.
pub(super) fn figures(text: &str) -> Vec<Figure> {
    let mut all: Vec<Figure> = Vec::new();
    let mut at = 0;
    while let Some(found) = text[at..].find(|c: char| c.is_ascii_digit()) {
        let start = at + found;
        // `B2`, `H264`: no number of its own.
        let before = text[..start].chars().next_back();
        if before.is_some_and(|c| c.is_ascii_alphabetic() || c == '_') {
            at = text[start..]
                .find(|c: char| !c.is_ascii_alphanumeric())
                .map_or(text.len(), |end| start + end);
            continue;
        }
        let figure = figure(text, start);
        at = figure.end.max(start + 1);
        all.push(figure);
    }
    all
}

fn figure(text: &str, start: usize) -> Figure {
    pattern! { CLOCK = r"^(\d{1,3})[:'](\d{1,2})(?::(\d{1,2}))?(?:([.,])(\d{1,6}))?" }
    let rest = &text[start..];
    if let Some(found) = CLOCK.captures(rest) {
        let part = |at: usize| found.get(at).map_or(0.0, |part| part.as_str().parse().unwrap_or(0.0));
        let whole = match found.get(3) {
            Some(_) => part(1) * 3600.0 + part(2) * 60.0 + part(3),
            None => part(1) * 60.0 + part(2),
        };
        let fraction =
            found.get(5).map(|digits| format!("0.{}", digits.as_str()).parse::<f64>().unwrap_or(0.0));
        // A comma before a fraction of a clock time, unless the next time follows it: `1:02,1:04`.
        let is_next = found.get(4).is_some_and(|mark| mark.as_str() == ",")
            && rest[found[0].len()..].starts_with([':', '.']);
        let (value, length) = match (fraction, found.get(4)) {
            (Some(_), Some(mark)) if is_next => (whole, mark.start()),
            (fraction, _) => (whole + fraction.unwrap_or(0.0), found[0].len()),
        };
        let unit = unit(&rest[length..]).filter(|(factor, _)| *factor == 1.0).map_or(0, |(_, length)| length);
        return Figure { start, end: start + length + unit, value, kind: FigureKind::Clock };
    }
    let (value, length) = number(text, start);
    let mut end = start + length;
    let Some((mut factor, taken)) = unit(&text[end..]) else {
        return signed(text, Figure { start, end, value, kind: FigureKind::Bare });
    };
    end += taken;
    let mut total = value * factor;
    // Smaller units that follow: `1 h 2 min and 3 s`.
    pattern! { AND = r"^\s*(?:,?\s*(?:and|und|et|y|e|и)\s|,\s)?\s*" }
    while let Some(joint) = AND.find(&text[end..]).map(|joint| end + joint.end())
        && text[joint..].starts_with(|c: char| c.is_ascii_digit())
    {
        let (value, length) = number(text, joint);
        // `1m20`: seconds without their unit.
        let is_pair = length == 2
            && value.fract() == 0.0
            && !text[joint + 2..]
                .trim_start_matches([':', '.', ','])
                .starts_with(|c: char| c.is_ascii_digit());
        let bare = (factor == 60.0 && (joint == end || is_pair)).then_some((1.0, 0));
        let Some((next, taken)) = unit(&text[joint + length..]).or(bare).filter(|(next, _)| *next < factor)
        else {
            break;
        };
        total += value * next;
        factor = next;
        end = joint + length + taken;
    }
    signed(text, Figure { start, end, value: total, kind: FigureKind::Unit })
}

/// The figure with the sign in front of it: a minus that no word, number or blank stands before.
fn signed(text: &str, figure: Figure) -> Figure {
    let before = &text[..figure.start];
    let Some(sign) = before.chars().next_back().filter(|c| matches!(c, '-' | '−')) else { return figure };
    let head = &before[..before.len() - sign.len_utf8()];
    match head
        .chars()
        .next_back()
        .is_none_or(|c| c.is_whitespace() || matches!(c, '(' | '[' | ',' | ':' | '=' | '\u{1}'))
    {
        true => Figure { start: figure.start - sign.len_utf8(), value: -figure.value, ..figure },
        false => figure,
    }
}

/// A number and its length in bytes: a point, or a comma before one or two digits, begins its fraction; commas before three
/// digits stand between thousands.
fn number(text: &str, start: usize) -> (f64, usize) {
    pattern! { NUMBER = r"^(?:(\d{1,3}(?:,\d{2,3})*,\d{3})(\.\d+)?|(\d{1,3}(?:\.\d{3})+),(\d+)|(\d+),(\d{1,2})|(\d+(?:\.\d+)?(?:[eE][-+]?\d{1,2})?))" }
    pattern! { PLAIN = r"^\d+(?:\.\d+)?" }
    let rest = &text[start..];
    let parsed = |text: String| text.parse::<f64>().unwrap_or(f64::NAN);
    let plain =
        || PLAIN.find(rest).map_or((f64::NAN, 1), |found| (parsed(found.as_str().to_owned()), found.len()));
    let Some(found) = NUMBER.captures(rest) else { return plain() };
    let (part, length) = (|at: usize| found.get(at).map_or("", |part| part.as_str()), found[0].len());
    // What goes on is another number, not a fraction: `24,30.5`, `[3,9]`.
    let goes_on = rest[length..].starts_with(|c: char| c.is_ascii_digit())
        || rest[length..].starts_with(['.', ',', ':'])
            && rest[length + 1..].starts_with(|c: char| c.is_ascii_digit());
    if found.get(1).is_some() && !goes_on {
        return (parsed(part(1).replace(',', "") + part(2)), length);
    }
    if found.get(3).is_some() && !goes_on {
        return (parsed(format!("{}.{}", part(3).replace('.', ""), part(4))), length);
    }
    if found.get(5).is_some() && !goes_on && !is_bracketed(text, start, length) {
        return (parsed(format!("{}.{}", part(5), part(6))), length);
    }
    match found.get(7) {
        Some(all) => (parsed(all.as_str().to_owned()), all.len()),
        None => plain(),
    }
}

/// Whether two numbers with a comma between them fill a pair of brackets.
fn is_bracketed(text: &str, start: usize, length: usize) -> bool {
    text[..start].trim_end().ends_with(['[', '(', '{'])
        && text[start + length..].trim_start().starts_with([']', ')', '}'])
}

/// The unit of time that a text begins with: seconds of one, and its length in bytes with the blank before it.
fn unit(text: &str) -> Option<(f64, usize)> {
    pattern! {
        UNIT = concat!(
            r"^[\s-]?(?:",
            r"(?i:(ms|milliseconds)\b)|(?i:(seconds|secondes|secondi|segundos|sekunden|second|seconde|secondo|segundo|sekunde|секунды|секунду|секунд|секунда|секунде|secs|seg|sek|сек|sec|s)\b)|(秒钟|秒鐘|秒間|秒|초)",
            r"|(?i:(minutes|minuten|minutos|minuti|minute|minuto|минуты|минуту|минут|минута|mins|min|мин|m)(?:\b|\d))|(分钟|分鐘|分間|分|분)",
            r"|(?i:(hours|stunden|heures|horas|hour|stunde|heure|hora|ore|ora|часов|часа|час|hrs|hr|std|h)(?:\b|\d))|(小时|小時|時間|시간)",
            r")"
        )
    }
    let found = UNIT.captures(text)?;
    let (kind, name) = found.iter().enumerate().skip(1).find_map(|(kind, name)| Some((kind, name?)))?;
    // `10 m` are metres, `10m` and `1 m 20 s` minutes.
    if &text[..name.end()] == " m" {
        return None;
    }
    let factor = match kind {
        1 => 0.001,
        2 | 3 => 1.0,
        4 | 5 => 60.0,
        _ => 3600.0,
    };
    // The point of an abbreviation, not of a sentence.
    let is_short = text[name.end()..]
        .strip_prefix('.')
        .is_some_and(|rest| rest.trim_start().starts_with(|c: char| c.is_lowercase() || c.is_ascii_digit()));
    Some((factor, name.end() + usize::from(is_short)))
}
