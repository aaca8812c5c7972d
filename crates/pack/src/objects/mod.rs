//! The set of objects to send. `commits` walks history down to what the remote has, `trees` compares each commit's tree with its
//! parents' (`changes` two trees, `ahead` in other threads before their turn comes), `boundary` looks for objects the remote has under other paths, `set` keeps the result.

mod ahead;
mod boundary;
mod cache;
mod changes;
mod commits;
mod find;
mod name_hash;
mod read;
mod set;
mod trees;

pub(crate) use cache::{DecodeCache, Generations};
pub(crate) use read::{header_id, plain_handle};
pub(crate) use set::fast_hash;
pub use set::{Base, Entry, ObjectSet};
pub use trees::DeltaUnset;
