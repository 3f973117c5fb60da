//! `haul ls`.

use std::io::{self, Write as _};

use haul_s3::{ListedObject, S3Address};
use haul_transfer::bucket::{BucketError, KeyFilter, KeyPattern, ObjectListing, StoreSession};
use serde_json::json;

use super::report;
use crate::args::LsArgs;
use crate::exit::ExitReason;
use crate::message::{self, JsonOutputs};
use crate::output::{self, result_text};
use crate::progress::bytes_text;
use crate::report::etag_value;

/// Bytes of output that are written at once.
const OUTPUT_BUFFER: usize = 64 << 10;

/// Why a list ended early.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
enum ListEnd {
    Store(#[from] BucketError),
    Output(#[from] io::Error),
}

/// Prints what a list has, as it comes.
struct ListPrinter<'a> {
    args: &'a LsArgs,
    out: io::BufWriter<io::Stdout>,
    /// What every name begins with and is not shown.
    hidden: String,
    objects: u64,
    bytes: u64,
}

/// Lists buckets, objects or uploads.
pub(super) async fn list(args: &LsArgs, session: StoreSession) -> Result<ExitReason, ExitReason> {
    output::check_stdout().map_err(|error| output::report_write_error(&error))?;
    let mut printer = ListPrinter::new(args);
    let listed = match &args.address {
        None => printer.buckets(&session).await,
        Some(address) if args.uploads => printer.uploads(&session, address).await,
        Some(address) => printer.objects(&session, address).await,
    };
    match listed.and_then(|found| Ok(printer.finish().map(|()| found)?)) {
        Ok(true) => Ok(ExitReason::Done),
        Ok(false) => {
            let address = args
                .address
                .as_ref()
                .map_or_else(String::new, ToString::to_string);
            let text = format!("there is nothing at {}", message::sanitize(&address));
            let outputs = JsonOutputs::default();
            Err(outputs.report_failure(ExitReason::SomeFailed, &text, None))
        }
        Err(ListEnd::Store(error)) => {
            // What was listed before is shown.
            let _ = printer.out.flush();
            Err(report(&error, JsonOutputs::default()))
        }
        Err(ListEnd::Output(error)) => Err(output::report_write_error(&error)),
    }
}

impl<'a> ListPrinter<'a> {
    fn new(args: &'a LsArgs) -> Self {
        let out = io::BufWriter::with_capacity(OUTPUT_BUFFER, io::stdout());
        let key = args
            .address
            .as_ref()
            .map_or("", |address| address.key.as_str());
        let folder = key.rfind('/').map_or(0, |slash| slash + 1);
        // A recursive list shows whole keys, so that each can be used as it stands.
        let hidden = if args.recursive || KeyPattern::is_pattern(key) {
            String::new()
        } else {
            key[..folder].to_owned()
        };
        Self {
            args,
            out,
            hidden,
            objects: 0,
            bytes: 0,
        }
    }

    async fn buckets(&mut self, session: &StoreSession) -> Result<bool, ListEnd> {
        let buckets = session.request(|| session.client.list_buckets());
        for bucket in buckets.await? {
            if self.args.json {
                let object = json!({
                    "url": S3Address::new(&*bucket.name, "").to_string(), "bucket": bucket.name, "created": bucket.created,
                });
                writeln!(self.out, "{}", result_text(&object.to_string()))?;
            } else if self.is_long() {
                let created = date(&bucket.created);
                writeln!(self.out, "{created}  {}", result_text(&bucket.name))?;
            } else {
                writeln!(self.out, "{}", result_text(&bucket.name))?;
            }
        }
        Ok(true)
    }

