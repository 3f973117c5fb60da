//! Whether a server refuses a single file of a run, or would refuse every other in the same way (row F35).
//!
//! Some refusals say so themselves: there is no such bucket, the key is unknown. Most do not: `AccessDenied` may be about one folder of a
//! bucket. Such a refusal counts as one of the whole run when [`FIRST_FILES`] files were refused in the same way and none was accepted. Until then
//! only the first one is reported.

use http::StatusCode;

/// How many files must be refused in the same way to end the run, if each refusal may be about its file alone.
const FIRST_FILES: u64 = 50;

/// What a refusal is about, by its status and code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RefusalReach {
    /// This file alone.
    File,
    /// Nobody knows: what others get shows it.
    Unknown,
    /// Every file of the run.
    Run,
}

impl RefusalReach {
    /// The reach of a response. `code` is that of a store, and empty for other servers.
    #[must_use]
    pub fn of_response(status: StatusCode, code: &str) -> Self {
        match code {
            "NoSuchBucket"
            | "InvalidBucketName"
            | "InvalidAccessKeyId"
            | "InvalidToken"
            | "ExpiredToken"
            | "TokenRefreshRequired"
            | "AllAccessDisabled"
            | "AccountProblem"
            | "NotSignedUp"
            | "UserSuspended" => Self::Run,
            "NoSuchKey"
            | "NoSuchVersion"
            | "NoSuchUpload"
            | "KeyTooLongError"
            | "XMinioInvalidObjectName"
            | "EntityTooLarge"
            | "EntityTooSmall"
            | "InvalidPart"
            | "InvalidPartOrder"
            | "InvalidObjectState"
            | "InvalidRange"
            | "PreconditionFailed"
            | "BadDigest"
            | "InvalidDigest" => Self::File,
            _ => match status.as_u16() {
                // About the name, a condition, the size or the type.
                404 | 409 | 410 | 412..=416 => Self::File,
                // About this moment.
                408 | 425 | 429 => Self::File,
                // An error in a response that began with 200 has no other status.
                200 | 400..=499 | 501 => Self::Unknown,
                // The server may do better with the next one.
                _ => Self::File,
            },
        }
    }
}

/// What to do about the refusal of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RefusalAction {
    Report,
    /// The same refusal was reported for another file: report this one only if [`SharedRefusal::is_settled`] later.
    Defer,
    /// Report it and end the run.
    ReportAndStop,
    /// End the run. The same refusal was reported for another file.
    Stop,
}

/// Finds out whether the refusals of a run are one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct SharedRefusal {
    /// Whether refusals are about single files: one was accepted, or they differ.
    is_settled: bool,
    /// The cause of the first refusal, and how many files were refused for it.
    first: Option<(String, u64)>,
    has_ended: bool,
}

impl SharedRefusal {
    /// A file was accepted.
    pub(crate) fn on_accepted(&mut self) {
        self.is_settled = true;
    }

    /// A file was refused. `cause` is the same text for the same cause.
    pub(crate) fn on_refused(&mut self, reach: RefusalReach, cause: &str) -> RefusalAction {
        let is_reported = matches!(&self.first, Some((first, _)) if first == cause);
        if self.has_ended {
            // The file was under way when the run ended. It is counted.
            return RefusalAction::Defer;
        }
        if reach == RefusalReach::Run {
            self.has_ended = true;
            return if is_reported {
                RefusalAction::Stop
            } else {
                RefusalAction::ReportAndStop
            };
        }
        if self.is_settled {
            return RefusalAction::Report;
        }
        match &mut self.first {
            _ if reach == RefusalReach::File => {
                self.is_settled = true;
                RefusalAction::Report
            }
            None => {
                self.first = Some((cause.to_owned(), 1));
                RefusalAction::Report
            }
            Some((_, count)) if is_reported => {
                *count += 1;
                self.has_ended = *count >= FIRST_FILES;
                if self.has_ended {
                    RefusalAction::Stop
                } else {
                    RefusalAction::Defer
                }
            }
            Some(_) => {
                self.is_settled = true;
                RefusalAction::Report
            }
        }
    }

