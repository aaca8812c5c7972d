//! The pack as a stream: `stores` knows where objects lie on disk, `plan` decides how each travels, `fresh` which objects become
//! new deltas, `order` what follows what. `worker` deflates what can't be copied, with `contents` to read it and `candidates` to
//! make deltas of; `window` hands the bytes over in order and within bounds, `reader` puts the pack together and `trailer`
//! hashes it.

mod candidates;
mod contents;
mod deflate;
mod fresh;
mod loose;
mod options;
mod order;
mod plan;
mod reader;
mod source;
mod stores;
mod trailer;
mod window;
mod worker;

pub(crate) use deflate::Content;
pub(crate) use loose::Loose;
pub use options::{Options, Search, Stages, Statistics};
pub use reader::PackReader;
pub use source::PackSource;
