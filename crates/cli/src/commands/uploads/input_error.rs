//! What the commands say about something that is not transferred.

use haul_transfer::InputError;

use crate::exit::ExitReason;
use crate::message::{self, JsonOutputs};

/// The exit code, if nothing else fails.
pub(crate) fn input_exit(error: &InputError) -> ExitReason {
    if error.is_left_out() {
        ExitReason::SomeFailed
    } else {
        ExitReason::from_class(error.class())
    }
}

/// The message as printed. What is left out by its kind is a warning.
pub(crate) fn input_message(error: &InputError) -> String {
    let (text, hint) = (input_text(error), input_hint(error));
    if error.is_left_out() {
        message::warning_with_hint(&text, hint.as_deref())
    } else {
        message::error_text(&text, hint.as_deref())
    }
}

/// Reports it before anything is transferred.
pub(crate) fn report_input(error: &InputError, outputs: JsonOutputs) -> ExitReason {
    outputs.report_failure(
        input_exit(error),
        &input_text(error),
        input_hint(error).as_deref(),
    )
}

fn input_text(error: &InputError) -> String {
    let text = message::chain_text(error);
    match error {
        InputError::List { .. } => format!("-i: {text}"),
        _ => text,
    }
}

/// What the user can do about it.
fn input_hint(error: &InputError) -> Option<String> {
    let hint = match error {
        InputError::IsFolder(_) => "-r uploads everything below it",
        InputError::Named(problem) if problem.is_special_file() => {
            "a pipe goes to standard input: haul put - TARGET < PIPE"
        }
        InputError::TargetTaken { .. } => "upload it to another prefix",
        InputError::CopyTargetTaken { .. } => "copy it to another prefix",
        InputError::Disordered(_) => {
            "haul sync needs lists in the order of their keys, as S3 gives them"
        }
        error if error.is_folder_link() => "--follow-links follows such links",
        error => return error.store_error().and_then(message::bucket_hint),
    };
    Some(hint.to_owned())
}
