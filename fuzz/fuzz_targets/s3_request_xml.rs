//! The target `s3_request_xml` under libFuzzer.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| haul_fuzz::run("s3_request_xml", data));
