//! Looks things up in parsed Python by name and shape.

use paravt_python::dumps;
use rustpython_parser::ast::{ExceptHandler, Expr, Operator, Ranged as _, Stmt};
use rustpython_parser::lexer::lex;
use rustpython_parser::{Mode, parse_tokens};

use super::expressions::{constant_integer, constant_text, is_method, is_name, literal};
use super::fstrings::{slots, template, without_formats};
use super::{ImportError, conditions};
use crate::depth::Nesting;
use paravt_suite::protocol::Template;
use paravt_suite::protocol::template::Piece;

/// Statements of a module, a function or a branch, and where they are from. What is looked up and not there, or is there
/// twice, is an [`ImportError::Shape`].
pub struct Module<'a> {
    file: &'static str,
    text: &'a str,
    body: Vec<Stmt>,
}

impl<'a> Module<'a> {
    /// The statements of a file.
    ///
    /// # Errors
    /// It is not Python, or nested too deeply.
    pub fn parse(file: &'static str, text: &'a str) -> Result<Self, ImportError> {
        let syntax = |message: String| ImportError::Syntax { file, message };
        let (mut tokens, mut nesting) = (Vec::new(), Nesting::default());
        for token in lex(text, Mode::Module) {
            if let Ok((token, _)) = &token {
                nesting.add(token).map_err(|error| syntax(error.to_string()))?;
            }
            tokens.push(token);
            // The lexer may repeat an error without end.
            if tokens.last().is_some_and(Result::is_err) {
                break;
            }
        }
        match parse_tokens(tokens, Mode::Module, file).map_err(|error| syntax(error.to_string()))? {
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

    /// The statements.
    pub(super) fn statements(&self) -> &[Stmt] {
        &self.body
    }

    fn within(&self, body: Vec<Stmt>) -> Module<'a> {
        Module { file: self.file, text: self.text, body }
    }

    /// The body of the function of that name.
    pub fn function(&self, name: &str) -> Result<Module<'a>, ImportError> {
        let found = self.body.iter().find_map(|statement| match statement {
            Stmt::FunctionDef(function) if function.name.as_str() == name => Some(function.body.clone()),
            Stmt::AsyncFunctionDef(function) if function.name.as_str() == name => Some(function.body.clone()),
            _ => None,
        });
        found.map(|body| self.within(body)).ok_or_else(|| self.shape(format!("function {name}")))
    }

