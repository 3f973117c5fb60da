//! What is wrong with a command line, in the form of all other messages.
//!
//! The parser's own text takes ten lines and repeats the value it could not use, which may be a password. So only what
//! kind of mistake it was is taken from it, and the words are ours.

use std::process::ExitCode;

use clap::Error;
use clap::error::{ContextKind, ContextValue, ErrorKind};

use crate::args::ValueError;
use crate::exit::Exit;

/// Prints what is wrong, or the help or version that was asked for.
pub(crate) fn usage(error: &Error) -> ExitCode {
    if !error.use_stderr() {
        // A closed standard output leaves nobody to tell.
        let _ = error.print();
        return Exit::Done.into();
    }
    if error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        let _ = error.print();
        return Exit::Usage.into();
    }
    let (text, hint) = explain(error);
    super::error(&super::harmless(&text), Some(&super::harmless(&hint)));
    Exit::Usage.into()
}

/// What is wrong, and what to do.
fn explain(error: &Error) -> (String, String) {
    let argument = strings(error, ContextKind::InvalidArg);
    let flag = argument.first().map(|text| name(text)).unwrap_or_default();
    let text = match error.kind() {
        ErrorKind::ValueValidation => return wrong_value(error, flag),
        ErrorKind::MissingRequiredArgument => {
            let plain = |text| name(text).trim_end_matches("...").trim_matches(['<', '>']);
            let missing: Vec<&str> = argument.iter().map(|text| plain(text)).collect();
            format!("{} is missing", missing.join(", "))
        }
        ErrorKind::ArgumentConflict => {
            let prior = strings(error, ContextKind::PriorArg);
            match prior.first() {
                Some(prior) if name(prior) != flag => {
                    format!("{flag} and {} exclude each other", name(prior))
                }
                _ => format!("{flag} is given twice"),
            }
        }
        ErrorKind::UnknownArgument => format!("there is no flag {flag}"),
        ErrorKind::InvalidSubcommand => {
            let command = strings(error, ContextKind::InvalidSubcommand);
            return unknown_command(error, command.first().copied().unwrap_or_default());
        }
        ErrorKind::InvalidValue
            if strings(error, ContextKind::InvalidValue)
                .iter()
                .all(|text| text.is_empty()) =>
        {
            format!("{flag} needs a value")
        }
        ErrorKind::InvalidValue => {
            let valid = strings(error, ContextKind::ValidValue).join(", ");
            return (
                format!("{flag}: this is not one of its values"),
                format!("one of {valid}"),
            );
        }
        _ => first_line(error),
    };
    (text, suggestion(error))
}

/// A value that one of our own types, or the parser's, would not take.
fn wrong_value(error: &Error, flag: &str) -> (String, String) {
    let source = std::error::Error::source(error);
    let why = source.map_or_else(
        || "this value cannot be used".to_owned(),
        ToString::to_string,
    );
    let advice = source
        .and_then(|source| source.downcast_ref::<ValueError>())
        .and_then(ValueError::advice);
    // An argument without a flag needs no name: there is only the URL.
    let text = if flag.starts_with('-') {
        format!("{flag}: {why}")
    } else {
        why
    };
    (
        text,
        advice.map_or_else(|| suggestion(error), str::to_owned),
    )
}

fn unknown_command(error: &Error, command: &str) -> (String, String) {
    let similar = strings(error, ContextKind::SuggestedSubcommand);
    let hint = match similar.first() {
        _ if command.contains("://") || command.contains('.') => {
            "downloads are written as: haul get URL".to_owned()
        }
        Some(similar) => format!("did you mean haul {similar} ?"),
        None => "haul --help lists the commands".to_owned(),
    };
    // What stands here may be a URL with a password.
    let shown = if command.contains('@') {
        "that"
    } else {
        command
    };
    (format!("{shown} is no command"), hint)
}

/// The parser's guess at what was meant, or where to look.
fn suggestion(error: &Error) -> String {
    match strings(error, ContextKind::SuggestedArg).first() {
        Some(similar) => format!("did you mean {} ?", name(similar)),
        None => "see haul get --help".to_owned(),
    }
}

/// `--output <FILE>` without its value.
fn name(argument: &str) -> &str {
    argument.split([' ', '=']).next().unwrap_or_default()
}

fn strings(error: &Error, kind: ContextKind) -> Vec<&str> {
    match error.get(kind) {
        Some(ContextValue::String(text)) => vec![text],
        Some(ContextValue::Strings(texts)) => texts.iter().map(String::as_str).collect(),
        _ => Vec::new(),
    }
}

/// For kinds that no command line of ours should come to.
fn first_line(error: &Error) -> String {
    let text = error.render().to_string();
    let line = text.lines().next().unwrap_or_default();
    line.trim_start_matches("error: ").to_owned()
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::args::Args;

    fn told(line: &str) -> String {
        let words = std::iter::once("haul").chain(line.split('|'));
        let (text, hint) = explain(&Args::try_parse_from(words).unwrap_err());
        format!("{text} / {hint}")
    }

    #[test]
    fn every_kind_of_mistake_has_its_words() {
        let lines = [
            "get",
            "get|example.com/f",
            "get|http://h/f|--overwite",
            "get|http://h/f|--bogus",
            "get|http://h/f|-x|0",
            "get|http://h/f|-x|many",
            "get|http://h/f|-o",
            "get|http://h/f|-o|a|-d|b",
            "get|http://h/f|-o|a|-o|b",
            "get|http://h/f|--cert|c",
            "get|http://h/f|--progress|loud",
            "get|http://h/f|--checksum|sha3",
            "get|http://h/f|--checksum|md5:abc",
            "get|http://h/f|--limit-rate|fast",
            "get|http://h/f|--stall-timeout|soon",
            "get|http://h/f|-q|-v",
            "get|http://h/f|--json=yes",
            "gte|http://h/f",
            "http://h/f",
        ];
        let said: Vec<String> = lines
            .iter()
            .map(|line| format!("{line}\n    {}", told(line)))
            .collect();
        insta::assert_snapshot!(said.join("\n"));
    }

    #[test]
    fn values_that_may_be_secrets_are_not_repeated() {
        let lines = [
            "get|http://h/f|-H|Authorization Bearer s3cret",
            "get|http://h/f|--proxy|ftp://me:s3cret@p",
            "get|ftp://me:s3cret@h/f",
            "get|me:s3cret@h.test/f",
            "get|http://h/f|--bearer|s3cret s3cret",
            "get|http://h/f|-u|:s3cret",
            "http://me:s3cret@h/f",
        ];
        for line in lines {
            let said = told(line);
            assert!(!said.contains("s3cret"), "{said}");
        }
    }
}
