use std::{path::PathBuf, time::Duration};

use crate::Judge;

/// How a daemon behaves.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Settings {
    /// Leave after so long without a client (`rgit.persistent.idleTimeout`). Default: 24 hours.
    pub idle_timeout: Duration,
    /// Reopen connections that a server closed, for origins used within so long (`rgit.persistent.reopen`). Default: 5 minutes; zero for
    /// never.
    pub reopen: Duration,
    /// Clients served at a time; others wait to be let in. Default: 512. Each is a thread and two descriptors or three.
    pub clients: usize,
    /// The program file this runs from: when another takes its place, the daemon makes way.
    pub program: Option<PathBuf>,
    /// Who says what may be remembered; without one, nothing is.
    pub judge: Option<Judge>,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            idle_timeout: Duration::from_secs(24 * 60 * 60),
            reopen: Duration::from_secs(5 * 60),
            clients: 512,
            program: None,
            judge: None,
        }
    }
}
