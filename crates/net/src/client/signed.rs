//! Requests for `s3://` URLs: the signer resolves and signs them, and may correct what a refusal says.

use std::sync::Arc;

use http::{Method, StatusCode};

use super::Client;
use crate::error::{Error, Kind};
use crate::request::{FetchRequest, RoutedRequest};
use crate::response::FetchResponse;
use crate::signer::{MAX_REFUSAL_BYTES, Refusal, RequestSigner, SignerError};

/// How often one request is sent again after what a refusal said: for another region, and for a wrong clock or an expired token.
const MAX_REPEATS: usize = 2;

impl Client {
    /// Sends a request for an `s3://` URL. The response names that URL, wherever the request went.
    pub(super) async fn fetch_signed(
        &self,
        fetch: &FetchRequest<'_>,
    ) -> Result<FetchResponse, Error> {
        let config = &self.state.config;
        let Some(signer) = &config.signer else {
            return Err(Error::new(Kind::InvalidRequest, fetch.url));
        };
        // The store's address cannot be made of the URL and the settings.
        let no_request =
            |error: SignerError| Error::new(Kind::InvalidRequest, fetch.url).with_source(error);
        let mut repeats = 0;
        loop {
            let url = signer.resolve(fetch.url).await.map_err(no_request)?;
            let request = RoutedRequest::new(fetch, &url, config)?.signed_by(signer);
            let mut response = self.fetch_with_auth(&request).await?;
            let is_head = fetch.method == Method::HEAD;
            if repeats < MAX_REPEATS
                && may_be_corrected(response.status)
                && fetch.body.can_be_opened()
            {
                let body = if is_head {
                    Vec::new()
                } else {
                    response.first_bytes(MAX_REFUSAL_BYTES).await
                };
                if self.is_corrected(signer, fetch, &response, &body).await {
                    repeats += 1;
                    response.discard().await;
                    continue;
                }
                response = response.unread(body);
            }
            response.url = fetch.url.clone();
            return Ok(response);
        }
    }

    /// Whether the signer will do otherwise after a refusal. One that it cannot use stands as it is.
    async fn is_corrected(
        &self,
        signer: &Arc<dyn RequestSigner>,
        fetch: &FetchRequest<'_>,
        response: &FetchResponse,
        body: &[u8],
    ) -> bool {
        let refusal = Refusal {
            url: fetch.url,
            status: response.status,
            headers: &response.headers,
            body,
        };
        signer.handle_refusal(refusal).await.unwrap_or(false)
    }
}

/// Whether a refusal with this status may say what the signer should do otherwise.
fn may_be_corrected(status: StatusCode) -> bool {
    matches!(status.as_u16(), 301 | 307 | 400 | 403)
}

pub(super) fn signing_error(error: SignerError, fetch: &FetchRequest<'_>) -> Error {
    Error::new(Kind::Signing, fetch.url).with_source(error)
}
