//! The service manager, where one started us and wants to be told how we are.

use std::io;

use haul_service::listen::ServiceManagerNotifier;

use crate::message::{print_line, warning_text};

/// Who started us, where that wants to be told.
pub(crate) fn service_manager_notifier() -> ServiceManagerNotifier {
    let place = std::env::var_os("NOTIFY_SOCKET");
    ServiceManagerNotifier::to(place.as_deref()).unwrap_or_else(|error| {
        warn_if_not_notified(Err(error));
        ServiceManagerNotifier::nobody()
    })
}

/// A service manager that cannot be told anything is no reason to stop.
pub(crate) fn warn_if_not_notified(sent: io::Result<()>) {
    if let Err(error) = sent {
        print_line(&warning_text(&format!(
            "the service manager cannot be told: {error}"
        )));
    }
}
