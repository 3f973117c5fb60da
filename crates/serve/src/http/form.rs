//! The page's upload form (POST multipart/form-data): files for one folder, for browsers without a script.

use std::sync::Arc;

use bytes::Bytes;
use http::StatusCode;
use http::header::{HeaderValue, LOCATION};

use super::error_response::{ServeResponse, bare, plain};
use super::put::{self, UploadError, UploadSource};
use super::request_body::RequestBody;
use crate::ObjectKey;
use crate::access::{AccessRight, Permissions};
use crate::body::ServeBody;
use crate::connection::ConnectionState;
use crate::page::form::{FormError, FormReader};
use crate::store::StoreError;

/// One file of a form.
struct FormFile<'a> {
    form: &'a mut FormReader<RequestBody>,
    is_over: bool,
}

impl UploadSource for FormFile<'_> {
    async fn next(&mut self) -> Result<Option<Bytes>, UploadError> {
        let chunk = self.form.chunk().await;
        let chunk = chunk.map_err(|error| UploadError::Broken(error.into()))?;
        self.is_over = chunk.is_none();
        Ok(chunk)
    }

    fn is_over(&self) -> bool {
        self.is_over
    }
}

/// What a form is asked to do.
pub(crate) struct FormRequest {
    /// Where its files go.
    pub(crate) folder: ObjectKey,
    /// The type of its body.
    pub(crate) kind: String,
    /// Whether files that are there are replaced.
    pub(crate) replaces: bool,
}

/// What came of a form's files.
#[derive(Default)]
struct FormOutcome {
    /// How many were stored.
    stored: usize,
    /// Those that were there already, and were left alone.
    there: Vec<ObjectKey>,
}

/// Puts a form's files into a folder, one after another, and leads back to its page. What came before something went wrong stays, and what is
/// there is replaced only if that was asked for: whoever sends a form by hand may not have seen what there is.
pub(crate) async fn answer(
    line: Arc<ConnectionState>,
    asked: FormRequest,
    body: RequestBody,
    grant: Permissions,
) -> ServeResponse {
    let form = match FormReader::new(&asked.kind, asked.folder.clone(), body) {
        Ok(form) => form,
        Err(error) => return refused(&line, &error),
    };
    let mut sent = FormOutcome::default();
    match all(&line, form, &grant, asked.replaces, &mut sent).await {
        Err((key, answer)) => told(answer, key.as_ref(), &sent),
        Ok(()) if sent.there.is_empty() && sent.stored > 0 => back(&asked.folder),
        Ok(()) if sent.there.is_empty() => plain(
            StatusCode::BAD_REQUEST,
            "no file was chosen: go back and choose some",
        ),
        Ok(()) => plain(StatusCode::CONFLICT, were_there(&sent)),
    }
}

async fn all(
    line: &Arc<ConnectionState>,
    mut form: FormReader<RequestBody>,
    grant: &Permissions,
    replaces: bool,
    sent: &mut FormOutcome,
) -> Result<(), (Option<ObjectKey>, ServeResponse)> {
    while let Some(key) = form
        .next_file()
        .await
        .map_err(|error| (None, refused(line, &error)))?
    {
        if !grant.allows(AccessRight::Write, &key) {
            let answer = plain(StatusCode::FORBIDDEN, "that file may not be written");
            return Err((Some(key), answer));
        }
        let asked = put::UploadRequest::plainly(&line.server, key.clone());
        let asked = if replaces { asked } else { asked.if_new() };
        let most = asked.most;
        let file = FormFile {
            form: &mut form,
            is_over: false,
        };
        match put::put(line, asked, file).await {
            Ok(_) => sent.stored += 1,
            Err(UploadError::Store(StoreError::ConditionFailed)) if !replaces => {
                sent.there.push(key)
            }
            Err(error) => {
                let answer = put::failed(line, &error, &key, most);
                return Err((Some(key), answer));
            }
        }
    }
    Ok(())
}

/// What went wrong, with which file, and what became of the others.
fn told(answer: ServeResponse, key: Option<&ObjectKey>, sent: &FormOutcome) -> ServeResponse {
    let ServeBody::Whole(text) = answer.body() else {
        return answer;
    };
    let text = String::from_utf8_lossy(text);
    let name = key.map_or_else(String::new, |key| format!("{key}: "));
    let stored = match sent.stored {
        0 => "no file was stored".to_owned(),
        1 => "the file before it was stored".to_owned(),
        stored => format!("the {stored} files before it were stored"),
    };
    plain(
        answer.status(),
        format!("{name}{}; {stored}", text.trim_end()),
    )
}

fn were_there(sent: &FormOutcome) -> String {
    /// More names are no help.
    const NAMES: usize = 20;
    let names = sent
        .there
        .iter()
        .take(NAMES)
        .map(|key| format!("  {key}\n"));
    let more = match sent.there.len().saturating_sub(NAMES) {
        0 => String::new(),
        more => format!("  and {more} more\n"),
    };
    format!(
        "not stored, as there are files of these names already:\n{}{more}stored: {}\n\
        to replace those that are there, go back and choose \"Upload and replace\" (POST ./?replace=yes)",
        names.collect::<String>(),
        sent.stored,
    )
}

/// 303: the browser shows the folder, and a reload sends nothing again.
fn back(folder: &ObjectKey) -> ServeResponse {
    let mut answer = bare(StatusCode::SEE_OTHER);
    let path = folder.escaped();
    let slash = if folder.is_root() { "" } else { "/" };
    if let Ok(location) = HeaderValue::try_from(format!("{path}{slash}")) {
        answer.headers_mut().insert(LOCATION, location);
    }
    answer
}

fn refused(line: &ConnectionState, error: &FormError) -> ServeResponse {
    // What is wrong with it is that the rest did not come.
    if line.is_tired() {
        return put::too_slow();
    }
    let status = match error {
        FormError::NotAForm => StatusCode::UNSUPPORTED_MEDIA_TYPE,
        _ => StatusCode::BAD_REQUEST,
    };
    plain(status, error.to_string())
}
