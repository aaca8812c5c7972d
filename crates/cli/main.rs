//! rgit
fn main() {}
