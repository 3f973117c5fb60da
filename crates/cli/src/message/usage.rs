//! Errors in the command line, in the format of other messages.
//!
//! The parser's own text takes ten lines and repeats the wrong value, which may be a password. So only the kind of the error is taken from
//! it.

use std::io::Write as _;
use std::process::ExitCode;

use clap::CommandFactory as _;
use clap::Error;
use clap::error::{ContextKind, ContextValue, ErrorKind};

use super::foreign_commands::{ForeignLine, moved_flags_hint};
use super::{JsonOutputs, foreign_flags};
use crate::args::{CliArgs, argument_name, context_strings, is_value_missing, value_problem};
use crate::exit::ExitReason;
use crate::output;

/// Prints the error in the requested format, or the requested help or version.
pub(crate) fn report_usage_error(error: &Error, outputs: JsonOutputs) -> ExitCode {
    if !error.use_stderr() {
        return print_help(error).into();
    }
    if error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        let _ = error.print();
        return ExitReason::Usage.into();
    }
    let words: Vec<String> = std::env::args_os()
        .skip(1)
        .map(|word| word.to_string_lossy().into_owned())
        .collect();
    let (text, hint) = explain(error, &words);
    outputs
        .report_failure(ExitReason::Usage, &text, Some(&hint))
        .into()
}

/// Prints help or version, which is a result like any other.
fn print_help(error: &Error) -> ExitReason {
    let printed = output::check_stdout()
        .and_then(|()| error.print())
        .and_then(|()| std::io::stdout().flush());
    match printed {
        Ok(()) => ExitReason::Done,
        Err(error) => output::report_write_error(&error),
    }
}

/// The message and the hint. `words` is the command line.
fn explain(error: &Error, words: &[String]) -> (String, String) {
    let (text, hint) = explain_error(error, words);
    // Other programs copy to and from a store by one command.
    let copy = match words.split_first() {
        Some((command, rest)) if command == "cp" => ForeignLine::new(command, rest).copy_line(),
        _ => None,
    };
    match copy.filter(|line| !line.starts_with("haul cp ")) {
        Some(line) => ("haul cp copies inside a store".to_owned(), line),
        None => (text, hint),
    }
}

fn explain_error(error: &Error, words: &[String]) -> (String, String) {
    let argument = context_strings(error, ContextKind::InvalidArg);
    let flag = argument
        .first()
        .map(|text| flag_names(error, argument_name(text)))
        .unwrap_or_default();
    let text = match error.kind() {
        ErrorKind::ValueValidation => return explain_value(error, &flag),
        ErrorKind::MissingRequiredArgument => {
            let missing: Vec<&str> = argument.iter().map(|text| argument_name(text)).collect();
            let are = if missing.len() > 1 { "are" } else { "is" };
            format!("{} {are} missing", missing.join(" and "))
        }
        ErrorKind::ArgumentConflict => {
            let prior = context_strings(error, ContextKind::PriorArg);
            match prior
                .first()
                .map(|prior| flag_names(error, argument_name(prior)))
            {
                Some(prior) if prior != flag => {
                    format!("{flag} and {prior} cannot be used together")
                }
                _ => format!("{flag} is given twice"),
            }
        }
        ErrorKind::UnknownArgument => {
            return (
                unknown_argument_text(&flag),
                unknown_flag_hint(error, &flag, words),
            );
        }
        ErrorKind::TooManyValues => format!("{flag} takes no value"),
        ErrorKind::InvalidUtf8 => "an argument is not UTF-8".to_owned(),
        ErrorKind::InvalidSubcommand => {
            let command = context_strings(error, ContextKind::InvalidSubcommand);
            return explain_command(error, command.first().copied().unwrap_or_default(), words);
        }
        ErrorKind::InvalidValue if is_value_missing(error) => format!("{flag} needs a value"),
        ErrorKind::InvalidValue => return explain_value(error, &flag),
        // The parser's own message could repeat a value.
        kind => format!("{flag} cannot be understood here: {kind}"),
    };
    (text, suggestion(error))
}

/// A value that its type does not accept.
fn explain_value(error: &Error, flag: &str) -> (String, String) {
    let (text, hint) = value_problem(error);
    // An argument without a flag needs no name: it is the URL.
    let text = if flag.starts_with('-') {
        format!("{flag}: {text}")
    } else {
        text
    };
    (text, hint.unwrap_or_else(|| suggestion(error)))
}

