//! Which objects a push sends, and the pack as a stream.
//!
//! Owns the two steps between "these refs shall move" and "these bytes go out":
//!
//! 1. [`ObjectSet::find`] enumerates what is reachable from the wanted tips and not from what the remote has. It costs by the
//!    change: trees are compared with their parents' trees, and only what differs is entered.
//! 2. [`PackSource::new`] decides how each object travels (copied from a pack as it lies, or deflated anew, as a delta of another
//!    version of its path or of what a search finds) and in which order; [`PackSource::reader`] yields the pack's bytes while
//!    later objects are still being searched and deflated. Each reader of a source yields the same bytes, so that a request body
//!    can be sent again.
//!
//! [`Options`] tell where deltas are looked for and bound what that takes. A delta is only ever sent when its base is in the same
//! pack, or (thin packs) among the objects that enumeration *saw* in a tree of a commit the remote has.
//!
//! Refuses: HTTP, pkt-lines, refs, configuration. It needs an object database and produces bytes, and works in any gix program:
//!
//! ```no_run
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use std::sync::{Arc, atomic::AtomicBool};
//! let repo = gix::open(".")?;
//! let odb = repo.objects.clone().into_inner();
//! let interrupt = Arc::new(AtomicBool::new(false));
//! let tip = repo.head_id()?.detach();
//! let counted = Default::default();
//! let objects = rgit_pack::ObjectSet::find(&odb, &[tip], &[], &[], &counted, &interrupt)?;
//! let source = rgit_pack::PackSource::new(odb, Arc::new(objects), rgit_pack::Options::default(), interrupt)?;
//! std::io::copy(&mut source.reader()?, &mut std::io::stdout())?;
//! # Ok(()) }
//! ```

pub mod delta;
mod error;
pub mod index;
mod links;
mod objects;
mod stream;

pub use error::Error;
pub use links::check_links;
pub use objects::{Base, DeltaUnset, Entry, ObjectSet};
pub use stream::{Options, PackReader, PackSource, Search, Stages, Statistics};
