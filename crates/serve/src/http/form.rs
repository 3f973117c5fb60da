//! The page's upload form (POST multipart/form-data): stores files in one folder, for browsers
//! without scripts.

use std::sync::Arc;

use bytes::Bytes;
use http::StatusCode;
use http::header::{HeaderValue, LOCATION};

use super::error_response::{ServeResponse, empty_response, text_response};
use super::put::{self, UploadError, UploadSource};
use super::request_body::IncomingBody;
use crate::ObjectKey;
use crate::access::{AccessRight, Permissions};
use crate::connection::ConnectionState;
use crate::page::form::{FormError, FormReader};
use crate::store::StoreError;

struct FormFileSource<'a> {
    form: &'a mut FormReader<IncomingBody>,
    is_finished: bool,
}

impl UploadSource for FormFileSource<'_> {
    async fn next_chunk(&mut self) -> Result<Option<Bytes>, UploadError> {
        let chunk = self
            .form
            .chunk()
            .await
            .map_err(|error| UploadError::Broken(error.into()))?;
        self.is_finished = chunk.is_none();
        Ok(chunk)
    }

    fn is_finished(&self) -> bool {
        self.is_finished
    }
}

pub(crate) struct FormRequest {
    /// The folder that receives the files.
    pub(crate) folder: ObjectKey,
    pub(crate) content_type: String,
    /// Whether existing files are replaced.
    pub(crate) replace: bool,
}

/// The outcome of a form's files.
#[derive(Default)]
struct FormOutcome {
    /// How many files were stored.
    stored: usize,
    /// Files that existed already and were left alone.
    existing: Vec<ObjectKey>,
}

/// Stores a form's files in a folder, one after another, and redirects to the folder's page. Files
/// that were stored before an error stay. Existing files are replaced only if the request says so:
/// the user may not have seen what the folder contains.
pub(crate) async fn respond(
    connection: Arc<ConnectionState>,
    request: FormRequest,
    body: IncomingBody,
    permissions: Permissions,
) -> ServeResponse {
    let form = match FormReader::new(&request.content_type, request.folder.clone(), body) {
        Ok(form) => form,
        Err(error) => return form_error_response(&connection, &error),
    };
    let mut outcome = FormOutcome::default();
    match store_files(
        &connection,
        form,
        &permissions,
        request.replace,
        &mut outcome,
    )
    .await
    {
        Err((key, response)) => file_error_response(response, key.as_ref(), &outcome),
        Ok(()) if outcome.existing.is_empty() && outcome.stored > 0 => {
            redirect_to_folder(&request.folder)
        }
        Ok(()) if outcome.existing.is_empty() => text_response(
            StatusCode::BAD_REQUEST,
            "no file was chosen: go back and choose some",
        ),
        Ok(()) => text_response(StatusCode::CONFLICT, existing_files_text(&outcome)),
    }
}

async fn store_files(
    connection: &Arc<ConnectionState>,
    mut form: FormReader<IncomingBody>,
    permissions: &Permissions,
    replace: bool,
    outcome: &mut FormOutcome,
) -> Result<(), (Option<ObjectKey>, ServeResponse)> {
    while let Some(key) = form
        .next_file()
        .await
        .map_err(|error| (None, form_error_response(connection, &error)))?
    {
        if !permissions.allows(AccessRight::Write, &key) {
            let response = text_response(StatusCode::FORBIDDEN, "you may not write this file");
            return Err((Some(key), response));
        }
        let request = put::UploadRequest::unconditional(&connection.server, key.clone());
        let request = if replace { request } else { request.if_new() };
        let max_bytes = request.max_bytes;
        let file = FormFileSource {
            form: &mut form,
            is_finished: false,
        };
        match put::store_upload(connection, request, file).await {
            Ok(_) => outcome.stored += 1,
            Err(UploadError::Store(StoreError::ConditionFailed)) if !replace => {
                outcome.existing.push(key)
            }
            Err(error) => {
                let response = put::upload_error_response(connection, &error, &key, max_bytes);
                return Err((Some(key), response));
            }
        }
    }
    Ok(())
}

/// Says what went wrong, with which file, and how many files were stored before it.
fn file_error_response(
    response: ServeResponse,
    key: Option<&ObjectKey>,
    outcome: &FormOutcome,
) -> ServeResponse {
    let Some(text) = response.body().as_whole() else {
        return response;
    };
    let text = String::from_utf8_lossy(text);
    let name = key.map_or_else(String::new, |key| format!("{key}: "));
    let stored = match outcome.stored {
        0 => "no file was stored".to_owned(),
        1 => "the file before it was stored".to_owned(),
        stored => format!("the {stored} files before it were stored"),
    };
    text_response(
        response.status(),
        format!("{name}{}; {stored}", text.trim_end()),
    )
}

fn existing_files_text(outcome: &FormOutcome) -> String {
    /// More names are no help.
    const NAMES: usize = 20;
    let names = outcome
        .existing
        .iter()
        .take(NAMES)
        .map(|key| format!("  {key}\n"));
    let more = match outcome.existing.len().saturating_sub(NAMES) {
        0 => String::new(),
        more => format!("  and {more} more\n"),
    };
    format!(
        "not stored, because files of these names exist already:\n{}{more}stored: {}\n\
        to replace existing files, go back and choose \"Upload and replace\" (POST ./?replace=yes)",
        names.collect::<String>(),
        outcome.stored,
    )
}

/// 303: the browser shows the folder, and a reload does not send the form again.
fn redirect_to_folder(folder: &ObjectKey) -> ServeResponse {
    let mut response = empty_response(StatusCode::SEE_OTHER);
    let path = folder.escaped();
    let slash = if folder.is_root() { "" } else { "/" };
    if let Ok(location) = HeaderValue::try_from(format!("{path}{slash}")) {
        response.headers_mut().insert(LOCATION, location);
    }
    response
}

fn form_error_response(connection: &ConnectionState, error: &FormError) -> ServeResponse {
    // The form is incomplete because its body timed out.
    if connection.timeouts.has_expired() {
        return put::slow_body_response();
    }
    let status = match error {
        FormError::NotAForm => StatusCode::UNSUPPORTED_MEDIA_TYPE,
        _ => StatusCode::BAD_REQUEST,
    };
    text_response(status, error.to_string())
}
