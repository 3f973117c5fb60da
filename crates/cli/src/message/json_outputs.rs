//! In which form a failure is told that comes before any job has begun.
//!
//! Such a failure is told as those of jobs are: under `--json` as an object on standard output (and in words on standard
//! error), under `--progress json` as an object on standard error and not in words. Its `url` or `job` is null.

use std::ffi::OsString;

use serde_json::json;

use crate::args::{GetArgs, ProgressKind};
use crate::exit::ExitReason;
use crate::output;
use crate::progress;

/// Which objects were asked for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct JsonOutputs {
    /// `--json`.
    pub(crate) result: bool,
    /// `--progress json`.
    pub(crate) progress: bool,
}

impl JsonOutputs {
    /// What arguments ask for.
    pub(crate) fn requested_by(args: &GetArgs) -> Self {
        Self {
            // Where a file is expected, an object would be taken for one.
            result: args.messages.json
                && !args.output.is_stdout()
                && !args.batch.is_tar_to_stdout(),
            progress: args.messages.progress == ProgressKind::Json,
        }
    }

    /// What a command line asks for that could not be parsed, as far as that can be told.
    pub(crate) fn requested_by_words(words: impl IntoIterator<Item = OsString>) -> Self {
        let mut form = Self::default();
        let mut before = OsString::new();
        for word in words.into_iter().take_while(|word| word != "--") {
            form.result |= word == "--json";
            form.progress |=
                word == "--progress=json" || (before == "--progress" && word == "json");
            before = word;
        }
        form
    }

    /// Tells a failure. Nobody is left to tell when that fails too.
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
            let told = progress::early_failure_object(exit, &message, hint.as_deref());
            let _ = output::write_stderr_line(&told);
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
        let form =
            |line: &str| JsonOutputs::requested_by_words(line.split(' ').map(OsString::from));
        let (result, progress) = (true, true);
        assert_eq!(
            form("haul get --json --bogus"),
            JsonOutputs {
                result,
                ..JsonOutputs::default()
            }
        );
        assert_eq!(
            form("haul get --progress json"),
            JsonOutputs {
                progress,
                ..JsonOutputs::default()
            }
        );
        assert_eq!(
            form("haul --progress=json --json"),
            JsonOutputs { result, progress }
        );
        for line in [
            "haul get json --progress",
            "haul get --progress plain json",
            "haul get -- --json",
        ] {
            assert_eq!(form(line), JsonOutputs::default(), "{line}");
        }
    }
}
