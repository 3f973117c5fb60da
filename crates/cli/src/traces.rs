//! What the libraries trace: warnings and errors of a running server, and of signatures, as messages, or what `RUST_LOG` selects, for developers.

use std::error::Error;
use std::fmt;

use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::{Context, SubscriberExt as _};
use tracing_subscriber::util::SubscriberInitExt as _;

use crate::args::CliCommand;
use crate::message::{self, chain_text, error_text, print_in_background, sanitize, warning_text};

/// Prints traces on standard error from now on.
pub(crate) fn print_traces(command: &CliCommand) {
    // Without a name, an empty filter would select everything.
    let requested = std::env::var("RUST_LOG")
        .ok()
        .filter(|filter| !filter.is_empty());
    let parsed = match (&requested, default_filter(command)) {
        (Some(filter), _) => filter.parse::<Targets>(),
        (None, Some(filter)) => filter.parse(),
        (None, None) => return,
    };
    let targets = match parsed {
        Ok(targets) => targets,
        Err(error) => {
            let text = format!("RUST_LOG is ignored: {error}");
            return message::print_line(&warning_text(&sanitize(&text)));
        }
    };
    // The subscriber is set only here, so this cannot fail.
    let _ = match requested {
        Some(_) => tracing_subscriber::registry()
            .with(developer_lines().with_filter(targets))
            .try_init(),
        None => tracing_subscriber::registry()
            .with(
                TraceMessages {
                    print: printer(command),
                }
                .with_filter(targets),
            )
            .try_init(),
    };
}

/// The traces that are printed without `RUST_LOG`. A download reports its problems itself; a running server has no other way to.
fn default_filter(command: &CliCommand) -> Option<&'static str> {
    match command {
        // World-readable files are reported as other warnings are.
        CliCommand::Serve(serve) if !serve.running.quiet => Some(
            "haul_serve=warn,haul_s3server=warn,haul_service=warn,haul_serve::access::auth_files=off",
        ),
        CliCommand::Serve(_) => Some("haul_serve=error,haul_s3server=error,haul_service=error"),
        CliCommand::Tunnel(tunnel) if !tunnel.quiet => Some("haul_tunnel=warn,haul_service=warn"),
        CliCommand::Tunnel(_) => Some("haul_tunnel=error,haul_service=error"),
        _ if is_quiet(command) => None,
        // What signatures need, which no job's result shows.
        _ => Some("haul_s3::signer=warn"),
    }
}

fn is_quiet(command: &CliCommand) -> bool {
    match command {
        CliCommand::Get(get) => get.messages.quiet,
        CliCommand::Put(put) => put.messages.quiet,
        CliCommand::Sync(sync) => sync.messages.quiet,
        CliCommand::Cp(cp) => cp.messages.quiet,
        CliCommand::Rm(rm) => rm.quiet,
        _ => false,
    }
}

/// How a command prints: the threads of a server must not wait for standard error.
fn printer(command: &CliCommand) -> fn(&str) {
    match command {
        CliCommand::Serve(_) | CliCommand::Tunnel(_) => |text| print_in_background(text.to_owned()),
        _ => message::print_line,
    }
}

/// Lines with time, level and module.
fn developer_lines<S>() -> impl Layer<S>
where
    S: Subscriber + for<'a> tracing_subscriber::registry::LookupSpan<'a>,
{
    let is_coloured =
        anstream::AutoStream::choice(&std::io::stderr()) != anstream::ColorChoice::Never;
    tracing_subscriber::fmt::layer()
        .with_writer(std::io::stderr)
        .with_ansi(is_coloured)
        // Such an error would be reported on standard error, which is what failed, and panic.
        .log_internal_errors(false)
}

struct TraceMessages {
    print: fn(&str),
}

impl<S: Subscriber> Layer<S> for TraceMessages {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let mut text = TraceText::default();
        event.record(&mut text);
        let text = sanitize(&text.to_string());
        (self.print)(&match *event.metadata().level() {
            Level::ERROR => error_text(&text, None),
            _ => warning_text(&text),
        });
    }
}

/// The text of a trace: `a folder could not be sent: permission denied (folder=/a)`.
#[derive(Default)]
struct TraceText {
    message: String,
    error: String,
    fields: Vec<String>,
}

impl Visit for TraceText {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        match field.name() {
            "message" => self.message = format!("{value:?}"),
            "error" => self.error = format!(": {value:?}"),
            name => self.fields.push(format!("{name}={value:?}")),
        }
    }

    fn record_error(&mut self, _: &Field, error: &(dyn Error + 'static)) {
        self.error = format!(": {}", chain_text(error));
    }
}

impl fmt::Display for TraceText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            message,
            error,
            fields,
        } = self;
        write!(f, "{message}{error}")?;
        if fields.is_empty() {
            Ok(())
        } else {
            write!(f, " ({})", fields.join(", "))
        }
    }
}
