//! Looks things up in parsed Python by name and shape.

use rustpython_parser::ast::{CmpOp, Constant, Expr, ExprJoinedStr, Ranged as _, Stmt};

use super::ImportError;
use crate::protocol::Template;
use crate::protocol::template::Piece;
use crate::python::{PyValue, dumps};

/// Statements of a module, a function or a branch, and where they are from.
pub struct Module<'a> {
    file: &'static str,
    text: &'a str,
    body: Vec<Stmt>,
}

impl<'a> Module<'a> {
    /// Parses a file.
    pub fn parse(file: &'static str, text: &'a str) -> Result<Self, ImportError> {
        let parsed = rustpython_parser::parse(text, rustpython_parser::Mode::Module, file)
            .map_err(|error| ImportError::Syntax { file, message: error.to_string() })?;
        match parsed {
            rustpython_parser::ast::Mod::Module(module) => Ok(Self { file, text, body: module.body }),
            _ => Err(ImportError::Syntax { file, message: "no module".to_owned() }),
        }
    }

    /// An error that names what was looked for and about where.
    pub fn shape(&self, wanted: String) -> ImportError {
        let line = self.body.first().map(|statement| {
            let offset = usize::from(statement.range().start()).min(self.text.len());
            self.text[..offset].matches('\n').count() + 1
        });
        ImportError::Shape { file: self.file, wanted, line: line.filter(|line| *line > 1) }
    }

    fn within(&self, body: Vec<Stmt>) -> Module<'a> {
        Module { file: self.file, text: self.text, body }
    }

    /// The body of a function.
    pub fn function(&self, name: &str) -> Result<Module<'a>, ImportError> {
        let found = self.body.iter().find_map(|statement| match statement {
            Stmt::FunctionDef(function) if function.name.as_str() == name => Some(function.body.clone()),
            _ => None,
        });
        found.map(|body| self.within(body)).ok_or_else(|| self.shape(format!("function {name}")))
    }

    /// The body of `if VARIABLE == "VALUE":`.
    pub fn branch_for(&self, variable: &str, value: &str) -> Result<Module<'a>, ImportError> {
        let found = self.body.iter().find_map(|statement| match statement {
            Stmt::If(branch) if is_equality(&branch.test, variable, value) => Some(branch.body.clone()),
            _ => None,
        });
        found
            .map(|body| self.within(body))
            .ok_or_else(|| self.shape(format!("`if {variable} == \"{value}\"`")))
    }

    /// Values assigned to a name, in source order, in nested statements too.
    fn assigned(&self, name: &str) -> Vec<Expr> {
        let mut found = Vec::new();
        for statement in statements(&self.body) {
            if let Stmt::Assign(assign) = statement
                && assign.targets.iter().any(|target| is_name(target, name))
            {
                found.push((*assign.value).clone());
            }
        }
        found
    }

    /// A string constant.
    pub fn text(&self, name: &str) -> Result<String, ImportError> {
        let texts = self.assigned_texts(name)?;
        texts.into_iter().next().ok_or_else(|| self.shape(format!("text {name}")))
    }

    /// All string constants assigned to a name.
    pub fn assigned_texts(&self, name: &str) -> Result<Vec<String>, ImportError> {
        let texts = self.assigned(name).iter().map(constant_text).collect::<Option<Vec<_>>>();
        texts.ok_or_else(|| self.shape(format!("text {name}")))
    }

    /// All integers assigned to a name.
    pub fn assigned_integers(&self, name: &str) -> Result<Vec<u32>, ImportError> {
        let numbers = self.assigned(name).iter().map(constant_integer).collect::<Option<Vec<_>>>();
        numbers.ok_or_else(|| self.shape(format!("integer {name}")))
    }

    /// An integer constant.
    pub fn integer(&self, name: &str) -> Result<u32, ImportError> {
        let numbers = self.assigned_integers(name)?;
        numbers.into_iter().next().ok_or_else(|| self.shape(format!("integer {name}")))
    }

    /// `NAME = json.dumps({…})`, printed.
    pub fn dumped_json(&self, name: &str) -> Result<String, ImportError> {
        let value = self.assigned(name).into_iter().find_map(|value| match value {
            Expr::Call(call) if call.keywords.is_empty() => literal(call.args.first()?),
            _ => None,
        });
        value.map(|value| dumps(&value, true)).ok_or_else(|| self.shape(format!("{name} = json.dumps(…)")))
    }

    /// `NAME = "a" if … else "b"`.
    pub fn conditional_texts(&self, name: &str) -> Result<(String, String), ImportError> {
        let found = self.assigned(name).into_iter().find_map(|value| match value {
            Expr::IfExp(choice) => Some((constant_text(&choice.body)?, constant_text(&choice.orelse)?)),
            _ => None,
        });
        found.ok_or_else(|| self.shape(format!("{name} = text if … else text")))
    }

    /// `NAME = f"…" if … else …`, anywhere below.
    pub fn conditional_template(&self, name: &str) -> Result<Template, ImportError> {
        let found = self.assigned(name).into_iter().find_map(|value| match value {
            Expr::IfExp(choice) => template(&choice.body),
            _ => None,
        });
        found.ok_or_else(|| self.shape(format!("{name} = f-string if … else …")))
    }

    /// The f-string assigned to a name or to a dictionary key of that name.
    pub fn assigned_template(&self, name: &str) -> Result<Template, ImportError> {
        let direct = self.assigned(name).iter().find_map(template);
        let keyed = || {
            self.expressions().into_iter().find_map(|expression| match expression {
                Expr::Dict(dict) => dict.keys.iter().zip(&dict.values).find_map(|(key, value)| {
                    let key = key.as_ref().and_then(constant_text)?;
                    if key == name { template(value) } else { None }
                }),
                _ => None,
            })
        };
        direct.or_else(keyed).ok_or_else(|| self.shape(format!("an f-string for {name}")))
    }

    /// The f-string with exactly these slots, in this order.
    pub fn template_with(&self, slots: &[&str]) -> Result<Template, ImportError> {
        let found = self.expressions().iter().filter_map(template).find(|template| {
            let own = template.0.iter().filter_map(|piece| match piece {
                Piece::Slot(name) => Some(name.as_str()),
                Piece::Text(_) => None,
            });
            own.eq(slots.iter().copied())
        });
        found.ok_or_else(|| self.shape(format!("an f-string with the values {}", slots.join(", "))))
    }

    /// The literal of the first `"…" not in …`.
    pub fn not_in_literal(&self) -> Result<String, ImportError> {
        let found = self.expressions().into_iter().find_map(|expression| match expression {
            Expr::Compare(compare) if compare.ops.first() == Some(&CmpOp::NotIn) => {
                constant_text(&compare.left)
            }
            _ => None,
        });
        found.ok_or_else(|| self.shape("a condition `\"…\" not in …`".to_owned()))
    }

    fn expressions(&self) -> Vec<Expr> {
        let mut found = Vec::new();
        for statement in statements(&self.body) {
            for expression in own_expressions(statement) {
                collect(expression, &mut found);
            }
        }
        found
    }
}

