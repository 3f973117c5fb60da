//! The target `request_head` under libFuzzer.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| haul_fuzz::run("request_head", data));
