//! Whether a file that arrived is a page although its name says otherwise (row A36).

use std::path::Path;

use url::Url;

use super::partial_claim::{PEEKED_BYTES, PartialClaim};
use super::strategy::DownloadedFile;
use crate::disk::blocking;
use crate::filename;
use crate::response::{is_page_for_name, may_be_page};
use crate::warning::TransferWarning;

/// A warning of a page whose name is that of another kind of file.
pub(super) fn page_warning(file: &DownloadedFile, url: &Url) -> Option<TransferWarning> {
    let PartialClaim {
        partial, version, ..
    } = &file.claim;
    let mut beginning = [0; PEEKED_BYTES];
    let read = blocking(|| partial.storage().read_at(0, &mut beginning));
    let page = PageCheck {
        url,
        path: partial.paths.path(),
        media_type: version.media_type.as_deref(),
        beginning: &beginning[..read.unwrap_or(0)],
    };
    let name = page.misnamed()?;
    Some(TransferWarning::UnexpectedPage {
        url: haul_net::redacted_url(url),
        media_type: version
            .media_type
            .as_deref()
            .unwrap_or("text/html")
            .to_owned(),
        name: name.to_string(),
    })
}

/// What tells that a file is a page.
#[derive(Debug)]
pub(crate) struct PageCheck<'a> {
    /// The URL that the file was requested by.
    pub(crate) url: &'a Url,
    /// Its name on disk.
    pub(crate) path: &'a Path,
    pub(crate) media_type: Option<&'a str>,
    /// The first bytes.
    pub(crate) beginning: &'a [u8],
}

impl PageCheck<'_> {
    pub(crate) fn is_page(&self) -> bool {
        self.misnamed().is_some()
    }

    /// The name that promises another kind of file: on disk, or in the URL.
    fn misnamed(&self) -> Option<String> {
        // Nearly every file of a batch ends here.
        if !may_be_page(self.media_type, self.beginning) {
            return None;
        }
        let on_disk = self
            .path
            .file_name()
            .map(|name| name.to_string_lossy().into_owned());
        let names = on_disk.into_iter().chain([filename::from_url(self.url)]);
        let mut misnamed =
            names.filter(|name| is_page_for_name(name, self.media_type, self.beginning));
        misnamed.next()
    }
}
