//! Checks of a review rule: equations over the values of an extraction. Pure.
//!
//! ```text
//! check      = sum "=" sum [ "tolerance" number ]
//! sum        = product { ("+" | "-") product }
//! product    = factor { ("*" | "/") factor }
//! factor     = "-" factor | "(" sum ")" | number | function "(" path ")" | path
//! function   = "sum" | "count" | "min" | "max"
//! path       = name { "." name }
//! ```
//!
//! A name consists of letters, digits and `_` and does not begin with a digit; any other name is written in quotation marks:
//! `items."net amount"`. A path has no indexes: in a function it selects the values of all items of the arrays on its way, and
//! elsewhere it must not lead through an array. A function skips values that are null or missing. Arithmetic is exact.

use std::collections::BTreeSet;

use folio_resources::{CheckOutcome, item_path, leaves_at, member_path};
use serde_json::Value;

use super::rational::Rational;
use super::schema_walk::SchemaWalk;
use crate::rules::excerpt;

/// Maximum length of a check, in bytes.
// proto: ReviewRule.checks "at most {} bytes"
pub(super) const CHECK_BYTES: usize = 500;
/// Maximum nesting of parentheses and signs.
// proto: ReviewRule.checks "{} levels"
const DEPTH_MAX: u32 = 16;
/// Maximum nesting of arrays in arrays on a path.
const ARRAYS_MAX: usize = 8;

/// A parsed check.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Check {
    left: Expression,
    right: Expression,
    tolerance: Rational,
}

