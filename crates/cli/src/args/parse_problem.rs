//! What an error of the parser says, without the value, which may be a password.

use clap::Error;
use clap::error::{ContextKind, ContextValue, ErrorKind};

use super::ValueError;

/// An error about options of a file, where no flag is named.
#[derive(Debug)]
pub(crate) struct ParseProblem {
    /// The arguments that it is about.
    pub(crate) arguments: Vec<String>,
    pub(crate) text: String,
    pub(crate) hint: Option<String>,
}

impl ParseProblem {
    pub(crate) fn new(error: &Error) -> Self {
        let invalid = context_strings(error, ContextKind::InvalidArg);
        let arguments: Vec<String> = invalid
            .into_iter()
            .map(|text| argument_name(text).to_owned())
            .collect();
        let without_dashes = |text: &str| text.trim_start_matches('-').to_owned();
        let (text, hint) = match error.kind() {
            ErrorKind::UnknownArgument => {
                let similar = context_strings(error, ContextKind::SuggestedArg)
                    .first()
                    .map(|text| argument_name(text));
                let hint = match similar {
                    Some(similar) => format!("did you mean {} ?", without_dashes(similar)),
                    None => "a key is the name of a flag without its dashes".to_owned(),
                };
                ("unknown key".to_owned(), Some(hint))
            }
            ErrorKind::ArgumentConflict => {
                let prior = context_strings(error, ContextKind::PriorArg)
                    .first()
                    .map_or("itself", |text| argument_name(text));
                let text = format!("cannot be used together with {}", without_dashes(prior));
                (text, None)
            }
            ErrorKind::MissingRequiredArgument => {
                let names: Vec<String> =
                    arguments.iter().map(|name| without_dashes(name)).collect();
                (format!("{} is missing", names.join(" or ")), None)
            }
            _ => value_problem(error),
        };
        Self {
            arguments,
            text,
            hint,
        }
    }
}

/// Why a value cannot be used, and what to write instead, if known.
pub(crate) fn value_problem(error: &Error) -> (String, Option<String>) {
    let source = std::error::Error::source(error);
    match error.kind() {
        ErrorKind::InvalidValue if is_value_missing(error) => {
            ("a value is missing".to_owned(), None)
        }
        ErrorKind::InvalidValue => {
            let valid = context_strings(error, ContextKind::ValidValue).join(", ");
            ("unknown value".to_owned(), Some(format!("one of {valid}")))
        }
        _ => {
            let text = source.map_or_else(|| "invalid value".to_owned(), ToString::to_string);
            let value_error = source.and_then(|source| source.downcast_ref::<ValueError>());
            let hint = value_error.and_then(ValueError::hint);
            (text, hint.map(str::to_owned))
        }
    }
}

/// Whether there is no value where one is needed.
pub(crate) fn is_value_missing(error: &Error) -> bool {
    let values = context_strings(error, ContextKind::InvalidValue);
    error.kind() == ErrorKind::InvalidValue && values.iter().all(|text| text.is_empty())
}

/// The name of an argument: `--output <FILE>` without its value, `[URL]...` without brackets and dots.
pub(crate) fn argument_name(argument: &str) -> &str {
    let name = argument.split([' ', '=']).next().unwrap_or_default();
    name.trim_end_matches("...")
        .trim_matches(['<', '>', '[', ']'])
}

/// The texts of one kind that an error has.
pub(crate) fn context_strings(error: &Error, kind: ContextKind) -> Vec<&str> {
    match error.get(kind) {
        Some(ContextValue::String(text)) => vec![text],
        Some(ContextValue::Strings(texts)) => texts.iter().map(String::as_str).collect(),
        _ => Vec::new(),
    }
}