/// `str.format` with one named value: doubled braces become single.
pub fn format(text: &str, name: &str, value: &str) -> String {
    let slot = format!("{{{name}}}");
    let filled: Vec<String> =
        text.split(&slot).map(|piece| piece.replace("{{", "{").replace("}}", "}")).collect();
    filled.join(value)
}

/// All statements in source order, nested ones included.
fn statements(body: &[Stmt]) -> Vec<&Stmt> {
    let mut found = Vec::new();
    for statement in body {
        found.push(statement);
        let inner: Vec<&[Stmt]> = match statement {
            Stmt::If(branch) => vec![&branch.body, &branch.orelse],
            Stmt::For(looped) => vec![&looped.body, &looped.orelse],
            Stmt::While(looped) => vec![&looped.body, &looped.orelse],
            Stmt::With(with) => vec![&with.body],
            Stmt::Try(attempt) => vec![&attempt.body, &attempt.orelse, &attempt.finalbody],
            _ => Vec::new(),
        };
        found.extend(inner.into_iter().flat_map(statements));
    }
    found
}

fn own_expressions(statement: &Stmt) -> Vec<&Expr> {
    match statement {
        Stmt::Assign(assign) => vec![&assign.value],
        Stmt::AnnAssign(assign) => assign.value.iter().map(|value| &**value).collect(),
        Stmt::Expr(expression) => vec![&expression.value],
        Stmt::Return(returned) => returned.value.iter().map(|value| &**value).collect(),
        Stmt::If(branch) => vec![&branch.test],
        Stmt::For(looped) => vec![&looped.iter],
        _ => Vec::new(),
    }
}