    /// Whether deferred refusals must be reported now, each for its file.
    #[must_use]
    pub(crate) fn is_settled(&self) -> bool {
        self.is_settled && !self.has_ended
    }

    /// Whether it has ended the run.
    #[must_use]
    pub(crate) fn has_ended(&self) -> bool {
        self.has_ended
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reach(status: u16, code: &str) -> RefusalReach {
        RefusalReach::of_response(StatusCode::from_u16(status).unwrap(), code)
    }

    #[test]
    fn f35_codes_and_statuses_say_what_a_refusal_is_about() {
        for (status, code, expected) in [
            (404, "NoSuchBucket", RefusalReach::Run),
            (403, "InvalidAccessKeyId", RefusalReach::Run),
            (400, "ExpiredToken", RefusalReach::Run),
            (403, "AccessDenied", RefusalReach::Unknown),
            (403, "SignatureDoesNotMatch", RefusalReach::Unknown),
            (405, "MethodNotAllowed", RefusalReach::Unknown),
            (403, "", RefusalReach::Unknown),
            (401, "", RefusalReach::Unknown),
            (501, "NotImplemented", RefusalReach::Unknown),
            (400, "InvalidStorageClass", RefusalReach::Unknown),
            (404, "NoSuchKey", RefusalReach::File),
            (400, "KeyTooLongError", RefusalReach::File),
            (412, "PreconditionFailed", RefusalReach::File),
            (404, "", RefusalReach::File),
            (413, "", RefusalReach::File),
            (503, "SlowDown", RefusalReach::File),
        ] {
            assert_eq!(reach(status, code), expected, "{status} {code}");
        }
    }

    #[test]
    fn f35_a_refusal_of_every_file_ends_the_run_at_once_and_is_reported_once() {
        let mut shared = SharedRefusal::default();
        let action = shared.on_refused(RefusalReach::Run, "a");
        assert_eq!(action, RefusalAction::ReportAndStop);
        for reach in [RefusalReach::Run, RefusalReach::Unknown] {
            assert_eq!(shared.on_refused(reach, "a"), RefusalAction::Defer);
        }
        shared.on_accepted();
        assert!(shared.has_ended() && !shared.is_settled());
        // The credentials expired meanwhile.
        let mut shared = SharedRefusal::default();
        shared.on_accepted();
        let action = shared.on_refused(RefusalReach::Run, "a");
        assert_eq!(action, RefusalAction::ReportAndStop);
    }

    #[test]
    fn f35_refusals_of_the_first_files_end_the_run_if_none_is_accepted() {
        let mut shared = SharedRefusal::default();
        let mut refuse = || shared.on_refused(RefusalReach::Unknown, "denied");
        assert_eq!(refuse(), RefusalAction::Report);
        for _ in 2..FIRST_FILES {
            assert_eq!(refuse(), RefusalAction::Defer);
        }
        assert_eq!(refuse(), RefusalAction::Stop);
        assert!(!shared.is_settled());
    }

    #[test]
    fn f35_refusals_are_about_single_files_once_any_differs() {
        let accepted = |shared: &mut SharedRefusal| shared.on_accepted();
        let other = |shared: &mut SharedRefusal| {
            let action = shared.on_refused(RefusalReach::Unknown, "another");
            assert_eq!(action, RefusalAction::Report);
        };
        let file = |shared: &mut SharedRefusal| {
            let action = shared.on_refused(RefusalReach::File, "a file");
            assert_eq!(action, RefusalAction::Report);
        };
        for settle in [accepted, other, file] {
            let mut shared = SharedRefusal::default();
            for _ in 0..10 {
                shared.on_refused(RefusalReach::Unknown, "denied");
            }
            assert!(!shared.is_settled());
            settle(&mut shared);
            assert!(shared.is_settled());
            for _ in 0..10 * FIRST_FILES {
                let action = shared.on_refused(RefusalReach::Unknown, "denied");
                assert_eq!(action, RefusalAction::Report);
            }
        }
    }
}
