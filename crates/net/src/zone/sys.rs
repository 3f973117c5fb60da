//! `if_nametoindex` and `if_indextoname`, which the standard library does not offer.
#![expect(
    unsafe_code,
    reason = "if_nametoindex(3) and if_indextoname(3): the name of an interface as its number, and back"
)]

use std::ffi::{CStr, CString};

/// The number of an interface of this machine.
pub(super) fn interface_number(name: &str) -> Option<u32> {
    let name = CString::new(name).ok()?;
    // SAFETY: the name ends with a NUL and lives until the call returns.
    let number = unsafe { libc::if_nametoindex(name.as_ptr()) };
    (number != 0).then_some(number)
}

/// The name of an interface of this machine.
pub(super) fn interface_name(number: u32) -> Option<String> {
    let mut buffer = [0; libc::IF_NAMESIZE];
    // SAFETY: the buffer has the length that the function asks for.
    let name = unsafe { libc::if_indextoname(number, buffer.as_mut_ptr()) };
    if name.is_null() {
        return None;
    }
    // SAFETY: the function has written a text that ends with a NUL into the buffer.
    let name = unsafe { CStr::from_ptr(name) };
    Some(name.to_string_lossy().into_owned())
}
