//! The pack as a stream: `stores` knows where objects lie on disk, `plan` decides how each travels, `fresh` which objects become
//! new deltas, `order` what follows what. `worker` deflates what can't be copied, with `contents` to read it, `candidates` to
//! make deltas of, and `decisions` to make it the same way again; `window` hands the bytes over in order and within bounds, `reader` puts the pack together and `trailer`
//! hashes it.

mod candidates;
mod contents;
mod decisions;
mod deflate;
mod fresh;
mod options;
mod order;
mod pieces;
mod plan;
mod reader;
mod source;
mod stores;
mod trailer;
mod window;
mod worker;

pub(crate) use deflate::Content;
pub use options::{Options, Search, Stages, Statistics};
pub(crate) use pieces::Pieces;
pub use reader::PackReader;
pub use source::PackSource;
