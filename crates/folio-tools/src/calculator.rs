//! The tool `calculator`: exact decimal arithmetic.
//!
//! ```text
//! sum     = product (("+" | "-") product)*
//! product = factor (("*" | "/") factor)*
//! factor  = ("+" | "-") factor | number | "(" sum ")"
//! ```
//!
//! A value has at most 28 digits; a quotient is rounded to them. The evaluation has no side effects, so that a check of an
//! answer repeats it.

use std::iter::Peekable;
use std::str::Chars;

use async_trait::async_trait;
use folio_types::limits;
use rust_decimal::Decimal;
use serde::Deserialize;
use serde_json::Value;

use crate::arguments::{required, text};
use crate::call::{ReadCall, read_tool};
use crate::tool::{CallContext, Tool, ToolError};

/// Name of the tool.
pub const CALCULATOR: &str = "calculator";
/// Maximum nesting of parentheses and signs.
const DEPTH_MAX: u32 = 64;

/// Reason why an expression has no result. The texts are sent to models.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum CalculationError {
    #[error("Unsafe expression: only digits, blanks and the characters . + - * / ( ) are permitted")]
    Unsafe,
    #[error("Unsafe expression: it has more than {} characters", limits::EXPRESSION_CHARS)]
    TooLong,
    #[error("Invalid expression: parentheses and signs are nested deeper than {} levels", DEPTH_MAX)]
    TooDeep,
    #[error("Invalid expression: a number, an operator or a parenthesis is missing or misplaced")]
    Syntax,
    #[error("Invalid expression: a number has more than 28 digits")]
    Number,
    #[error("Invalid expression: division by zero")]
    DivisionByZero,
    #[error("Invalid expression: the result exceeds 28 digits")]
    Overflow,
}

/// Returns the value of an expression.
///
/// # Errors
/// [`CalculationError`].
pub fn evaluate(expression: &str) -> Result<Decimal, CalculationError> {
    if expression.chars().count() > limits::EXPRESSION_CHARS {
        return Err(CalculationError::TooLong);
    }
    let is_permitted =
        |c: char| c.is_ascii_digit() || matches!(c, ' ' | '\t' | '.' | '+' | '-' | '*' | '/' | '(' | ')');
    if !expression.chars().all(is_permitted) {
        return Err(CalculationError::Unsafe);
    }
    let mut parser = Parser { rest: expression.chars().peekable(), depth: 0 };
    let value = parser.sum()?;
    match parser.next_symbol() {
        None => Ok(value.normalize()),
        Some(_) => Err(CalculationError::Syntax),
    }
}

/// Returns true if two expressions differ only in blanks.
pub(crate) fn is_same_expression(one: &str, other: &str) -> bool {
    let symbols = |text: &str| text.chars().filter(|c| !matches!(c, ' ' | '\t')).collect::<String>();
    symbols(one) == symbols(other)
}

struct Parser<'a> {
    rest: Peekable<Chars<'a>>,
    depth: u32,
}

impl Parser<'_> {
    /// Returns the next character that is no blank, without consuming it.
    fn next_symbol(&mut self) -> Option<char> {
        while self.rest.next_if(|c| matches!(c, ' ' | '\t')).is_some() {}
        self.rest.peek().copied()
    }

    /// Consumes the next symbol if it is one of two.
    fn take(&mut self, one: char, other: char) -> Option<char> {
        let symbol = self.next_symbol().filter(|symbol| *symbol == one || *symbol == other)?;
        self.rest.next();
        Some(symbol)
    }

    fn sum(&mut self) -> Result<Decimal, CalculationError> {
        let mut value = self.product()?;
        while let Some(operator) = self.take('+', '-') {
            let other = self.product()?;
            let result = if operator == '+' { value.checked_add(other) } else { value.checked_sub(other) };
            value = result.ok_or(CalculationError::Overflow)?;
        }
        Ok(value)
    }

    fn product(&mut self) -> Result<Decimal, CalculationError> {
        let mut value = self.factor()?;
        while let Some(operator) = self.take('*', '/') {
            let other = self.factor()?;
            if operator == '/' && other.is_zero() {
                return Err(CalculationError::DivisionByZero);
            }
            let result = if operator == '*' { value.checked_mul(other) } else { value.checked_div(other) };
            value = result.ok_or(CalculationError::Overflow)?;
        }
        Ok(value)
    }

    fn factor(&mut self) -> Result<Decimal, CalculationError> {
        match self.next_symbol() {
            Some('(') => {
                self.rest.next();
                let value = self.nested(Self::sum)?;
                match self.take(')', ')') {
                    Some(_) => Ok(value),
                    None => Err(CalculationError::Syntax),
                }
            }
            Some(sign @ ('+' | '-')) => {
                self.rest.next();
                let value = self.nested(Self::factor)?;
                Ok(if sign == '-' { -value } else { value })
            }
            Some(c) if c.is_ascii_digit() || c == '.' => self.number(),
            _ => Err(CalculationError::Syntax),
        }
    }

    fn nested(
        &mut self,
        parse: fn(&mut Self) -> Result<Decimal, CalculationError>,
    ) -> Result<Decimal, CalculationError> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(CalculationError::TooDeep);
        }
        let value = parse(self);
        self.depth -= 1;
        value
    }

    fn number(&mut self) -> Result<Decimal, CalculationError> {
        let mut digits = String::new();
        while let Some(c) = self.rest.next_if(|c| c.is_ascii_digit() || *c == '.') {
            digits.push(c);
        }
        let is_number = digits.starts_with(|c: char| c.is_ascii_digit())
            && digits.ends_with(|c: char| c.is_ascii_digit())
            && digits.matches('.').count() <= 1;
        if !is_number {
            return Err(CalculationError::Syntax);
        }
        Decimal::from_str_exact(&digits).map_err(|_| CalculationError::Number)
    }
}

