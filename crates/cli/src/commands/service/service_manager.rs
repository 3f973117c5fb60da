//! Notifies the service manager that started this process, such as systemd.

use std::io;

use haul_service::listen::ServiceManagerNotifier;

use crate::message::{print_line, warning_text};

/// The service manager, if it wants to be notified.
pub(crate) fn service_manager_notifier() -> ServiceManagerNotifier {
    let socket = std::env::var_os("NOTIFY_SOCKET");
    ServiceManagerNotifier::connect(socket.as_deref()).unwrap_or_else(|error| {
        warn_if_not_notified(Err(error));
        ServiceManagerNotifier::none()
    })
}

/// A failed notification is a warning: it is no reason to stop.
pub(crate) fn warn_if_not_notified(result: io::Result<()>) {
    if let Err(error) = result {
        print_line(&warning_text(&format!(
            "cannot notify the service manager: {error}"
        )));
    }
}
