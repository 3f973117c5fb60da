//! The target `content_range` under libFuzzer.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| haul_fuzz::run("content_range", data));
