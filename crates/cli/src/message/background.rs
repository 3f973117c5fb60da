//! Messages of a running server, printed in order by a thread of their own: standard error may be a pipe that is full and that nobody
//! reads, and the server must go on.

use std::sync::LazyLock;

use tokio::sync::{mpsc, oneshot};

use super::print_line;

/// Lines that may wait for standard error. Further ones are dropped.
const MAX_LINES: usize = 1000;

static PRINTER: LazyLock<mpsc::Sender<PrinterTask>> = LazyLock::new(start_printer);

/// What the thread does next.
enum PrinterTask {
    Print(String),
    /// Reports that everything before was printed.
    Report(oneshot::Sender<()>),
}

fn start_printer() -> mpsc::Sender<PrinterTask> {
    let (sender, mut tasks) = mpsc::channel(MAX_LINES);
    std::thread::spawn(move || {
        while let Some(task) = tasks.blocking_recv() {
            match task {
                PrinterTask::Print(line) => print_line(&line),
                // Nobody may wait any longer.
                PrinterTask::Report(printed) => drop(printed.send(())),
            }
        }
    });
    sender
}

/// Prints a line, or several, to standard error soon. Never blocks.
pub(crate) fn print_in_background(text: String) {
    // With so many lines unread, nobody misses one.
    let _ = PRINTER.try_send(PrinterTask::Print(text));
}

/// Waits until everything that was given to [`print_in_background`] is printed, which may be never.
pub(crate) async fn all_printed() {
    let (printed, report) = oneshot::channel();
    if PRINTER.send(PrinterTask::Report(printed)).await.is_ok() {
        // An error means that the thread has panicked, which was reported.
        let _ = report.await;
    }
}
