//! The target `link_header` under libFuzzer.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| haul_fuzz::run("link_header", data));
