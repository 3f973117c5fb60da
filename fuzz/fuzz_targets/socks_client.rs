//! The target `socks_client` under libFuzzer.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| haul_fuzz::run("socks_client", data));
