//! The target `s3_request` under libFuzzer.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| haul_fuzz::run("s3_request", data));
