//! Bounds on what a chat template, which comes with a model's files, may use: its size, the instructions it runs, the
//! text it makes and the depth of its expressions. Fuel sees neither the width that a filter fills up to nor the length of
//! what it puts together: one instruction can take all memory.

use std::cell::Cell;

use minijinja::value::{Kwargs, Rest, StringInput, Value, ValueOrKwargs};
use minijinja::{Environment, Error, ErrorKind, Output, State, escape_formatter, filters};
use minijinja_contrib::pycompat::unknown_method_callback;

/// Maximum bytes of a template; published ones have up to 30 KiB. Bounds the depth to which expressions nest.
pub(super) const SOURCE: usize = 128 << 10;
/// Instructions that a template may run, and more of them for each part of a conversation.
pub(super) const FUEL: u64 = 1_000_000;
/// See [`FUEL`].
pub(super) const FUEL_PER_PART: u64 = 2_000;
/// Maximum bytes of a prompt's text, and of all that a template puts together on the way to it.
const TEXT: usize = 64 << 20;
/// Maximum spaces before a line, and characters that a number is filled up to.
const WIDTH: usize = 1_000;
/// Parsing and dropping nested expressions and values is recursive; pages are taken as they are touched.
const STACK: usize = 512 << 20;

thread_local! {
    /// Bytes that the template on this thread has put together.
    static MADE: Cell<usize> = const { Cell::new(0) };
}

/// Runs work of a template on a thread of its own, whose stack is large enough for all that [`SOURCE`] can nest.
///
/// # Errors
/// The work fails or panics, or the thread cannot be started.
pub(super) fn apart<R: Send>(work: impl FnOnce() -> Result<R, Error> + Send) -> Result<R, String> {
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().stack_size(STACK).spawn_scoped(scope, work);
        let thread = thread.map_err(|error| format!("no thread for the chat template: {error}"))?;
        let done = thread.join().map_err(|_| "the template's thread panicked; see stderr".to_owned())?;
        done.map_err(|error| format!("{error:#}"))
    })
}

/// Has an environment count what its template makes, and check what grows faster than its arguments.
pub(super) fn install(environment: &mut Environment<'_>) {
    environment.set_formatter(|out: &mut Output, state: &mut State, value: &Value| {
        grow(value.as_str().map_or(0, str::len))?;
        escape_formatter(out, state, value)
    });
    environment.set_unknown_method_callback(|state, value, method, args| {
        let text = value.as_str().unwrap_or_default();
        match (method, args.first(), args.get(1)) {
            ("replace", Some(from), Some(to)) => {
                grow_by_replacing(text, from.as_str().unwrap_or_default(), to.as_str().unwrap_or_default())?;
            }
            ("join", Some(values), _) => grow_by_joining(values, text)?,
            ("format", ..) => check_widths(text, args.iter())?,
            _ => {}
        }
        unknown_method_callback(state, value, method, args)
    });
    environment.add_filter(
        "replace",
        |state: &mut State, text: StringInput<'_>, from: StringInput<'_>, to: StringInput<'_>| {
            grow_by_replacing(text.as_str(), from.as_str(), to.as_str())?;
            filters::replace(state, text, from, to)
        },
    );
    environment.add_filter(
        "join",
        |state: &mut State,
         values: &Value,
         joiner: Option<StringInput<'_>>,
         attribute: Option<&str>,
         kwargs: Kwargs| {
            let named: Option<String> = kwargs.get("d")?;
            let text = joiner.as_ref().map(StringInput::as_str).or(named.as_deref()).unwrap_or_default();
            grow_by_joining(values, text)?;
            filters::join(state, values, joiner, attribute, kwargs)
        },
    );
    environment.add_filter(
        "indent",
        |text: StringInput<'_>,
         width: Option<usize>,
         first: Option<bool>,
         blank: Option<bool>,
         kwargs: Kwargs| {
            let wide = width.or(kwargs.get("width")?).unwrap_or(4);
            check_width(wide)?;
            grow(text.as_str().len() + wide * (1 + text.as_str().matches('\n').count()))?;
            filters::indent(text, width, first, blank, kwargs)
        },
    );
    environment.add_filter("format", |state: &mut State, format: &Value, args: Rest<ValueOrKwargs>| {
        let values: Vec<Value> = args.0.iter().map(|arg| Value::from(arg.clone())).collect();
        check_widths(format.as_str().unwrap_or_default(), values.iter())?;
        filters::format(state, format, args)
    });
}

/// # Errors
/// A width that is more than a prompt can need.
pub(super) fn check_width(width: usize) -> Result<(), Error> {
    let message = || format!("a width of {width}; at most {WIDTH} is supported");
    if width <= WIDTH { Ok(()) } else { Err(Error::new(ErrorKind::InvalidOperation, message())) }
}

/// Counts bytes that a template puts together.
///
/// # Errors
/// They come to more than a prompt may.
pub(super) fn grow(bytes: usize) -> Result<(), Error> {
    let made = MADE.get().saturating_add(bytes);
    MADE.set(made);
    if made <= TEXT {
        return Ok(());
    }
    let message = format!("makes more than {} MiB of text", TEXT >> 20);
    Err(Error::new(ErrorKind::InvalidOperation, message))
}

fn grow_by_replacing(text: &str, from: &str, to: &str) -> Result<(), Error> {
    let places = if from.is_empty() { text.len() + 1 } else { text.matches(from).count() };
    grow(text.len().saturating_add(places.saturating_mul(to.len())))
}

fn grow_by_joining(values: &Value, joiner: &str) -> Result<(), Error> {
    for value in values.try_iter().into_iter().flatten() {
        grow(joiner.len() + value.as_str().map_or(0, str::len))?;
    }
    Ok(())
}

/// Widths that stand in a format, and numbers that may be one.
fn check_widths<'a>(format: &str, args: impl Iterator<Item = &'a Value>) -> Result<(), Error> {
    for digits in format.split(|c: char| !c.is_ascii_digit()).filter(|digits| !digits.is_empty()) {
        check_width(digits.parse().unwrap_or(usize::MAX))?;
    }
    // `%*d` and `{:{}}` take theirs from the arguments.
    let nested = format.contains('*') || format.split('{').skip(1).any(|part| !part.contains('}'));
    for number in args.filter(|_| nested).filter_map(|arg| usize::try_from(arg.clone()).ok()) {
        check_width(number)?;
    }
    Ok(())
}

/// Text of a bounded size.
#[derive(Default)]
pub(super) struct Text(pub Vec<u8>);

impl std::io::Write for Text {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        if self.0.len() + bytes.len() > TEXT {
            return Err(std::io::Error::other(format!("makes more than {} MiB of text", TEXT >> 20)));
        }
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}
