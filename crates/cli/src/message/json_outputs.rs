//! The format of a failure that occurs before any job has started.
//!
//! It is reported as failures of jobs are: with `--json` as an object on standard output, and as a message; with `--progress json` as an
//! object on standard error, and not as a message. Its `url` or `job` is null.

use std::ffi::OsString;

use serde_json::json;

use crate::args::{GetArgs, ProgressKind};
use crate::exit::ExitReason;
use crate::output;
use crate::progress;

/// Which JSON outputs the user requested.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct JsonOutputs {
    /// `--json`.
    pub(crate) result: bool,
    /// `--progress json`.
    pub(crate) progress: bool,
}

impl JsonOutputs {
    pub(crate) fn requested_by(args: &GetArgs) -> Self {
        Self {
            // Not where standard output is the file.
            result: args.messages.json
                && !args.output.is_stdout()
                && !args.batch.is_tar_to_stdout(),
            progress: args.messages.progress == ProgressKind::Json,
        }
    }

    /// The outputs that a command line requests that cannot be parsed, as far as that can be known.
    pub(crate) fn requested_by_words(arguments: impl IntoIterator<Item = OsString>) -> Self {
        let mut outputs = Self::default();
        let mut previous = OsString::new();
        for argument in arguments
            .into_iter()
            .take_while(|argument| argument != "--")
        {
            outputs.result |= argument == "--json";
            outputs.progress |=
                argument == "--progress=json" || (previous == "--progress" && argument == "json");
            previous = argument;
        }
        outputs
    }

    /// Reports a failure. An error in doing so is ignored: nobody is left to tell.
    pub(crate) fn report_failure(
        self,
        exit: ExitReason,
        text: &str,
        hint: Option<&str>,
    ) -> ExitReason {
        let (class, message) = (exit.name(), super::sanitize(text));
        let hint = hint.map(super::sanitize);
        if self.result {
            let error = json!({"class": class, "message": message, "hint": hint});
            let _ = output::write_stdout_lines([json!({"url": null, "error": error})]);
        }
        if self.progress {
            let object = progress::early_failure_object(exit, &message, hint.as_deref());
            let _ = output::write_stderr_line(&object);
        } else {
            super::print_error(&message, hint.as_deref());
        }
        exit
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_are_requested_even_by_a_wrong_command_line() {
        let outputs =
            |line: &str| JsonOutputs::requested_by_words(line.split(' ').map(OsString::from));
        let (result, progress) = (true, true);
        assert_eq!(
            outputs("haul get --json --bogus"),
            JsonOutputs {
                result,
                ..JsonOutputs::default()
            }
        );
        assert_eq!(
            outputs("haul get --progress json"),
            JsonOutputs {
                progress,
                ..JsonOutputs::default()
            }
        );
        assert_eq!(
            outputs("haul --progress=json --json"),
            JsonOutputs { result, progress }
        );
        for line in [
            "haul get json --progress",
            "haul get --progress plain json",
            "haul get -- --json",
        ] {
            assert_eq!(outputs(line), JsonOutputs::default(), "{line}");
        }
    }
}
