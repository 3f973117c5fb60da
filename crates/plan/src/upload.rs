//! Decisions of uploads to S3: how large parts are, which parts of an earlier run count, what failures mean.

mod part_plan;
mod resume;

pub use part_plan::{MAX_PART_BYTES, MIN_PART_BYTES, PartPlan, PartPlanError, StreamPartPlan};
pub use resume::{KnownPart, kept_parts};

/// A field of a response to OPTIONS: `haul serve --s3` takes S3's multipart requests at this URL, under the login that a PUT needs. Its value is
/// the most bytes of a file.
pub const HTTP_MULTIPART_HEADER: &str = "haul-multipart-uploads";