    async fn uploads(
        &mut self,
        session: &StoreSession,
        prefix: &S3Address,
    ) -> Result<bool, ListEnd> {
        let uploads = session.request(|| session.client.list_multipart_uploads(prefix));
        for upload in uploads.await? {
            if self.args.json {
                let object = json!({
                    "url": prefix.with_key(&*upload.key).to_string(), "key": upload.key, "upload_id": upload.upload_id, "initiated": upload.initiated,
                });
                writeln!(self.out, "{}", result_text(&object.to_string()))?;
            } else {
                let (initiated, key) = (date(&upload.initiated), result_text(&upload.key));
                let id = message::sanitize(&upload.upload_id);
                writeln!(self.out, "{initiated}  {key}  {id}")?;
            }
        }
        Ok(true)
    }

    /// Lists objects. Returns whether there was anything.
    async fn objects(
        &mut self,
        session: &StoreSession,
        address: &S3Address,
    ) -> Result<bool, ListEnd> {
        let is_pattern = KeyPattern::is_pattern(&address.key);
        let is_recursive = self.args.recursive || self.args.summary;
        let filter = KeyFilter::default();
        let mut listing = ObjectListing::start(session, address, is_pattern, is_recursive, filter);
        let mut has_folders = false;
        while let Some(page) = listing.next_page().await? {
            has_folders |= !page.folders.is_empty();
            page.folders
                .iter()
                .try_for_each(|folder| self.prefix(folder))?;
            page.objects
                .iter()
                .try_for_each(|object| self.object(object))?;
        }
        if self.args.summary {
            self.summary()?;
        }
        let is_found = has_folders || self.objects > 0;
        Ok(is_found || address.key.is_empty() || self.args.summary)
    }

    /// The address of a key of the listed bucket.
    fn url(&self, key: &str) -> Option<String> {
        let address = self.args.address.as_ref();
        address.map(|address| address.with_key(key).to_string())
    }

    fn prefix(&mut self, prefix: &str) -> io::Result<()> {
        if self.args.json {
            let object = json!({"url": self.url(prefix), "prefix": prefix});
            return writeln!(self.out, "{}", result_text(&object.to_string()));
        }
        let name = result_text(self.shown(prefix));
        if self.is_long() {
            writeln!(self.out, "{:19}  {:>12}  {name}", "", "folder")
        } else {
            writeln!(self.out, "{name}")
        }
    }

    fn object(&mut self, object: &ListedObject) -> io::Result<()> {
        self.objects += 1;
        self.bytes = self.bytes.saturating_add(object.size);
        if self.args.summary {
            return Ok(());
        }
        if self.args.json {
            let object = json!({
                "url": self.url(&object.key), "key": object.key, "size": object.size, "etag": etag_value(&object.etag),
                "last_modified": object.last_modified, "storage_class": object.storage_class,
            });
            return writeln!(self.out, "{}", result_text(&object.to_string()));
        }
        let name = result_text(self.shown(&object.key));
        if !self.is_long() {
            return writeln!(self.out, "{name}");
        }
        let size = if self.args.human {
            bytes_text(object.size)
        } else {
            object.size.to_string()
        };
        let class = match object.storage_class.as_str() {
            "" | "STANDARD" => String::new(),
            class => format!("  [{}]", message::sanitize(class)),
        };
        let modified = date(&object.last_modified);
        writeln!(self.out, "{modified}  {size:>12}  {name}{class}")
    }

    fn summary(&mut self) -> io::Result<()> {
        let (objects, bytes) = (self.objects, self.bytes);
        if self.args.json {
            return writeln!(self.out, "{}", json!({"objects": objects, "bytes": bytes}));
        }
        writeln!(
            self.out,
            "{objects} objects, {bytes} bytes ({})",
            bytes_text(bytes)
        )
    }

    fn shown<'k>(&self, key: &'k str) -> &'k str {
        key.strip_prefix(&self.hidden).unwrap_or(key)
    }

    fn is_long(&self) -> bool {
        self.args.long || self.args.human
    }

    fn finish(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// A date of ISO 8601 in its first nineteen characters, without the T.
fn date(text: &str) -> String {
    let shown: String = text.chars().take(19).collect();
    message::sanitize(&shown.replace('T', " "))
}
