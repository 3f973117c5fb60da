//! The page's upload form (POST multipart/form-data): files for one folder, for browsers without a script.

use std::sync::Arc;

use bytes::Bytes;
use http::StatusCode;
use http::header::{HeaderValue, LOCATION};

use super::answer::{Answer, bare, plain};
use super::inbound::Inbound;
use super::put::{self, PutError, Source};
use crate::Key;
use crate::access::{Grant, Right};
use crate::conn::Line;
use crate::page::form::{Form, FormError};

/// One file of a form.
struct FormFile<'a> {
    form: &'a mut Form<Inbound>,
    is_over: bool,
}

impl Source for FormFile<'_> {
    async fn next(&mut self) -> Result<Option<Bytes>, PutError> {
        let chunk = self.form.chunk().await;
        let chunk = chunk.map_err(|error| PutError::Broken(error.into()))?;
        self.is_over = chunk.is_none();
        Ok(chunk)
    }

    fn is_over(&self) -> bool {
        self.is_over
    }
}

/// Puts a form's files into a folder, one after another, and leads back to its page. What came before something went wrong stays.
pub(crate) async fn answer(
    line: Arc<Line>,
    folder: Key,
    kind: String,
    body: Inbound,
    grant: Grant,
) -> Answer {
    let form = match Form::new(&kind, folder.clone(), body) {
        Ok(form) => form,
        Err(error) => return refused(&line, &error),
    };
    match all(&line, form, &grant).await {
        Ok(()) => back(&folder),
        Err(answer) => answer,
    }
}

async fn all(line: &Arc<Line>, mut form: Form<Inbound>, grant: &Grant) -> Result<(), Answer> {
    while let Some(key) = form
        .next_file()
        .await
        .map_err(|error| refused(line, &error))?
    {
        if !grant.may(Right::Write, &key) {
            return Err(plain(StatusCode::FORBIDDEN, "that file may not be written"));
        }
        let asked = put::Asked::plainly(&line.server, key.clone());
        let most = asked.most;
        let file = FormFile {
            form: &mut form,
            is_over: false,
        };
        let put = put::put(line, asked, file).await;
        put.map_err(|error| put::failed(line, &error, &key, most))?;
    }
    Ok(())
}

/// 303: the browser shows the folder, and a reload sends nothing again.
fn back(folder: &Key) -> Answer {
    let mut answer = bare(StatusCode::SEE_OTHER);
    let path = folder.escaped();
    let slash = if folder.is_root() { "" } else { "/" };
    if let Ok(location) = HeaderValue::try_from(format!("{path}{slash}")) {
        answer.headers_mut().insert(LOCATION, location);
    }
    answer
}

fn refused(line: &Line, error: &FormError) -> Answer {
    // What is wrong with it is that the rest did not come.
    if line.is_tired() {
        return put::too_slow();
    }
    let status = match error {
        FormError::NoForm => StatusCode::UNSUPPORTED_MEDIA_TYPE,
        _ => StatusCode::BAD_REQUEST,
    };
    plain(status, error.to_string())
}
