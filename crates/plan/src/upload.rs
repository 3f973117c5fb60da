//! What `transfer` and `serve` agree on about uploads by HTTP.

/// A field of a response to OPTIONS: `haul serve --s3` takes S3's multipart requests at this URL, under the login that a PUT needs. Its value is
/// the most bytes of a file.
pub const HTTP_MULTIPART_HEADER: &str = "haul-multipart-uploads";
