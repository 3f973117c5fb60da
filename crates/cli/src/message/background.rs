//! Messages of a running server, printed in order by a thread of their own: standard error may be a pipe that is full and that nobody
//! reads, and the server must go on.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock};
use std::thread;

use tokio::sync::{mpsc, oneshot};

use super::{print_line, warning_text};

/// Messages that may wait for standard error. Further ones are dropped and counted.
const MAX_MESSAGES: usize = 1000;

static STDERR: LazyLock<BackgroundPrinter> = LazyLock::new(|| BackgroundPrinter::start(print_line));

/// Prints a line, or several, to standard error soon. Never blocks: while too many messages wait, further ones are dropped.
pub(crate) fn print_in_background(text: String) {
    STDERR.print(text);
}

/// Prints a last message, if there is one, and waits until everything before is printed, which may be never.
pub(crate) async fn finish_printing(last: Option<String>) {
    STDERR.finish(last).await;
}

/// A thread that prints, and the messages that wait for it.
struct BackgroundPrinter {
    tasks: mpsc::Sender<PrinterTask>,
    /// Messages that were dropped and not reported yet.
    dropped: Arc<AtomicUsize>,
}

/// What the thread does next.
enum PrinterTask {
    Print(String),
    /// Reports that everything before was printed.
    Report(oneshot::Sender<()>),
}

impl BackgroundPrinter {
    fn start(print: impl Fn(&str) + Send + 'static) -> Self {
        let (sender, mut tasks) = mpsc::channel(MAX_MESSAGES);
        let dropped = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&dropped);
        let print_all = move || {
            while let Some(task) = tasks.blocking_recv() {
                if let PrinterTask::Print(text) = &task {
                    print(text);
                }
                if tasks.is_empty()
                    && let count @ 1.. = count.swap(0, Ordering::Relaxed)
                {
                    let text = format!("messages that nobody read in time were dropped: {count}");
                    print(&warning_text(&text));
                }
                if let PrinterTask::Report(printed) = task {
                    // Nobody may wait any longer.
                    let _ = printed.send(());
                }
            }
        };
        // Without a thread the channel is closed, and messages are lost.
        let _ = thread::Builder::new()
            .name("messages".into())
            .spawn(print_all);
        Self {
            tasks: sender,
            dropped,
        }
    }

    fn print(&self, text: String) {
        if self.tasks.try_send(PrinterTask::Print(text)).is_err() {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    async fn finish(&self, last: Option<String>) {
        let (printed, report) = oneshot::channel();
        let last = last.map(PrinterTask::Print);
        for task in last.into_iter().chain([PrinterTask::Report(printed)]) {
            // An error means that there is no thread.
            let _ = self.tasks.send(task).await;
        }
        let _ = report.await;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    #[tokio::test]
    async fn the_last_message_is_printed_even_if_others_were_dropped() {
        let lines = Arc::new(Mutex::new(Vec::new()));
        let sink = Arc::clone(&lines);
        let printer = BackgroundPrinter::start(move |text| {
            sink.lock().unwrap().push(text.to_owned());
        });
        // While the test holds the lock, nothing can be printed.
        let blocked = lines.lock().unwrap();
        for number in 0..MAX_MESSAGES + 10 {
            printer.print(number.to_string());
        }
        drop(blocked);
        printer.finish(Some("last".to_owned())).await;
        let lines = lines.lock().unwrap();
        assert_eq!(lines[..3], ["0", "1", "2"]);
        assert!(lines.contains(&"last".to_owned()), "{lines:?}");
        // One message is out of the queue if the thread has begun to print it.
        assert!(
            lines.iter().any(|line| line.ends_with("were dropped: 10"))
                || lines.iter().any(|line| line.ends_with("were dropped: 9")),
            "{lines:?}"
        );
    }
}
