//! Packs against real repositories, with git as referee.

mod concurrent;
mod damage;
mod deltas;
mod failures;
mod histories;
mod large;
mod packs;
mod stores;
mod support;
