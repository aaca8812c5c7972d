//! The end of what is being measured, from another thread: a person's Ctrl-C must not wait for a slow run, nor leave it behind.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex},
};

use super::kill_group;
use crate::requests::lock;

/// Ends runs that were told to heed it ([`super::Meter::until`]), those under way and all later ones.
#[derive(Debug, Clone, Default)]
pub struct Interrupt(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    told: bool,
    /// Process groups under way.
    groups: BTreeSet<u32>,
}

impl Interrupt {
    /// Kills what is under way.
    pub fn interrupt(&self) {
        let mut state = lock(&self.0);
        state.told = true;
        for group in &state.groups {
            kill_group(*group);
        }
    }

    /// Whether it was told.
    pub fn is_told(&self) -> bool {
        lock(&self.0).told
    }

    /// Whether a run is under way.
    #[cfg(test)]
    pub(super) fn has_joined(&self) -> bool {
        !lock(&self.0).groups.is_empty()
    }

    /// Counts a process group as under way until the returned guard is dropped, which must be before its leader is reaped:
    /// its number may be another's afterwards.
    pub(super) fn join(&self, group: u32) -> Joined {
        let mut state = lock(&self.0);
        state.groups.insert(group);
        if state.told {
            kill_group(group);
        }
        Joined(self.clone(), group)
    }
}

/// A process group under way.
#[derive(Debug)]
pub(super) struct Joined(Interrupt, u32);

impl Drop for Joined {
    fn drop(&mut self) {
        lock(&self.0.0).groups.remove(&self.1);
    }
}
