//! Functions that are served as tools: their definition and their words for what they refuse.

use rustpython_parser::ast::{Expr, ExprCall, Keyword, Stmt, StmtFunctionDef};
use serde_json::{Map, Value, json};

use super::ImportError;
use super::expressions::{constant_text, is_name};
use super::fstrings::{slots, template, without_formats};
use super::shapes::{Module, statements};
use paravt_suite::protocol::Template;

impl Module<'_> {
    /// The definition of a function `@app.tool(name=…, description=…)` whose arguments are `Annotated[str | float,
    /// Field(description=…)] = None`, as FastMCP 1.13 declares it and clients of the chat API send it.
    pub fn tool(&self, name: &str) -> Result<Value, ImportError> {
        let found = self.statements().iter().find_map(|statement| match statement {
            Stmt::FunctionDef(function) if function.name.as_str() == name => definition(function),
            _ => None,
        });
        found.ok_or_else(|| self.shape(format!("function {name} with @app.tool(…) and described arguments")))
    }

    /// Texts and f-strings of raised exceptions, a keyword's where there is none in front: exactly these values and
    /// formats, in this order.
    pub fn raised(&self, wanted: &[&[&str]]) -> Result<Vec<Template>, ImportError> {
        let raised = statements(self.statements()).into_iter().filter_map(|statement| match statement {
            Stmt::Raise(raised) => match raised.exc.as_deref()? {
                Expr::Call(call) => {
                    let named = call.keywords.first().map(|keyword| &keyword.value);
                    template(call.args.first().or(named)?)
                }
                _ => None,
            },
            _ => None,
        });
        self.as_wanted("exceptions", raised.collect(), wanted)
    }

    fn as_wanted(
        &self,
        what: &str,
        found: Vec<Template>,
        wanted: &[&[&str]],
    ) -> Result<Vec<Template>, ImportError> {
        let as_wanted = found.len() == wanted.len()
            && found.iter().zip(wanted).all(|(text, wanted)| slots(text) == *wanted);
        match as_wanted {
            true => Ok(found.into_iter().map(without_formats).collect()),
            false => Err(self.shape(format!("{} texts of {what} with {wanted:?}", wanted.len()))),
        }
    }
}

fn definition(function: &StmtFunctionDef) -> Option<Value> {
    let decorator = function.decorator_list.iter().find_map(|decorator| match decorator {
        Expr::Call(call) => Some(call),
        _ => None,
    })?;
    let mut properties = Map::new();
    for argument in &function.args.args {
        let name = argument.def.arg.as_str();
        properties.insert(name.to_owned(), property(name, argument.def.annotation.as_deref()?)?);
    }
    let parameters = json!({
        "properties": properties,
        "title": format!("{}Arguments", function.name),
        "type": "object",
    });
    let (name, description) = (keyword(decorator, "name")?, keyword(decorator, "description")?);
    Some(json!({
        "type": "function",
        "function": { "name": name, "description": description, "parameters": parameters },
    }))
}

fn property(name: &str, annotation: &Expr) -> Option<Value> {
    let Expr::Subscript(annotated) = annotation else { return None };
    let Expr::Tuple(inner) = &*annotated.slice else { return None };
    let [kind, Expr::Call(field)] = &inner.elts[..] else { return None };
    let kind = match () {
        () if is_name(kind, "str") => "string",
        () if is_name(kind, "float") => "number",
        () => return None,
    };
    let description = keyword(field, "description")?;
    Some(json!({ "default": null, "description": description, "title": title(name), "type": kind }))
}

fn keyword(call: &ExprCall, name: &str) -> Option<String> {
    let named = |keyword: &&Keyword| keyword.arg.as_ref().is_some_and(|arg| arg.as_str() == name);
    constant_text(&call.keywords.iter().find(named)?.value)
}

/// Pydantic's title of a field.
fn title(name: &str) -> String {
    let word = |word: &str| {
        let (first, rest) = word.split_at(word.chars().next().map_or(0, char::len_utf8));
        first.to_uppercase() + rest
    };
    name.split('_').map(word).collect::<Vec<_>>().join(" ")
}