fn explain_command(error: &Error, command: &str, words: &[String]) -> (String, String) {
    let similar = context_strings(error, ContextKind::SuggestedSubcommand);
    // The text may be a URL with a password.
    let shown = haul_net::redacted_text(command);
    let rest: Vec<String> = words
        .iter()
        .skip_while(|word| *word != command)
        .skip(1)
        .cloned()
        .collect();
    let foreign = ForeignLine::new(command, &rest).hint();
    let hint = match similar.first() {
        _ if command.contains("://") && words.first().is_some_and(|word| word == "bench") => {
            format!(
                "to put a load on it: haul bench load {shown}; to download it in several ways: haul bench accelerate {shown}"
            )
        }
        _ if command.contains("://") => format!("to download: haul get {shown}"),
        _ if command.contains('.') => "to download: haul get URL".to_owned(),
        _ if foreign.is_some() => foreign.unwrap_or_default(),
        Some(similar) => format!("did you mean haul {similar} ?"),
        None => "haul --help lists the commands".to_owned(),
    };
    (format!("unknown command {shown}"), hint)
}

fn is_command(word: &str) -> bool {
    CliArgs::command().find_subcommand(word).is_some()
}

/// An unknown flag, or an unexpected argument. What follows the name may be its value, which may be a secret.
fn unknown_argument_text(word: &str) -> String {
    if !word.starts_with('-') {
        // The argument may be a login whose flag was forgotten: me:password:rw.
        let (shown, secret) = match word.split_once(':') {
            Some((name, rest)) if !rest.starts_with("//") => (name, ":..."),
            _ => (word, ""),
        };
        let shown = haul_net::redacted_text(shown);
        return format!("unexpected argument {shown}{secret}");
    }
    let end = word.find(|c: char| !c.is_alphanumeric() && c != '-');
    format!("unknown flag {}", &word[..end.unwrap_or(word.len())])
}

/// The names of a flag: `-x/--max-connections` if it has a short one in the command that was meant.
fn flag_names(error: &Error, flag: &str) -> String {
    let Some(long) = flag.strip_prefix("--") else {
        return flag.to_owned();
    };
    let (all, meant) = (CliArgs::command(), command_name(error));
    let mut known = all
        .find_subcommand(meant)
        .into_iter()
        .flat_map(|sub| sub.get_arguments());
    let short = known
        .find(|known| known.get_long() == Some(long))
        .and_then(|known| known.get_short());
    short.map_or_else(|| flag.to_owned(), |short| format!("-{short}/{flag}"))
}

/// The parser's guess, or where to look.
fn suggestion(error: &Error) -> String {
    match context_strings(error, ContextKind::SuggestedArg).first() {
        Some(similar) => format!("did you mean {} ?", argument_name(similar)),
        None => format!("see haul {} --help", command_path(error)),
    }
}

/// The command that was meant, with the command below it: `bench load`.
fn command_path(error: &Error) -> String {
    let name = command_name(error);
    let usage = usage_text(error);
    let mut words = usage
        .split_whitespace()
        .skip_while(|word| *word != name)
        .skip(1);
    let all = CliArgs::command();
    let below = words.next().filter(|word| {
        let command = all.find_subcommand(&name);
        command.is_some_and(|command| command.find_subcommand(word).is_some())
    });
    below.map_or_else(|| name.clone(), |below| format!("{name} {below}"))
}

/// The usage text of an error; `None` for an error about a value.
fn usage_text(error: &Error) -> String {
    match error.get(ContextKind::Usage) {
        Some(ContextValue::StyledStr(usage)) => usage.to_string(),
        _ => String::new(),
    }
}

/// The hint for an unknown flag: haul's own for what another program calls so, or a flag that is spelled nearly so.
fn unknown_flag_hint(error: &Error, flag: &str, words: &[String]) -> String {
    let command = command_name(error);
    let is_before_command = words.first().is_some_and(|word| word.starts_with('-'));
    if is_before_command && is_flag_of_any_command(flag) {
        return moved_flags_hint(words, is_command, flag);
    }
    if let Some(hint) = foreign_flags::hint_for(&command, flag) {
        return hint.to_owned();
    }
    let similar = context_strings(error, ContextKind::SuggestedArg);
    // The parser also suggests flags that have only a part in common.
    match similar.first().map(|similar| argument_name(similar)) {
        Some(similar) if is_misspelling(flag, similar) => format!("did you mean {similar} ?"),
        _ => format!("see haul {} --help", command_path(error)),
    }
}

fn is_flag_of_any_command(flag: &str) -> bool {
    let command = CliArgs::command();
    let mut all = command
        .get_subcommands()
        .flat_map(|sub| sub.get_arguments());
    all.any(|own| {
        own.get_long()
            .is_some_and(|long| flag.strip_prefix("--") == Some(long))
    })
}

/// Whether a flag is probably a mistyped other flag: the beginning of its name, or the name with at most two typing errors.
fn is_misspelling(flag: &str, meant: &str) -> bool {
    meant.starts_with(flag) || strsim::damerau_levenshtein(flag, meant) <= 2
}

