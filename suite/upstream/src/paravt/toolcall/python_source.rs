//! `ast.parse(line, mode="eval")` on top of a Rust parser that is stricter in a few places.

use paravt_python::MAX_STR_DIGITS;
use rustpython_parser::ast::{Expr, Mod};
use rustpython_parser::lexer::{LexResult, lex};
use rustpython_parser::{Mode, Tok, parse_tokens};
use unicode_normalization::UnicodeNormalization as _;

use super::depth::{Nesting, TooDeep};

/// Open brackets at which CPython's tokenizer gives up with a syntax error.
const MAX_BRACKETS: usize = 200;
/// Between a keyword's name and its position in the line; no text that has it is parsed.
const MARK: char = 'ǁ';

/// The expression of a line, or `None` where Python has a syntax error.
pub(super) fn expression(line: &str) -> Result<Option<Expr>, TooDeep> {
    let Some(tokens) = tokens(line)? else { return Ok(None) };
    Ok(match parse_tokens(tokens, Mode::Expression, "<line>") {
        Ok(Mod::Expression(expression)) => Some(*expression.body),
        _ => None,
    })
}

/// A keyword's name as it was written.
pub(super) fn keyword_name(marked: &str) -> &str {
    marked.split_once(MARK).map_or(marked, |(name, _)| name)
}

/// The line's tokens, with names in normal form and keywords made distinct: CPython's parser,
/// unlike this one, takes a repeated keyword.
fn tokens(line: &str) -> Result<Option<Vec<LexResult>>, TooDeep> {
    // CPython takes no byte order mark in a string, this lexer does.
    if line.contains(['\0', MARK]) || line.starts_with('\u{feff}') {
        return Ok(None);
    }
    let (mut depth, mut nesting) = (0_usize, Nesting::default());
    let mut tokens: Vec<LexResult> = Vec::new();
    for token in lex(line, Mode::Expression) {
        let Ok((mut token, range)) = token else { return Ok(None) };
        match &mut token {
            Tok::Lpar | Tok::Lsqb | Tok::Lbrace => depth += 1,
            Tok::Rpar | Tok::Rsqb | Tok::Rbrace => depth = depth.saturating_sub(1),
            Tok::Name { name } => *name = name.nfkc().collect(),
            Tok::Int { value } => {
                let digits = line[usize::from(range.start())..usize::from(range.end())].bytes();
                let decimal = digits.clone().all(|byte| byte.is_ascii_digit() || byte == b'_');
                if decimal && digits.len() > MAX_STR_DIGITS && value.to_string().len() > MAX_STR_DIGITS {
                    return Ok(None);
                }
            }
            _ => {}
        }
        if depth >= MAX_BRACKETS {
            return Ok(None);
        }
        nesting.add(&token)?;
        if token == Tok::Equal {
            mark_keyword(&mut tokens);
        }
        tokens.push(Ok((token, range)));
    }
    Ok((!has_bare_generator(&tokens)).then_some(tokens))
}

/// Whether a generator without parentheses of its own shares a call with another argument, which
/// is a syntax error to CPython: `f(x for x in y, 1)`.
fn has_bare_generator(tokens: &[LexResult]) -> bool {
    #[derive(Default)]
    struct Group {
        generator: bool,
        in_target: bool,
        comma: bool,
    }
    let mut groups = vec![Group::default()];
    for (token, _) in tokens.iter().flatten() {
        let Some(group) = groups.last_mut() else { return false };
        match token {
            Tok::Lpar | Tok::Lsqb | Tok::Lbrace => groups.push(Group::default()),
            Tok::Rpar if group.generator && group.comma => return true,
            Tok::Rpar | Tok::Rsqb | Tok::Rbrace => {
                groups.pop();
            }
            Tok::For => (group.generator, group.in_target) = (true, true),
            Tok::In => group.in_target = false,
            // The targets of `for a, b in c` are no arguments.
            Tok::Comma if !group.in_target => group.comma = true,
            _ => {}
        }
    }
    false
}

/// Makes the name before a `=` distinct where it is a keyword of a call.
fn mark_keyword(tokens: &mut [LexResult]) {
    let position = tokens.len();
    if let [.., Ok((Tok::Lpar | Tok::Comma, _)), Ok((Tok::Name { name }, _))] = tokens {
        name.push(MARK);
        name.push_str(&position.to_string());
    }
}
