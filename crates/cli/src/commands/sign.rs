//! `haul sign`: prints signed URLs, and makes keys.

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::process::ExitCode;
use std::time::SystemTime;

use haul_serve::access::sign_url;

use crate::args::{HttpUrl, SignArgs};
use crate::exit::ExitReason;
use crate::message::{self, JsonOutputs, print_line, warning_text};
use crate::output;
use crate::settings::{read_signing_key, world_readable_warning};

/// Random bytes in a key: as many as a signature has; more are of no use.
const KEY_BYTES: usize = 32;

/// Signs a URL or makes a key.
pub(crate) fn run(args: &SignArgs) -> ExitCode {
    let done = match (&args.new_key, &args.url, &args.key) {
        (Some(file), ..) => make_key(file),
        (None, Some(url), Some(key)) => sign(args, url, key),
        // The parser requires both.
        (None, ..) => Err(ExitReason::Usage),
    };
    done.map_or_else(Into::into, |()| ExitReason::Done.into())
}

fn sign(args: &SignArgs, url: &HttpUrl, key: &Path) -> Result<(), ExitReason> {
    let fail = |exit, text: &str, hint: Option<&str>| {
        JsonOutputs::default().report_failure(exit, text, hint)
    };
    if let Some(warning) = world_readable_warning(key) {
        print_line(&warning_text(&message::sanitize(&warning)));
    }
    let key = read_signing_key("--key", key).map_err(|error| {
        fail(
            error.exit_reason(),
            &message::chain_text(&error),
            error.hint(),
        )
    })?;
    let expires = SystemTime::now() + args.expires.0;
    let signed = sign_url(&key, args.method, &url.0, expires).map_err(|error| {
        let hint = "the path must name a file or folder of the server";
        fail(ExitReason::Usage, &message::chain_text(&error), Some(hint))
    })?;
    output::write_stdout_lines([signed]).map_err(|error| output::report_write_error(&error))
}

fn make_key(file: &Path) -> Result<(), ExitReason> {
    if file == Path::new("-") {
        return random_key()
            .and_then(|key| output::write_stdout_lines([key]))
            .map_err(|error| output::report_write_error(&error));
    }
    let shown = message::sanitize(&file.display().to_string());
    write_key(file).map_err(|error| {
        let hint = match error.kind() {
            io::ErrorKind::AlreadyExists => {
                "a new key invalidates all URLs signed with the old one: to replace it, remove the file first"
            }
            _ => "name a file in an existing folder that you can write to",
        };
        let text = format!("cannot create the key {shown}: {error}");
        JsonOutputs::default().report_failure(ExitReason::LocalIo, &text, Some(hint))
    })?;
    print_line(&format!(
        "haul: created {shown}, a key for haul serve --sign-key and haul sign --key"
    ));
    Ok(())
}

/// A random key as text, which survives editors and variables.
fn random_key() -> io::Result<String> {
    let mut bytes = [0; KEY_BYTES];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(haul_digest::hex(&bytes))
}

fn write_key(file: &Path) -> io::Result<()> {
    let text = random_key()?;
    let mut options = OpenOptions::new();
    let mut file = options
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(file)?;
    writeln!(file, "{text}")?;
    file.sync_all()
}
