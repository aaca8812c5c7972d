//! Deltas in git's format (gitformat-pack(5), "Deltified representation"): one object told as pieces of another.
//!
//! `index` finds where pieces of a base occur, `encode` writes the instructions. Nothing is applied here: that is the receiver's
//! work, and in the tests git's, gix's and a plain reading of the format.

#[cfg(test)]
mod apply;
mod encode;
mod index;
#[cfg(test)]
mod referees;

pub use encode::Encoder;
pub use index::DeltaIndex;
