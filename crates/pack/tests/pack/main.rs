//! Packs against real repositories, with git as referee.

mod histories;
mod packs;
mod support;