fn collect(expression: &Expr, found: &mut Vec<Expr>) {
    found.push(expression.clone());
    let inner: Vec<&Expr> = match expression {
        Expr::Call(call) => {
            let keywords = call.keywords.iter().map(|keyword| &keyword.value);
            std::iter::once(&*call.func).chain(&call.args).chain(keywords).collect()
        }
        Expr::Dict(dict) => dict.keys.iter().flatten().chain(&dict.values).collect(),
        Expr::List(list) => list.elts.iter().collect(),
        Expr::Tuple(tuple) => tuple.elts.iter().collect(),
        Expr::IfExp(choice) => vec![&choice.test, &choice.body, &choice.orelse],
        Expr::BoolOp(operation) => operation.values.iter().collect(),
        Expr::BinOp(operation) => vec![&operation.left, &operation.right],
        Expr::Attribute(attribute) => vec![&attribute.value],
        Expr::GeneratorExp(generator) => vec![&generator.elt],
        Expr::ListComp(list) => vec![&list.elt],
        _ => Vec::new(),
    };
    for expression in inner {
        collect(expression, found);
    }
}

fn is_name(expression: &Expr, name: &str) -> bool {
    matches!(expression, Expr::Name(found) if found.id.as_str() == name)
}

fn is_equality(test: &Expr, variable: &str, value: &str) -> bool {
    let Expr::Compare(compare) = test else { return false };
    compare.ops.first() == Some(&CmpOp::Eq)
        && is_name(&compare.left, variable)
        && compare.comparators.first().and_then(constant_text).as_deref() == Some(value)
}

fn constant_text(expression: &Expr) -> Option<String> {
    match expression {
        Expr::Constant(constant) => match &constant.value {
            Constant::Str(text) => Some(text.clone()),
            _ => None,
        },
        _ => None,
    }
}

fn constant_integer(expression: &Expr) -> Option<u32> {
    match expression {
        Expr::Constant(constant) => match &constant.value {
            Constant::Int(value) => value.to_string().parse().ok(),
            _ => None,
        },
        _ => None,
    }
}

fn literal(expression: &Expr) -> Option<PyValue> {
    match expression {
        Expr::Dict(dict) => {
            let mut items = Vec::new();
            for (key, value) in dict.keys.iter().zip(&dict.values) {
                items.push((constant_text(key.as_ref()?)?, literal(value)?));
            }
            Some(PyValue::Dict(items))
        }
        Expr::List(list) => list.elts.iter().map(literal).collect::<Option<_>>().map(PyValue::List),
        other => constant_text(other).map(PyValue::Str),
    }
}

/// An f-string (or plain string) as a template with our slot names.
fn template(expression: &Expr) -> Option<Template> {
    match expression {
        Expr::JoinedStr(joined) => joined_template(joined),
        other => constant_text(other).map(|text| Template(vec![Piece::Text(text)])),
    }
}

fn joined_template(joined: &ExprJoinedStr) -> Option<Template> {
    let mut pieces: Vec<Piece> = Vec::new();
    for value in &joined.values {
        match value {
            Expr::FormattedValue(formatted) => pieces.push(Piece::Slot(slot_name(&formatted.value)?)),
            other => match (pieces.last_mut(), constant_text(other)?) {
                (Some(Piece::Text(before)), text) => before.push_str(&text),
                (_, text) => pieces.push(Piece::Text(text)),
            },
        }
    }
    Some(Template(pieces))
}

/// Our name for what an f-string puts in.
fn slot_name(expression: &Expr) -> Option<String> {
    let name = match expression {
        Expr::Name(name) => match name.id.as_str() {
            "opts_str" => "options",
            "mcq_instr" => "instruction",
            "sub_prefix" => "subtitles_block",
            "sub_text" => "subtitles",
            "q_text" => "question",
            "st" => "start",
            "et" => "end",
            "o" | "v" => "option",
            "k" => "letter",
            other => other,
        }
        .to_owned(),
        Expr::Subscript(subscript) => constant_text(&subscript.slice)?,
        Expr::Call(call) => match &*call.func {
            Expr::Name(name) if name.id.as_str() == "len" => "n".to_owned(),
            Expr::Name(name) if name.id.as_str() == "chr" => "letter".to_owned(),
            Expr::Attribute(attribute) if attribute.attr.as_str() == "basename" => "video_name".to_owned(),
            _ => return None,
        },
        _ => return None,
    };
    Some(name)
}
