//! The pack as a stream: `stores` knows where objects lie on disk, `plan` decides how each travels and in which order, `worker`
//! deflates those that can't be copied, `window` hands their bytes over in order and within bounds, `reader` puts the pack
//! together and `trailer` hashes it.

mod deflate;
mod loose;
mod options;
mod plan;
mod reader;
mod source;
mod stores;
mod trailer;
mod window;
mod worker;

pub use options::{Options, Stages, Statistics};
pub use reader::PackReader;
pub use source::PackSource;
