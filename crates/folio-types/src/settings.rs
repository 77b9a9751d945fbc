//! Validation of settings: every problem is reported at once, each with the path of its setting.

use std::fmt::{self, Display};
use std::time::Duration;

/// Declares a struct with the default of each field.
#[macro_export]
macro_rules! with_defaults {
    ($(#[$meta:meta])* $vis:vis struct $name:ident {
        $($(#[$field_meta:meta])* $field_vis:vis $field:ident: $type:ty = $default:expr,)+
    }) => {
        $(#[$meta])*
        $vis struct $name {
            $($(#[$field_meta])* $field_vis $field: $type,)+
        }

        impl Default for $name {
            fn default() -> Self {
                Self { $($field: $default,)+ }
            }
        }
    };
}

/// Declares settings with their defaults. Unknown keys are an error. `Duration as "KEY"` is a number of seconds under
/// this key.
///
/// ```
/// # use std::time::Duration;
/// folio_types::settings! {
///     pub struct Options {
///         /// Maximum number of waiting jobs.
///         pub jobs: usize = 1_000,
///         /// Time limit of a job.
///         pub timeout: Duration as "timeout_seconds" = Duration::from_secs(60),
///     }
/// }
/// ```
#[macro_export]
macro_rules! settings {
    ($(#[$meta:meta])* $vis:vis struct $name:ident {
        $($(#[$field_meta:meta])* $field_vis:vis $field:ident: $type:ty $(as $key:literal)? = $default:expr,)+
    }) => {
        $crate::with_defaults! {
            $(#[$meta])*
            #[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
            #[serde(deny_unknown_fields, default)]
            $vis struct $name {
                $(
                    $(#[$field_meta])*
                    $(#[serde(rename = $key, with = "folio_types::seconds")])?
                    $field_vis $field: $type = $default,
                )+
            }
        }
    };
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InvalidSettings {
    /// Problems in the form `path: problem`. They do not contain values that may be secret.
    pub problems: Vec<String>,
}

impl Display for InvalidSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "invalid settings: {}", self.problems.join("; "))
    }
}

impl std::error::Error for InvalidSettings {}

/// Collects the problems of one section.
#[derive(Debug)]
pub struct Problems {
    section: &'static str,
    found: Vec<String>,
}

impl Problems {
    /// Creates an empty collection for the settings of this section (`gateway`, `models`, …).
    pub fn of(section: &'static str) -> Self {
        Self { section, found: Vec::new() }
    }

    pub fn add(&mut self, path: impl Display, problem: impl Display) {
        self.found.push(format!("{}.{path}: {problem}", self.section));
    }

    /// Adds a problem unless `is_valid` is true.
    pub fn check(&mut self, is_valid: bool, path: impl Display, problem: impl Display) {
        if !is_valid {
            self.add(path, problem);
        }
    }

    /// Adds a problem unless the number is within the inclusive bounds.
    pub fn number<T: PartialOrd + Display>(&mut self, path: impl Display, value: T, min: T, max: T) {
        self.check(value >= min && value <= max, path, format_args!("must be from {min} to {max}"));
    }

    /// Adds a problem unless the duration is within the inclusive bounds.
    pub fn seconds(&mut self, path: impl Display, value: Duration, min: Duration, max: Duration) {
        let (min_seconds, max_seconds) = (min.as_secs_f64(), max.as_secs_f64());
        let problem = format_args!("must be from {min_seconds} to {max_seconds} seconds");
        self.check(value >= min && value <= max, path, problem);
    }

    /// Error: every collected problem.
    pub fn into_result(self) -> Result<(), InvalidSettings> {
        if self.found.is_empty() { Ok(()) } else { Err(InvalidSettings { problems: self.found }) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_problem_is_named_by_its_path_with_its_bounds() {
        let mut problems = Problems::of("gateway");
        problems.number("calls", 0, 1, 10);
        problems.number("streams", 10, 1, 10);
        problems.seconds("wait_seconds", Duration::ZERO, Duration::from_millis(10), Duration::from_secs(60));
        let message = problems.into_result().unwrap_err().to_string();
        assert!(message.contains("gateway.calls: must be from 1 to 10"), "{message}");
        assert!(message.contains("gateway.wait_seconds: must be from 0.01 to 60 seconds"), "{message}");
        assert!(!message.contains("streams"), "{message}");
        assert_eq!(Problems::of("gateway").into_result(), Ok(()));
    }

    #[test]
    fn bounds_are_inclusive() {
        let seconds = Duration::from_secs;
        for (value, is_valid) in [(1, true), (2, true), (3, true), (0, false), (4, false)] {
            let mut problems = Problems::of("gateway");
            problems.number("calls", value, 1, 3);
            assert_eq!(problems.into_result().is_ok(), is_valid, "{value}");
            let mut problems = Problems::of("gateway");
            problems.seconds("wait_seconds", seconds(value), seconds(1), seconds(3));
            assert_eq!(problems.into_result().is_ok(), is_valid, "{value} s");
        }
    }
}
