//! What uploads, copies and syncs share: where an upload goes, and what its requests are like.

use haul_plan::DigestAlgorithm;
use haul_s3::S3Address;
use haul_transfer::put::{PutOptions, UploadTarget};
use http::header::HeaderMap;
use pyo3::prelude::*;

use crate::engine::PythonEngine;
use crate::errors::HaulError;
use crate::settings::{AuthArgument, argument, no_auth_for_stores, parse_headers, parse_url};

/// What the requests of an upload or a copy are like.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct UploadArguments {
    headers: Vec<(String, String)>,
    pub(crate) connections: Option<u16>,
    pub(crate) part_size: Option<u64>,
    pub(crate) checksum_algorithm: Option<String>,
    pub(crate) resume: bool,
}

impl UploadArguments {
    /// The fields of each request.
    ///
    /// # Errors
    /// A field that cannot be sent.
    pub(crate) fn headers(&self) -> Result<HeaderMap, HaulError> {
        parse_headers(&self.headers)
    }

    /// The options of the engine.
    ///
    /// # Errors
    /// An algorithm that S3 does not have.
    pub(crate) fn put_options(&self, engine: &PythonEngine) -> Result<PutOptions, HaulError> {
        Ok(PutOptions {
            connections: engine.settings.connections(self.connections),
            part_bytes: self.part_size,
            state_directory: haul_transfer::default_state_directory("uploads"),
            retry: engine.retry.clone(),
            checksum: self.checksum()?,
            resume: self.resume,
            is_batch: true,
            ..PutOptions::default()
        })
    }

    /// Where an upload goes: an object, or a URL with its login.
    ///
    /// # Errors
    /// The text is no such address, or an argument is not for it.
    pub(crate) fn target(
        &self,
        url: &str,
        auth: Option<&AuthArgument>,
        headers: &mut HeaderMap,
    ) -> Result<UploadTarget, HaulError> {
        if url.starts_with("s3://") {
            return match auth {
                Some(_) => Err(no_auth_for_stores()),
                None => Ok(UploadTarget::Object(argument(
                    "url",
                    url.parse::<S3Address>(),
                )?)),
            };
        }
        if self.checksum_algorithm.is_some() {
            let text = "checksum_algorithm: it is for s3:// addresses, not for URLs";
            return Err(HaulError::usage(text));
        }
        let mut url = parse_url(url)?;
        if let Some(auth) = auth {
            auth.apply(&mut url, headers)?;
        }
        Ok(UploadTarget::Url(url))
    }

    fn checksum(&self) -> Result<Option<DigestAlgorithm>, HaulError> {
        let Some(name) = &self.checksum_algorithm else {
            return Ok(None);
        };
        let algorithm: DigestAlgorithm = argument("checksum_algorithm", name.parse())?;
        match algorithm.s3() {
            Some(_) => Ok(Some(algorithm)),
            None => Err(HaulError::usage(format!(
                "checksum_algorithm: S3 does not have {algorithm}"
            ))),
        }
    }
}