/// The command that was meant: from the usage text of the error, else from the command line, else `get`.
fn command_name(error: &Error) -> String {
    let is_known = |name: &str| {
        let known = CliArgs::command();
        known.get_subcommands().any(|sub| sub.get_name() == name)
    };
    let usage = usage_text(error);
    let mut words = usage.split_whitespace().skip_while(|word| *word != "haul");
    let named = words.nth(1).filter(|name| is_known(name));
    // An error about a value has no usage text.
    let typed = std::env::args_os()
        .nth(1)
        .and_then(|word| word.into_string().ok())
        .filter(|word| is_known(word));
    named
        .map(str::to_owned)
        .or(typed)
        .unwrap_or_else(|| "get".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::CliArgs;

    fn message_for(line: &str) -> String {
        let words: Vec<String> = line.split('|').map(str::to_owned).collect();
        let line = std::iter::once("haul").chain(line.split('|'));
        match CliArgs::parse_words(line) {
            Ok(_) => "accepted".to_owned(),
            Err(error) => {
                let (text, hint) = explain(&error, &words);
                format!("{text} / {hint}")
            }
        }
    }

    fn messages_for(lines: &[&str]) -> String {
        let messages: Vec<String> = lines
            .iter()
            .map(|line| format!("{line}\n    {}", message_for(line)))
            .collect();
        messages.join("\n")
    }

    #[test]
    fn every_kind_of_mistake_has_its_message() {
        let lines = [
            "get",
            "get|example.com/f",
            "get|http://h/f|--overwite",
            "get|http://h/f|--bogus",
            "get|http://h/f|--proxy-use|me",
            "get|http://h/f|--overw",
            "get|-O|http://h/f",
            "get|-Lc|http://h/f",
            "get|http://h/f|--timeout=5",
            "get|http://h/f|-k|-k",
            "get|http://h/f|-x|0",
            "get|http://h/f|-x|many",
            "get|http://h/f|-o",
            "get|http://h/f|-o|a|-d|b",
            "get|http://h/f|-o|a|-o|b",
            "get|http://h/f|--retries|-1",
            "get|http://h/f|-x|-1",
            "get|http://h/f|--limit-rate|-1",
            "get|http://h/f|--bogus=s",
            "completions|bash|zsh",
            "demo|extra",
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
        insta::assert_snapshot!(messages_for(&lines));
    }

    #[test]
    fn the_first_words_of_users_of_other_programs_are_answered() {
        let lines = [
            "http://me:pw@h/f",
            "cp|f|s3://b/k",
            "cp|-r|dir|s3://b/p/",
            "cp|--recursive|s3://b/p/|.",
            "cp|s3://b/k|/no/such",
            "cp|a|b",
            "cp|s3://b/k|s3://c/k|--acll",
            "mv|s3://b/k|s3://c/k",
            "mb|s3://b",
            "cat|s3://b/k",
            "s3|ls|s3://b",
            "s3|mv|f|s3://b/",
            "s3|cp|f|s3://b/",
            "s3|cp|s3://b/k|.",
            "s3|ls|-r|s3://b",
            "s3",
            "--endpoint-url|http://x|ls|s3://b",
            "--no-sign-request|s3|ls|s3://b",
            "--bogus|ls",
            "serve|-p|8080",
            "serve|--bind|0.0.0.0",
            "ls|--human-readable|s3://b",
            "put|f|s3://b/k|--only-show-errors",
            "presign|s3://b/k|--expires-in|60",
            "rm|--recursive|s3://b/p/|--quiett",
            "bench|http://h/f",
            "bench|load|http://h/f|-d|10s",
            "bench|load|http://h/f|--bogus",
        ];
        insta::assert_snapshot!(messages_for(&lines));
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
            "http://h/f?token=s3cret",
            "get|http://me:s3cret/pw@h/x",
            "get|http//me:s3cret@h/x",
            "get|me:s3cret@h",
            "get|ftp://me:s3cret@h/",
            "get|ftp://h/?access_token=s3cret",
            "get|h.test/f?sig=s3cret",
            "get|-x|http://me:s3cret@h/f",
            "get|--resolve|http://h/f?key=s3cret",
            "get|http://h/f|--json=s3cret",
            "get|http://h/f|--bearer:s3cret",
            "get|http://h/f|--progress|s3cret",
            "completions|bash|http://me:s3cret@h/",
            "serve|--bogus|--auth|me:s3cret:ro",
            "serve|d|me:s3cret:ro",
            "serve|--auth=me:s3cret:ro|-w=s3cret",
            "serve|-l|http://me:s3cret@h/",
            "serve|--anonymous|s3cret",
            "serve|--cache-control|a\n?sig=s3cret",
            "sign|http//me:s3cret@h/x|--key|k",
            "sign|http://h/|http://me:s3cret@h/x",
            "cp|http://me:s3cret@h/f|.",
            "curl|-u|me:s3cret|http://h/f",
            "cat|http://h/?token=s3cret",
            "-u|me:s3cret|get|http://h/f",
            "--endpoint-url|http://me:s3cret@h/|ls",
            "mv|http://me:s3cret@h/f|x",
        ];
        for line in lines {
            let message = message_for(line);
            assert!(!message.contains("s3cret"), "{message}");
        }
    }
}