    /// The body of the class of that name.
    pub fn class(&self, name: &str) -> Result<Module<'a>, ImportError> {
        let found = self.body.iter().find_map(|statement| match statement {
            Stmt::ClassDef(class) if class.name.as_str() == name => Some(class.body.clone()),
            _ => None,
        });
        found.map(|body| self.within(body)).ok_or_else(|| self.shape(format!("class {name}")))
    }

    /// The body of `if VARIABLE == "VALUE":`.
    pub fn branch_for(&self, variable: &str, value: &str) -> Result<Module<'a>, ImportError> {
        let found = self.body.iter().find_map(|statement| match statement {
            Stmt::If(branch) if conditions::equality(&branch.test, variable, value) == Some(true) => {
                Some(branch.body.clone())
            }
            _ => None,
        });
        found
            .map(|body| self.within(body))
            .ok_or_else(|| self.shape(format!("`if {variable} == \"{value}\"`")))
    }

    /// The branches of the `if …["KEY"]:` that sets `name`: what runs when it holds, and when not.
    pub fn branches_on(&self, key: &str, name: &str) -> Result<(Module<'a>, Module<'a>), ImportError> {
        let found = statements(&self.body).into_iter().find_map(|statement| {
            let Stmt::If(branch) = statement else { return None };
            let holds = conditions::item(&branch.test, key)?;
            let (body, other) = (self.within(branch.body.clone()), self.within(branch.orelse.clone()));
            (!body.assigned(name).is_empty()).then_some(if holds { (body, other) } else { (other, body) })
        });
        found.ok_or_else(|| self.shape(format!("`if …[\"{key}\"]` with {name} in both branches")))
    }

    /// Values assigned to a name, in source order, in nested statements too.
    fn assigned(&self, name: &str) -> Vec<Expr> {
        let mut found = Vec::new();
        for statement in statements(&self.body) {
            match statement {
                Stmt::Assign(assign) if assign.targets.iter().any(|target| is_name(target, name)) => {
                    found.push((*assign.value).clone());
                }
                Stmt::AnnAssign(assign) if is_name(&assign.target, name) => {
                    found.extend(assign.value.iter().map(|value| (**value).clone()));
                }
                // Not a whole value: counted, so that the name has no single one.
                Stmt::AugAssign(assign) if is_name(&assign.target, name) => {
                    found.push((*assign.value).clone());
                }
                _ => {}
            }
        }
        found
    }

    /// What `read` makes of the one value assigned to a name; a second assignment could overrule it.
    fn only<T>(&self, name: &str, wanted: &str, read: impl Fn(&Expr) -> Option<T>) -> Result<T, ImportError> {
        let found = match &self.assigned(name)[..] {
            [value] => read(value),
            _ => None,
        };
        found.ok_or_else(|| self.shape(format!("one {wanted}")))
    }

    /// The text that is assigned to a name.
    pub fn text(&self, name: &str) -> Result<String, ImportError> {
        self.only(name, &format!("text {name}"), constant_text)
    }

    /// The text under a key of the dictionary that is assigned to a name.
    pub fn entry(&self, name: &str, key: &str) -> Result<String, ImportError> {
        self.only(name, &format!("dictionary {name} with a text for the key {key}"), |value| {
            let Expr::Dict(dict) = value else { return None };
            let mut pairs = dict.keys.iter().zip(&dict.values);
            let found = pairs.find(|(name, _)| name.as_ref().and_then(constant_text).as_deref() == Some(key));
            constant_text(found?.1)
        })
    }

    /// The values of all dictionary keys of this name, in source order.
    fn keyed(&self, key: &str) -> Vec<Expr> {
        let mut found = Vec::new();
        for expression in self.expressions() {
            let Expr::Dict(dict) = expression else { continue };
            let pairs = dict.keys.iter().zip(&dict.values);
            let keyed =
                pairs.filter(|(name, _)| name.as_ref().and_then(constant_text).as_deref() == Some(key));
            found.extend(keyed.map(|(_, value)| value.clone()));
        }
        found
    }

    /// The text of the one dictionary key of this name, anywhere below.
    pub fn keyed_text(&self, key: &str) -> Result<String, ImportError> {
        let mut found: Vec<String> = self.keyed(key).iter().filter_map(constant_text).collect();
        found.dedup();
        match <[String; 1]>::try_from(found) {
            Ok([text]) => Ok(text),
            Err(_) => Err(self.shape(format!("one text for the key {key}"))),
        }
    }

    /// The texts and f-strings of all dictionary keys of this name, in source order.
    pub fn keyed_templates(&self, key: &str) -> Vec<Template> {
        self.keyed(key).iter().filter_map(template).collect()
    }

    /// The sums of texts and names that are assigned to a name, in source order; names are slots.
    pub fn sums(&self, name: &str) -> Vec<Template> {
        self.assigned(name).iter().filter_map(sum).collect()
    }

    /// The f-string of a `return`, with exactly these values, in this order.
    pub fn returned_template(&self, wanted: &[&str]) -> Result<Template, ImportError> {
        let found = statements(&self.body).into_iter().filter_map(|statement| match statement {
            Stmt::Return(returned) => template(returned.value.as_ref()?),
            _ => None,
        });
        only_with(found.collect(), wanted)
            .ok_or_else(|| self.shape(format!("one returned f-string with the values {}", wanted.join(", "))))
    }

    /// The integer that is assigned to a name.
    pub fn integer(&self, name: &str) -> Result<u32, ImportError> {
        self.only(name, &format!("integer {name}"), constant_integer)
    }

    /// `NAME = json.dumps({…})`, printed.
    pub fn dumped_json(&self, name: &str) -> Result<String, ImportError> {
        self.only(name, &format!("{name} = json.dumps(…)"), |value| match value {
            Expr::Call(call) if call.keywords.is_empty() && is_method(&call.func, "dumps") => {
                literal(call.args.first()?)
            }
            _ => None,
        })
        .map(|value| dumps(&value, true))
    }

    /// `NAME = "a" if VARIABLE == "VALUE" else "b"`: the text when equal, and the other.
    pub fn conditional_texts(
        &self,
        name: &str,
        variable: &str,
        value: &str,
    ) -> Result<(String, String), ImportError> {
        let wanted = format!("{name} = text if {variable} == \"{value}\" else text");
        self.only(name, &wanted, |assigned| {
            let Expr::IfExp(choice) = assigned else { return None };
            let texts = (constant_text(&choice.body)?, constant_text(&choice.orelse)?);
            let equal = conditions::equality(&choice.test, variable, value)?;
            Some(if equal { texts } else { (texts.1, texts.0) })
        })
    }

    /// `NAME = f"…" if VARIABLE else ""`, anywhere below.
    pub fn template_if(&self, name: &str, variable: &str, slot: &str) -> Result<Template, ImportError> {
        self.only(name, &format!("{name} = f\"…{{{slot}}}…\" if {variable} else \"\""), |assigned| {
            let Expr::IfExp(choice) = assigned else { return None };
            let (text, empty) = match conditions::name(&choice.test, variable)? {
                true => (&choice.body, &choice.orelse),
                false => (&choice.orelse, &choice.body),
            };
            let template = template(text)?;
            (constant_text(empty)?.is_empty() && slots(&template) == [slot]).then_some(template)
        })
    }

    /// The f-string assigned to a name, or given to a dictionary key of that name, whose values are
    /// among `known`.
    pub fn assigned_template(&self, name: &str, known: &[&str]) -> Result<Template, ImportError> {
        let mut found = self.assigned(name);
        for expression in self.expressions() {
            let Expr::Dict(dict) = expression else { continue };
            let keyed = dict.keys.iter().zip(dict.values).filter_map(|(key, value)| {
                (constant_text(key.as_ref()?)? == name && !is_name(&value, name)).then_some(value)
            });
            found.extend(keyed);
        }
        let template = match &found[..] {
            [value] => template(value),
            _ => None,
        };
        let usable = |template: &Template| {
            let slots = slots(template);
            !slots.is_empty() && slots.iter().all(|slot| known.contains(slot))
        };
        template.filter(usable).ok_or_else(|| {
            self.shape(format!("one f-string for {name}, of {} as they are", known.join(", ")))
        })
    }

    /// The f-string assigned to a name, with exactly these values and formats, in this order.
    pub fn assigned_template_with(&self, name: &str, wanted: &[&str]) -> Result<Template, ImportError> {
        let values = wanted.join(", ");
        self.only(name, &format!("{name} = f\"…\" with the values {values}"), |assigned| {
            only_with(vec![template(assigned)?], wanted)
        })
    }

    /// The f-string with exactly these values and formats (`start:.1f`), in this order.
    pub fn template_with(&self, wanted: &[&str]) -> Result<Template, ImportError> {
        let found = self.expressions().iter().filter_map(template).collect();
        only_with(found, wanted)
            .ok_or_else(|| self.shape(format!("one f-string with the values {}", wanted.join(", "))))
    }

    /// The f-string of `"\n".join(f"…" for …)` with exactly these values, in this order.
    pub fn joined_lines(&self, wanted: &[&str]) -> Result<Template, ImportError> {
        let line = |expression: &Expr| {
            let Expr::Call(call) = expression else { return None };
            let Expr::Attribute(method) = &*call.func else { return None };
            let joins = method.attr.as_str() == "join" && constant_text(&method.value)? == "\n";
            match call.args.first()? {
                Expr::GeneratorExp(generator) if joins => template(&generator.elt),
                Expr::ListComp(list) if joins => template(&list.elt),
                _ => None,
            }
        };
        let found = self.expressions().iter().filter_map(line).collect();
        only_with(found, wanted).ok_or_else(|| {
            self.shape(format!("one \"\\n\".join of an f-string with the values {}", wanted.join(", ")))
        })
    }

    /// The f-string of `if AGENTIC and "…" not in ….lower(): NAME = f"…"`, and the literal.
    pub fn template_unless(&self, wanted: &[&str]) -> Result<(Template, String), ImportError> {
        let found = statements(&self.body).into_iter().find_map(|statement| {
            let Stmt::If(branch) = statement else { return None };
            let literal = conditions::agentic_without(&branch.test)?;
            let template = self.within(branch.body.clone()).template_with(wanted).ok()?;
            branch.orelse.is_empty().then_some((template, literal))
        });
        found.ok_or_else(|| {
            let values = wanted.join(", ");
            self.shape(format!(
                "`if AGENTIC and \"…\" not in ….lower():` over an f-string with the values {values}"
            ))
        })
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
pub(crate) fn format(text: &str, name: &str, value: &str) -> String {
    let slot = format!("{{{name}}}");
    let filled: Vec<String> =
        text.split(&slot).map(|piece| piece.replace("{{", "{").replace("}}", "}")).collect();
    filled.join(value)
}

/// All statements in source order, nested ones included.
pub(super) fn statements(body: &[Stmt]) -> Vec<&Stmt> {
    let mut found = Vec::new();
    for statement in body {
        found.push(statement);
        let inner: Vec<&[Stmt]> = match statement {
            Stmt::If(branch) => vec![&branch.body, &branch.orelse],
            Stmt::For(looped) => vec![&looped.body, &looped.orelse],
            Stmt::While(looped) => vec![&looped.body, &looped.orelse],
            Stmt::With(with) => vec![&with.body],
            Stmt::Try(attempt) => {
                let handlers = attempt.handlers.iter().map(|handler| {
                    let ExceptHandler::ExceptHandler(handler) = handler;
                    &handler.body[..]
                });
                let mut inner = vec![&attempt.body[..]];
                inner.extend(handlers);
                inner.extend([&attempt.orelse[..], &attempt.finalbody[..]]);
                inner
            }
            _ => Vec::new(),
        };
        found.extend(inner.into_iter().flat_map(statements));
    }
    found
}

fn own_expressions(statement: &Stmt) -> Vec<&Expr> {
    match statement {
        Stmt::Assign(assign) => vec![&assign.value],
        Stmt::AugAssign(assign) => vec![&assign.value],
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
        Expr::Lambda(lambda) => vec![&lambda.body],
        Expr::GeneratorExp(generator) => vec![&generator.elt],
        Expr::ListComp(list) => vec![&list.elt],
        _ => Vec::new(),
    };
    for expression in inner {
        collect(expression, found);
    }
}

/// A sum of texts, f-strings and names.
fn sum(expression: &Expr) -> Option<Template> {
    match expression {
        Expr::BinOp(added) if added.op == Operator::Add => {
            let (mut left, right) = (sum(&added.left)?, sum(&added.right)?);
            left.0.extend(right.0);
            Some(left)
        }
        Expr::Name(name) => Some(Template(vec![Piece::Slot(name.id.to_string())])),
        other => template(other),
    }
}

/// The one template among `found` that has these slots, by their bare names.
fn only_with(mut found: Vec<Template>, wanted: &[&str]) -> Option<Template> {
    found.retain(|template| slots(template) == wanted);
    found.dedup();
    let template = found.pop()?;
    found.is_empty().then(|| without_formats(template))
}
