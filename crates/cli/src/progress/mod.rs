//! Progress: one reader of the engine's events, several ways to show them, all on standard error.
//!
//! A [`Renderer`] is handed events and decides nothing else; [`show`] reads the channel until it closes. What all renderers
//! want to know of a job - bytes, rate, time left - is in [`Track`].

mod bar;
mod json;
mod plain;
mod track;

use std::io::IsTerminal as _;

use haul_transfer::Event;
use tokio::sync::mpsc;

use crate::args::ProgressKind;
pub(crate) use track::{bytes_text, rate_text};

/// Shows events as they come.
pub(crate) trait Renderer: Send {
    /// Something happened.
    fn event(&mut self, event: &Event);

    /// Nothing more will: clears what would be in the way of the next line.
    fn close(&mut self) {}
}

/// What a user wants to see.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wish {
    /// Which kind.
    pub(crate) kind: ProgressKind,
    /// No warnings, no notes.
    pub(crate) quiet: bool,
    /// A line a segment.
    pub(crate) verbose: bool,
}

/// The renderer for a wish: `auto` is a bar on a terminal that can draw one, and nothing elsewhere.
pub(crate) fn renderer(wish: Wish) -> Box<dyn Renderer> {
    let able = std::io::stderr().is_terminal() && std::env::var_os("TERM").is_none_or(|term| term != "dumb");
    let notes = plain::Notes { quiet: wish.quiet, verbose: wish.verbose };
    match wish.kind {
        ProgressKind::Json => Box::new(json::Json),
        ProgressKind::Bar => Box::new(bar::Bars::new(notes)),
        ProgressKind::Auto if able && !wish.quiet => Box::new(bar::Bars::new(notes)),
        ProgressKind::Plain => Box::new(plain::Plain::new(notes)),
        ProgressKind::Auto | ProgressKind::None => Box::new(plain::Silent(notes)),
    }
}

/// Reads events until the channel closes.
pub(crate) async fn show(mut events: mpsc::Receiver<Event>, mut renderer: Box<dyn Renderer>) {
    while let Some(event) = events.recv().await {
        renderer.event(&event);
    }
    renderer.close();
}
