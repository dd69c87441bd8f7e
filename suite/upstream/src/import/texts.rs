//! Texts of a release by their places in its pinned files.

use std::collections::BTreeMap;
use std::ops::Range;

use paravt_python::{PyValue, dumps};
use paravt_suite::protocol::Template;
use paravt_suite::protocol::template::Piece;
use rustpython_parser::Parse as _;
use rustpython_parser::ast::{Constant, Expr, Operator};

use super::{Files, ImportError};

/// A text of a release: where it stands, and how it is read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Text {
    name: &'static str,
    file: &'static str,
    bytes: Range<usize>,
    form: TextForm,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TextForm {
    /// The bytes are the text.
    Raw,
    /// The bytes are an expression of Python; our names of what its f-strings put in, in the order of the source.
    Python(&'static [&'static str]),
}

impl Text {
    /// Bytes of a file as they are.
    pub const fn raw(name: &'static str, file: &'static str, bytes: Range<usize>) -> Self {
        Self { name, file, bytes, form: TextForm::Raw }
    }

    /// An expression of Python: a string, an f-string, strings side by side or added, or a dictionary of constants, which
    /// is the text that `json.dumps` makes of it. Strings of JSON and YAML in double quotes are read as Python's.
    pub const fn python(name: &'static str, file: &'static str, bytes: Range<usize>) -> Self {
        Self { name, file, bytes, form: TextForm::Python(&[]) }
    }

    /// Its name.
    pub const fn name(&self) -> &'static str {
        self.name
    }

    /// An expression with values between its texts, which become these slots, in order.
    pub const fn slots(self, slots: &'static [&'static str]) -> Self {
        let Self { name, file, bytes, .. } = self;
        Self { name, file, bytes, form: TextForm::Python(slots) }
    }
}

/// Texts by name: those of a release's files, or others in their place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Texts {
    release: &'static str,
    found: BTreeMap<String, ImportedText>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct ImportedText {
    /// Where it is from, for errors.
    place: String,
    value: Value,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Value {
    Text(String),
    Template(Template),
}

impl Texts {
    /// Texts that are given as they are; a template has slots in braces.
    pub fn of<N: Into<String>, T: Into<String>>(texts: impl IntoIterator<Item = (N, T)>) -> Self {
        let given = |text: T| ImportedText { place: "as given".to_owned(), value: Value::Text(text.into()) };
        let found = texts.into_iter().map(|(name, text)| (name.into(), given(text)));
        Self { release: "stand-in", found: found.collect() }
    }

    /// The texts of a release.
    ///
    /// # Errors
    /// A place that is not in its file, or is not of the kind that it should be.
    pub(super) fn read(release: &'static str, texts: &[Text], files: &Files) -> Result<Self, ImportError> {
        let mut found = BTreeMap::new();
        for text in texts {
            let Range { start, end } = text.bytes;
            let place = format!("{}, bytes {start} to {end}", text.file);
            let wrong = |message: String| ImportError::Text {
                release,
                text: text.name.to_owned(),
                place: place.clone(),
                message,
            };
            let file = files.get(text.file).ok_or_else(|| wrong("the file was not read".to_owned()))?;
            let source = file.get(text.bytes.clone());
            let source = source.ok_or_else(|| wrong("not within the file's characters".to_owned()))?;
            let value = match text.form {
                TextForm::Raw => Value::Text(source.to_owned()),
                TextForm::Python(slots) => evaluated(source, slots).map_err(wrong)?,
            };
            found.insert(text.name.to_owned(), ImportedText { place, value });
        }
        Ok(Self { release, found })
    }

    /// A text without slots.
    ///
    /// # Errors
    /// There is none of that name, or it has slots.
    pub fn text(&self, name: &str) -> Result<String, ImportError> {
        match self.value(name)? {
            Value::Text(text) => Ok(text.clone()),
            Value::Template(_) => Err(self.error(name, "has values between its texts")),
        }
    }

    /// A text with slots: an f-string, or a text with slots in braces as `str.format` has it.
    ///
    /// # Errors
    /// There is none of that name, or a brace is without its partner.
    pub fn template(&self, name: &str) -> Result<Template, ImportError> {
        match self.value(name)? {
            Value::Text(text) => self.format(name, text),
            Value::Template(template) => Ok(template.clone()),
        }
    }

    /// A text that was made of the one of that name, with slots in braces.
    ///
    /// # Errors
    /// A brace without its partner, or a slot without a name.
    pub fn format(&self, name: &str, text: &str) -> Result<Template, ImportError> {
        Template::read(text).map_err(|problem| self.error(name, problem))
    }

    /// An error about the text of that name.
    pub fn error(&self, name: &str, message: impl Into<String>) -> ImportError {
        let place = self.found.get(name).map_or("nowhere", |found| &found.place).to_owned();
        ImportError::Text { release: self.release, text: name.to_owned(), place, message: message.into() }
    }

    fn value(&self, name: &str) -> Result<&Value, ImportError> {
        let found = self.found.get(name).map(|found| &found.value);
        found.ok_or_else(|| self.error(name, "the release has no text of this name"))
    }
}

/// What an expression of Python is.
fn evaluated(source: &str, slots: &[&str]) -> Result<Value, String> {
    // Within parentheses an expression may have several lines.
    let parsed = Expr::parse(&format!("({source}\n)"), "text");
    let expression = parsed.map_err(|error| format!("not an expression of Python: {error}"))?;
    if let Expr::Dict(_) = expression {
        let value = constants(&expression).ok_or("not a dictionary of constants")?;
        return Ok(Value::Text(dumps(&value, true)));
    }
    let (mut pieces, mut names) = (Vec::new(), slots.iter());
    add(&expression, &mut names, &mut pieces)?;
    if names.next().is_some() {
        return Err(format!("fewer values between its texts than {}", slots.len()));
    }
    Ok(match <[Piece; 1]>::try_from(pieces) {
        Ok([Piece::Text(text)]) => Value::Text(text),
        Ok(pieces) => Value::Template(Template(pieces.into())),
        Err(pieces) => Value::Template(Template(pieces)),
    })
}

/// Adds the texts and values of an expression; a value takes the next name.
fn add<'a>(
    expression: &Expr,
    names: &mut impl Iterator<Item = &'a &'a str>,
    pieces: &mut Vec<Piece>,
) -> Result<(), String> {
    match expression {
        Expr::Constant(constant) => match (&constant.value, pieces.last_mut()) {
            (Constant::Str(text), Some(Piece::Text(before))) => before.push_str(text),
            (Constant::Str(text), _) => pieces.push(Piece::Text(text.clone())),
            _ => return Err("a constant that is not a string".to_owned()),
        },
        Expr::JoinedStr(joined) => {
            for value in &joined.values {
                add(value, names, pieces)?;
            }
        }
        Expr::BinOp(sum) if sum.op == Operator::Add => {
            add(&sum.left, names, pieces)?;
            add(&sum.right, names, pieces)?;
        }
        _ => {
            let name = names.next().ok_or("more values between its texts than slots")?;
            pieces.push(Piece::Slot((*name).to_owned()));
        }
    }
    Ok(())
}

