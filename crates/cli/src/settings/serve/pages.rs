//! Pages of other sites: which of them may use the server from a browser, and by which names it may be asked for.

use haul_serve::access::{CorsError, CorsOptions, CorsPolicy};
use http::Method;

use crate::args::CorsArgs;
use crate::settings::SettingError;

/// `*` is any name, whatever else is said.
pub(super) fn allowed_hosts(allowed: &[String]) -> Option<Vec<String>> {
    let is_any = allowed.iter().any(|name| name == "*");
    (!is_any).then(|| allowed.to_vec())
}

/// Which other sites' pages may do what.
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
            return Err(SettingError::new(format!("{flag} does not say for whom"))
                .with_hint("--cors https://host names the pages that may"));
        }
    };
    let defaults = CorsOptions::default();
    let mut methods = defaults.allowed_methods.clone();
    if args.cors_write {
        if !writable {
            return Err(
                SettingError::new("--cors-write is about uploads, and none are taken")
                    .with_hint("-w/--writable takes them"),
            );
        }
        methods.extend([Method::PUT, Method::DELETE, Method::POST]);
    }
    let options = CorsOptions {
        origins,
        allowed_methods: methods,
        credentials: args.cors_credentials,
        ..defaults
    };
    let wrong = |error| match error {
        CorsError::AnyWithCredentials => {
            SettingError::new("--cors '*' and --cors-credentials: browsers refuse that, too")
                .with_hint("name the pages: --cors https://host")
        }
        CorsError::HeaderField => SettingError::new("--cors cannot be used").caused_by(error),
    };
    CorsPolicy::new(options).map(Some).map_err(wrong)
}