#[derive(Debug, Clone, PartialEq)]
enum Expression {
    Number(Rational),
    Value(Path),
    Function(Function, Path),
    Negated(Box<Expression>),
    Operation(Box<Expression>, Operator, Box<Expression>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Function {
    Sum,
    Count,
    Min,
    Max,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Operator {
    Plus,
    Minus,
    Times,
    Divide,
}

/// The names of a path.
type Path = Vec<String>;

#[derive(Debug, Clone, PartialEq)]
enum Token {
    Name(String),
    /// A name in quotation marks, which always names a member and not a function.
    Quoted(String),
    Number(Rational),
    Sign(char),
}

/// Reason why a check cannot be evaluated.
type Reason = String;

/// Parses a check. The error is a message for people.
pub(super) fn parse(text: &str) -> Result<Check, String> {
    if text.len() > CHECK_BYTES {
        return Err(format!("has more than {CHECK_BYTES} bytes"));
    }
    let mut parser = Parser { tokens: tokens(text)?, at: 0 };
    let left = parser.sum(0)?;
    if !parser.takes('=') {
        return Err(parser.unexpected("\"=\""));
    }
    let right = parser.sum(0)?;
    let tolerance = match parser.peek() {
        Some(Token::Name(name)) if name == "tolerance" => {
            parser.at += 1;
            match parser.next() {
                Some(Token::Number(tolerance)) => tolerance,
                _ => return Err("a number is missing after \"tolerance\"".to_owned()),
            }
        }
        _ => Rational::ZERO,
    };
    match parser.peek() {
        None => Ok(Check { left, right, tolerance }),
        Some(_) => Err(parser.unexpected("the end")),
    }
}

fn tokens(text: &str) -> Result<Vec<Token>, String> {
    let mut found = Vec::new();
    let mut rest = text.trim_start();
    while let Some(first) = rest.chars().next() {
        let length = |is_part: fn(char) -> bool| rest.find(|c: char| !is_part(c)).unwrap_or(rest.len());
        let (token, end) = if first.is_ascii_digit() {
            let end = length(|c| c.is_ascii_digit() || c == '.');
            let digits = rest.get(..end).unwrap_or_default();
            let number = Rational::of_decimal(digits).filter(|_| !digits.ends_with('.'));
            (Token::Number(number.ok_or_else(|| format!("{digits:?} is not a number"))?), end)
        } else if first.is_alphabetic() || first == '_' {
            let end = length(|c| c.is_alphanumeric() || c == '_');
            (Token::Name(rest.get(..end).unwrap_or_default().to_owned()), end)
        } else if let Some(quoted) = rest.strip_prefix('"') {
            let (name, _) = quoted.split_once('"').ok_or("a quotation mark is missing")?;
            (Token::Quoted(name.to_owned()), name.len() + 2)
        } else if "+-*/=().".contains(first) {
            (Token::Sign(first), 1)
        } else {
            return Err(format!("{:?} is not expected", first.to_string()));
        };
        found.push(token);
        rest = rest.get(end..).unwrap_or_default().trim_start();
    }
    Ok(found)
}

struct Parser {
    tokens: Vec<Token>,
    at: usize,
}

impl Parser {
    fn peek(&self) -> Option<&Token> {
        self.tokens.get(self.at)
    }

    fn next(&mut self) -> Option<Token> {
        let token = self.peek().cloned();
        self.at += 1;
        token
    }

    fn takes(&mut self, sign: char) -> bool {
        let is_next = self.peek() == Some(&Token::Sign(sign));
        self.at += usize::from(is_next);
        is_next
    }

    fn unexpected(&self, expected: &str) -> String {
        match self.peek() {
            None => format!("it ends where {expected} is expected"),
            Some(Token::Name(name) | Token::Quoted(name)) => {
                format!("{expected} is expected before {:?}", excerpt(name))
            }
            Some(Token::Number(number)) => format!("{expected} is expected before {}", number.rounded()),
            Some(Token::Sign(sign)) => format!("{expected} is expected before {:?}", sign.to_string()),
        }
    }

    fn sum(&mut self, depth: u32) -> Result<Expression, String> {
        self.operations(depth, [('+', Operator::Plus), ('-', Operator::Minus)], Self::product)
    }

    fn product(&mut self, depth: u32) -> Result<Expression, String> {
        self.operations(depth, [('*', Operator::Times), ('/', Operator::Divide)], Self::factor)
    }

    /// Parses operands with operators of the same rank between them, from left to right.
    fn operations(
        &mut self,
        depth: u32,
        operators: [(char, Operator); 2],
        operand: fn(&mut Self, u32) -> Result<Expression, String>,
    ) -> Result<Expression, String> {
        let mut left = operand(self, depth)?;
        while let Some((_, operator)) = operators.into_iter().find(|(sign, _)| self.takes(*sign)) {
            left = Expression::Operation(Box::new(left), operator, Box::new(operand(self, depth)?));
        }
        Ok(left)
    }

    fn factor(&mut self, depth: u32) -> Result<Expression, String> {
        if depth >= DEPTH_MAX {
            return Err(format!("has more than {DEPTH_MAX} levels"));
        }
        if self.takes('-') {
            return Ok(Expression::Negated(Box::new(self.factor(depth + 1)?)));
        }
        if self.takes('(') {
            let inner = self.sum(depth + 1)?;
            return self.closed(inner);
        }
        match self.peek().cloned() {
            Some(Token::Number(number)) => {
                self.at += 1;
                Ok(Expression::Number(number))
            }
            Some(Token::Name(name)) if self.tokens.get(self.at + 1) == Some(&Token::Sign('(')) => {
                let function = match name.as_str() {
                    "sum" => Function::Sum,
                    "count" => Function::Count,
                    "min" => Function::Min,
                    "max" => Function::Max,
                    _ => {
                        return Err(format!(
                            "{:?} is not a function: the functions are sum, count, min and max",
                            excerpt(&name)
                        ));
                    }
                };
                self.at += 2;
                let path = self.path()?;
                self.closed(Expression::Function(function, path))
            }
            _ => Ok(Expression::Value(self.path()?)),
        }
    }

    fn closed(&mut self, inner: Expression) -> Result<Expression, String> {
        if self.takes(')') { Ok(inner) } else { Err(self.unexpected("\")\"")) }
    }

    fn path(&mut self) -> Result<Path, String> {
        let mut names = Vec::new();
        loop {
            match self.peek() {
                Some(Token::Name(name) | Token::Quoted(name)) => names.push(name.clone()),
                _ => return Err(self.unexpected("a path or number")),
            }
            self.at += 1;
            if !self.takes('.') {
                return Ok(names);
            }
        }
    }
}

impl Check {
    /// Returns the problem of the check with a schema. None: the schema has all paths.
    pub(super) fn problem(&self, schema: &Value) -> Option<String> {
        let walk = SchemaWalk::new(schema);
        let mut problem = None;
        self.visit(&mut |path: &[String], is_in_function: bool| {
            let found = match is_repeated(&walk, path) {
                None => Some("does not exist in the schema"),
                Some(true) if !is_in_function => Some("leads through an array; use sum, count, min or max"),
                Some(_) => None,
            };
            problem = problem
                .take()
                .or_else(|| found.map(|found| format!("the path {:?} {found}", excerpt(&path.join(".")))));
        });
        problem
    }

    /// Returns the paths of the values of data that the check names.
    pub(super) fn fields(&self, data: &Value) -> BTreeSet<String> {
        let mut fields = BTreeSet::new();
        self.visit(&mut |path: &[String], _: bool| {
            for (prefix, value) in selected(data, path) {
                fields.extend(leaves_at(&prefix, value).into_iter().map(|(path, _)| path));
            }
        });
        fields
    }

    /// Returns true if no path of the check lacks a value in the data.
    pub(super) fn has_values(&self, data: &Value) -> bool {
        let mut has_values = true;
        self.visit(&mut |path: &[String], _: bool| has_values &= !values(data, path).is_empty());
        has_values
    }

    pub(super) fn evaluate(&self, data: &Value) -> CheckOutcome {
        let evaluated = || {
            let (left, right) = (self.left.evaluate(data)?, self.right.evaluate(data)?);
            let is_equal = left.is_near(right, self.tolerance).ok_or_else(too_large)?;
            Ok::<_, Reason>((is_equal, left.rounded(), right.rounded()))
        };
        match evaluated() {
            Ok((true, left, right)) => CheckOutcome::Passed { left, right },
            Ok((false, left, right)) => CheckOutcome::Failed { left, right },
            Err(reason) => CheckOutcome::NotEvaluable { reason },
        }
    }

    /// Calls `visitor` with each path, and true if it is in a function.
    fn visit(&self, visitor: &mut impl FnMut(&[String], bool)) {
        self.left.visit(visitor);
        self.right.visit(visitor);
    }
}

fn too_large() -> Reason {
    "a number is too large".to_owned()
}

impl Expression {
    fn visit(&self, visitor: &mut impl FnMut(&[String], bool)) {
        match self {
            Self::Number(_) => {}
            Self::Value(path) => visitor(path, false),
            Self::Function(_, path) => visitor(path, true),
            Self::Negated(inner) => inner.visit(visitor),
            Self::Operation(left, _, right) => {
                left.visit(visitor);
                right.visit(visitor);
            }
        }
    }

    fn evaluate(&self, data: &Value) -> Result<Rational, Reason> {
        match self {
            Self::Number(number) => Ok(*number),
            Self::Negated(inner) => Rational::ZERO.minus(inner.evaluate(data)?).ok_or_else(too_large),
            Self::Operation(left, operator, right) => {
                let (left, right) = (left.evaluate(data)?, right.evaluate(data)?);
                match operator {
                    Operator::Plus => left.plus(right),
                    Operator::Minus => left.minus(right),
                    Operator::Times => left.times(right),
                    Operator::Divide if right == Rational::ZERO => return Err("a division by zero".to_owned()),
                    Operator::Divide => left.divided_by(right),
                }
                .ok_or_else(too_large)
            }
            Self::Value(path) => match values(data, path).as_slice() {
                [value] => number(path, value),
                [] => Err(format!("{:?} has no value", excerpt(&path.join(".")))),
                _ => Err(format!("{:?} has several values", excerpt(&path.join(".")))),
            },
            Self::Function(Function::Count, path) => Rational::whole(values(data, path).len()).ok_or_else(too_large),
            Self::Function(function, path) => {
                let mut result = (*function == Function::Sum).then_some(Rational::ZERO);
                for value in values(data, path) {
                    let value = number(path, value)?;
                    let is_less = |other: Rational| value.is_less(other).ok_or_else(too_large);
                    result = Some(match (function, result) {
                        (Function::Sum, Some(sum)) => sum.plus(value).ok_or_else(too_large)?,
                        (Function::Min, Some(min)) if !is_less(min)? => min,
                        (Function::Max, Some(max)) if is_less(max)? => max,
                        _ => value,
                    });
                }
                result.ok_or_else(|| format!("{:?} has no value", excerpt(&path.join("."))))
            }
        }
    }
}

fn number(path: &[String], value: &Value) -> Result<Rational, Reason> {
    let Value::Number(number) = value else {
        return Err(format!("a value of {:?} is not a number", excerpt(&path.join("."))));
    };
    Rational::of_number(number).ok_or_else(too_large)
}

/// Returns the values at a path that are not null. The items of an array are values.
fn values<'a>(data: &'a Value, path: &[String]) -> Vec<&'a Value> {
    let mut found: Vec<&Value> = selected(data, path).into_iter().map(|(_, value)| value).collect();
    for _ in 0..ARRAYS_MAX {
        if !found.iter().any(|value| value.is_array()) {
            break;
        }
        found = found
            .into_iter()
            .flat_map(|value| value.as_array().map_or(vec![value], |items| items.iter().collect()))
            .collect();
    }
    found.retain(|value| !value.is_null());
    found
}

/// Returns the values at a path with their canonical paths. A name selects the member of an object, or of all items of an array.
fn selected<'a>(data: &'a Value, path: &[String]) -> Vec<(String, &'a Value)> {
    let mut found = vec![(String::new(), data)];
    for name in path {
        for _ in 0..ARRAYS_MAX {
            if !found.iter().any(|(_, value)| value.is_array()) {
                break;
            }
            found = found.into_iter().flat_map(|(path, value)| items(path, value)).collect();
        }
        found =
            found.into_iter().filter_map(|(path, value)| Some((member_path(&path, name), value.get(name)?))).collect();
    }
    found
}