/// A dictionary, list or string of constants.
fn constants(expression: &Expr) -> Option<PyValue> {
    match expression {
        Expr::Dict(dict) => {
            let pairs = dict.keys.iter().zip(&dict.values);
            let items = pairs.map(|(key, value)| match constants(key.as_ref()?)? {
                PyValue::Str(key) => Some((key, constants(value)?)),
                _ => None,
            });
            items.collect::<Option<_>>().map(PyValue::Dict)
        }
        Expr::List(list) => list.elts.iter().map(constants).collect::<Option<_>>().map(PyValue::List),
        Expr::Constant(constant) => match &constant.value {
            Constant::Str(text) => Some(PyValue::Str(text.clone())),
            _ => None,
        },
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "say.py";
    const SOURCE: &str = r#"é = ("a\n" 'b'
     """{c}""")
x = f"{len(y)} of {st:.1f} {{}}" + z + "!"
d = {"k": ["é", {"l": "m"}]}
n = 5
"#;

    /// The text of an expression of the file.
    fn read(expression: &str, slots: &'static [&'static str]) -> Result<Texts, ImportError> {
        let start = SOURCE.find(expression).unwrap();
        within(start..start + expression.len(), slots)
    }

    fn within(bytes: Range<usize>, slots: &'static [&'static str]) -> Result<Texts, ImportError> {
        let files = Files::from([(FILE, SOURCE.to_owned())]);
        Texts::read("one", &[Text::python("t", FILE, bytes).slots(slots)], &files)
    }

    #[test]
    fn a_text_of_every_kind() {
        let split = read("\"a\\n\" 'b'\n     \"\"\"{c}\"\"\"", &[]).unwrap();
        assert_eq!(split.text("t").unwrap(), "a\nb{c}");
        assert_eq!(split.template("t").unwrap(), Template::parse("a\nb{c}"), "with slots in braces");
        let sum = read(r#"f"{len(y)} of {st:.1f} {{}}" + z + "!""#, &["n", "start", "z"]).unwrap();
        assert_eq!(sum.template("t").unwrap(), Template::parse("{n} of {start} {{}}{z}!"));
        assert!(sum.text("t").is_err());
        let dictionary = read(r#"{"k": ["é", {"l": "m"}]}"#, &[]).unwrap();
        assert_eq!(dictionary.text("t").unwrap(), r#"{"k": ["\u00e9", {"l": "m"}]}"#);
        let files = Files::from([(FILE, SOURCE.to_owned())]);
        let raw = Texts::read("one", &[Text::raw("t", FILE, 7..10)], &files).unwrap();
        assert_eq!(raw.text("t").unwrap(), "a\\n");
        let given = Texts::of([("t", "{a} b")]);
        assert_eq!(
            (given.text("t").unwrap(), given.template("t").unwrap()),
            ("{a} b".into(), Template::parse("{a} b"))
        );
    }

    #[test]
    fn an_error_names_release_text_and_place() {
        for (bytes, slots, words) in [
            (0..1, &[][..], "not within the file's characters"),
            (0..1000, &[], "not within the file's characters"),
            (6..8, &[], "not an expression of Python"),
            (SOURCE.find('5').unwrap()..SOURCE.len() - 1, &[], "a constant that is not a string"),
            (6..11, &["a"], "fewer values between its texts than 1"),
        ] {
            let error = within(bytes.clone(), slots).unwrap_err().to_string();
            let place = format!("one: text t (say.py, bytes {} to {}): ", bytes.start, bytes.end);
            assert!(error.starts_with(&place) && error.contains(words), "{error}");
        }
        assert!(read("z + \"!\"", &[]).unwrap_err().to_string().contains("more values"));
        let none = Texts::of([("t", "{")]);
        assert!(none.template("t").unwrap_err().to_string().starts_with("stand-in: text t (as given): "));
        assert!(
            none.text("u")
                .unwrap_err()
                .to_string()
                .contains("text u (nowhere): the release has no text of this name")
        );
    }
}
