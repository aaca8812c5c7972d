#![no_main]

#[allow(dead_code)]
#[path = "../../tests/support/invariants.rs"]
mod invariants;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let (sizes, input) = invariants::sizes_and_input(data);
    let _ = invariants::sideband(input, sizes);
});