/// Returns the items of an array with their paths, or the value itself.
fn items(path: String, value: &Value) -> Vec<(String, &Value)> {
    match value.as_array() {
        Some(items) => items.iter().enumerate().map(|(index, item)| (item_path(&path, index), item)).collect(),
        None => vec![(path, value)],
    }
}

/// Returns true if a path of a schema leads to or through an array. None: the schema has no such path.
fn is_repeated(walk: &SchemaWalk<'_>, path: &[String]) -> Option<bool> {
    let (mut schemas, mut is_repeated) = (walk.root(), false);
    for name in path {
        for _ in 0..ARRAYS_MAX {
            let items = walk.items(&schemas);
            if has_member(&schemas, name) || items.is_empty() {
                break;
            }
            (schemas, is_repeated) = (items, true);
        }
        if !has_member(&schemas, name) {
            return None;
        }
        schemas = walk.member(&schemas, name);
    }
    Some(is_repeated || !walk.items(&schemas).is_empty())
}

/// Returns true if a schema declares the member, or permits any members of a declared type.
fn has_member(schemas: &[&Value], name: &str) -> bool {
    schemas.iter().any(|schema| {
        let is_declared = schema.get("properties").is_some_and(|properties| properties.get(name).is_some());
        is_declared || schema.get("additionalProperties").is_some_and(Value::is_object)
    })
}

#[cfg(test)]
mod tests;
