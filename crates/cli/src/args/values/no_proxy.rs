//! Hosts that are reached without a proxy.

use haul_net::NoProxy;

use super::ValueError;

/// A list of hosts, which may be empty. One that cannot be used is an error: whoever wrote it would think that it is reached straight.
pub(crate) fn no_proxy(text: &str) -> Result<NoProxy, ValueError> {
    let list = NoProxy::parse(text);
    match list.errors().first() {
        None => Ok(list),
        Some(error) => Err(ValueError::new(error.to_string()).with_hint(
            "hosts stand between commas: names, addresses, networks as 10.0.0.0/8; * is all",
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_host_is_named_and_what_is_nothing_is_left_out() {
        for text in ["", ",", "a.test,,b.test", " a.test , 10.0.0.0/8,", "*"] {
            assert!(no_proxy(text).is_ok(), "{text}");
        }
        let told = no_proxy("a.test,1.2.3.4/99,b.test").unwrap_err();
        assert!(told.to_string().starts_with("\"1.2.3.4/99\" is no network"));
        let told = no_proxy("http://me:s3cret@p.test").unwrap_err();
        assert!(!told.to_string().contains("s3cret"));
    }
}
