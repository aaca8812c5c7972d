//! What HTTP/2 peers do that servers of HTTP/1.1 can't, frame by frame. What is promised in any protocol is checked by the conformance
//! suite (`tests/conformance`).

mod hostile;
mod pings;
mod records;
mod resets;
mod sharing;
mod support;
mod versions;
mod windows;
