//! Whether a server refuses a single file of a run, or would refuse every other in the same way (row F35).
//!
//! Some refusals say so themselves: there is no such bucket, the key is unknown. Most do not: `AccessDenied` may be about one folder of a
//! bucket. Those count as about the whole run once so many of the first files were refused alike and none was accepted. Until then only
//! the first of them is told.

use http::StatusCode;

/// So many of the first files are tried before a refusal that may be about each of them alone ends the run.
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
pub(crate) enum RefusalStep {
    /// Tell it.
    Tell,
    /// Tell it only if [`SharedRefusal::is_settled`] later: it was told for another file.
    Hold,
    /// End the run. It has not been told for another file.
    TellAndEnd,
    /// End the run. It was told for another file.
    End,
}

/// Finds out whether the refusals of a run are one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct SharedRefusal {
    /// Whether refusals are about single files: one was accepted, or they differ.
    is_settled: bool,
    /// What the first file was refused with, and how many were.
    first: Option<(String, u64)>,
    has_ended: bool,
}

impl SharedRefusal {
    /// A file was accepted.
    pub(crate) fn on_accepted(&mut self) {
        self.is_settled = true;
    }

    /// A file was refused. `cause` is the same text for the same cause.
    pub(crate) fn on_refused(&mut self, reach: RefusalReach, cause: &str) -> RefusalStep {
        let is_told = matches!(&self.first, Some((first, _)) if first == cause);
        if self.has_ended {
            // What was under way: it is counted.
            return RefusalStep::Hold;
        }
        if reach == RefusalReach::Run {
            self.has_ended = true;
            return if is_told {
                RefusalStep::End
            } else {
                RefusalStep::TellAndEnd
            };
        }
        if self.is_settled {
            return RefusalStep::Tell;
        }
        match &mut self.first {
            _ if reach == RefusalReach::File => {
                self.is_settled = true;
                RefusalStep::Tell
            }
            None => {
                self.first = Some((cause.to_owned(), 1));
                RefusalStep::Tell
            }
            Some((_, count)) if is_told => {
                *count += 1;
                self.has_ended = *count >= FIRST_FILES;
                if self.has_ended {
                    RefusalStep::End
                } else {
                    RefusalStep::Hold
                }
            }
            Some(_) => {
                self.is_settled = true;
                RefusalStep::Tell
            }
        }
    }

    /// Whether what was held is to be told now, each for its file.
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
    fn f35_what_is_about_every_file_ends_the_run_at_once_and_is_told_once() {
        let mut shared = SharedRefusal::default();
        let step = shared.on_refused(RefusalReach::Run, "a");
        assert_eq!(step, RefusalStep::TellAndEnd);
        for reach in [RefusalReach::Run, RefusalReach::Unknown] {
            assert_eq!(shared.on_refused(reach, "a"), RefusalStep::Hold);
        }
        shared.on_accepted();
        assert!(shared.has_ended() && !shared.is_settled());
        // The credentials expired meanwhile.
        let mut shared = SharedRefusal::default();
        shared.on_accepted();
        let step = shared.on_refused(RefusalReach::Run, "a");
        assert_eq!(step, RefusalStep::TellAndEnd);
    }

    #[test]
    fn f35_refusals_of_the_first_files_end_the_run_if_none_is_accepted() {
        let mut shared = SharedRefusal::default();
        let mut refuse = || shared.on_refused(RefusalReach::Unknown, "denied");
        assert_eq!(refuse(), RefusalStep::Tell);
        for _ in 2..FIRST_FILES {
            assert_eq!(refuse(), RefusalStep::Hold);
        }
        assert_eq!(refuse(), RefusalStep::End);
        assert!(!shared.is_settled());
    }

    #[test]
    fn f35_refusals_are_about_single_files_once_any_differs() {
        let accepted = |shared: &mut SharedRefusal| shared.on_accepted();
        let other = |shared: &mut SharedRefusal| {
            let step = shared.on_refused(RefusalReach::Unknown, "another");
            assert_eq!(step, RefusalStep::Tell);
        };
        let file = |shared: &mut SharedRefusal| {
            let step = shared.on_refused(RefusalReach::File, "a file");
            assert_eq!(step, RefusalStep::Tell);
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
                let step = shared.on_refused(RefusalReach::Unknown, "denied");
                assert_eq!(step, RefusalStep::Tell);
            }
        }
    }
}
