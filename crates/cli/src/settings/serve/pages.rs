//! Access for pages of other sites (CORS), and the host names that requests may use.

use haul_serve::access::{CorsError, CorsOptions, CorsPolicy};
use http::Method;

use crate::args::CorsArgs;
use crate::settings::SettingError;

/// The allowed host names; `None` for any: one `*` suffices.
pub(super) fn allowed_hosts(allowed: &[String]) -> Option<Vec<String>> {
    let is_any = allowed.iter().any(|name| name == "*");
    (!is_any).then(|| allowed.to_vec())
}

/// The CORS policy, if there is one.
pub(super) fn cors_policy(
    args: &CorsArgs,
    writable: bool,
) -> Result<Option<CorsPolicy>, SettingError> {
    let flag = if args.cors_write {
        Some("--cors-write")
    } else {
        args.cors_credentials.then_some("--cors-credentials")
    };
    let origins = match (&args.origins, flag) {
        (Some(origins), _) => origins.clone(),
        (None, None) => return Ok(None),
        (None, Some(flag)) => {
            return Err(SettingError::new(format!("{flag} needs --cors"))
                .with_hint("name the allowed pages with --cors https://host"));
        }
    };
    let defaults = CorsOptions::default();
    let mut methods = defaults.allowed_methods.clone();
    if args.cors_write {
        if !writable {
            return Err(SettingError::new("--cors-write needs uploads")
                .with_hint("allow them with -w/--writable"));
        }
        methods.extend([Method::PUT, Method::DELETE, Method::POST]);
    }
    let options = CorsOptions {
        origins,
        allowed_methods: methods,
        credentials: args.cors_credentials,
        ..defaults
    };
    let to_error = |error| match error {
        CorsError::AnyWithCredentials => SettingError::new(
            "--cors '*' and --cors-credentials cannot be combined: browsers refuse that",
        )
        .with_hint("name the pages: --cors https://host"),
        CorsError::HeaderField => SettingError::new("--cors cannot be used").caused_by(error),
    };
    CorsPolicy::new(options).map(Some).map_err(to_error)
}
