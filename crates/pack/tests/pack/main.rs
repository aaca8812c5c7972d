//! Packs against real repositories, with git as referee.

mod concurrent;
mod deltas;
mod histories;
mod packs;
mod support;