pub(crate) fn tools() -> Vec<Tool> {
    let expression = format!(
        "Arithmetic with digits, blanks and . + - * / ( ), such as 4200 - (1200 + 0.12*4200), at most {} characters. \
         Write numbers without thousands separators, units and exponents.",
        limits::EXPRESSION_CHARS
    );
    vec![read_tool::<Calculator>(
        CALCULATOR,
        "Computes an arithmetic expression with exact decimals and returns \"Result: \" with its value. Call it for every \
         computation, also a simple one. It fails with \"Unsafe expression\" or \"Invalid expression\" and the reason.",
        vec![required("expression", text(&expression))],
    )]
}

#[derive(Deserialize)]
struct Calculator {
    expression: String,
}

#[async_trait]
impl ReadCall for Calculator {
    async fn run(self, _: &CallContext) -> Result<Value, ToolError> {
        match evaluate(&self.expression) {
            Ok(value) => Ok(format!("Result: {value}").into()),
            Err(error) => Err(ToolError::ForModel(error.to_string())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(expression: &str) -> String {
        evaluate(expression).map_or_else(|error| error.to_string(), |value| value.to_string())
    }

    #[test]
    fn arithmetic_is_exact() {
        for (expression, expected) in [
            ("4200 - (1200 + 0.12*4200)", "2496"),
            ("0.1 + 0.2", "0.3"),
            ("1 - 0.9", "0.1"),
            ("2 + 3 * 4", "14"),
            ("(2 + 3) * 4", "20"),
            ("20 - 5 - 5", "10"),
            ("100 / 10 / 5", "2"),
            ("2 - -3", "5"),
            ("- ( 1 + 2 )", "-3"),
            ("+7", "7"),
            ("--7", "7"),
            ("\t12.50\t", "12.5"),
            ("10 / 4", "2.5"),
            ("1 / 3", "0.3333333333333333333333333333"),
            ("0 * 5", "0"),
            ("007", "7"),
        ] {
            assert_eq!(value(expression), expected, "{expression}");
        }
    }

    #[test]
    fn other_characters_and_long_expressions_are_unsafe() {
        for expression in ["1e5", "x + 1", "__import__('os')", "1,000", "2 ^ 3", "5 %", "1\n+ 1", "１ + 1", "$5"] {
            assert_eq!(evaluate(expression), Err(CalculationError::Unsafe), "{expression}");
        }
        let long = |chars: usize| "1".to_owned() + &" ".repeat(chars - 1);
        assert_eq!(value(&long(limits::EXPRESSION_CHARS)), "1");
        assert_eq!(evaluate(&long(limits::EXPRESSION_CHARS + 1)), Err(CalculationError::TooLong));
        for error in [CalculationError::Unsafe, CalculationError::TooLong] {
            assert!(error.to_string().starts_with("Unsafe expression"));
        }
    }

    #[test]
    fn malformed_expressions_are_invalid() {
        for expression in [
            "", " ", "+", "1 +", "* 2", "1 2", "2(3)", "(1", "1)", "()", "1..2", "1.2.3", ".", ".5", "5.", "2**3",
            "1 // 2", "(1)(2)",
        ] {
            assert_eq!(evaluate(expression), Err(CalculationError::Syntax), "{expression}");
        }
        assert!(CalculationError::Syntax.to_string().starts_with("Invalid expression"));
    }

    #[test]
    fn depth_digits_and_division_by_zero_are_bounded() {
        let nested = |depth: usize| format!("{}1{}", "(".repeat(depth), ")".repeat(depth));
        assert_eq!(value(&nested(64)), "1");
        assert_eq!(evaluate(&nested(65)), Err(CalculationError::TooDeep));
        assert_eq!(evaluate(&format!("{}1", "-".repeat(65))), Err(CalculationError::TooDeep));
        assert_eq!(value(&vec!["(1)"; 200].join("+")), "200", "only nesting counts");
        for expression in ["1 / 0", "1 / (2 - 2)", "0 / 0.0"] {
            assert_eq!(evaluate(expression), Err(CalculationError::DivisionByZero), "{expression}");
        }
        assert_eq!(evaluate(&"9".repeat(40)), Err(CalculationError::Number));
        let large = "9".repeat(28);
        assert_eq!(evaluate(&format!("{large} * {large}")), Err(CalculationError::Overflow));
    }

    #[test]
    fn blanks_do_not_distinguish_expressions() {
        assert!(is_same_expression("1+2", " 1 + 2 "));
        assert!(!is_same_expression("1+2", "1+3"));
    }

    proptest::proptest! {
        #[test]
        fn no_expression_panics(expression in "[0-9 .+*/()-]{0,80}") {
            let _ = evaluate(&expression);
        }
    }
}
