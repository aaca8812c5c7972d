//! Ctrl-C and SIGTERM: tell the work to stop, give it a moment to clean up, then leave as the signal would have it.

use std::{
    path::PathBuf,
    sync::{
        Arc, Mutex, OnceLock, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

/// How long the work may take to stop by itself. It stops between two reads; a read that waits for the network won't return sooner
/// than its server speaks.
#[cfg(unix)]
const GRACE: std::time::Duration = std::time::Duration::from_millis(1500);

static FLAG: OnceLock<Arc<AtomicBool>> = OnceLock::new();
static LEFTOVER: Mutex<Option<PathBuf>> = Mutex::new(None);

/// The flag that is set once the user wants to stop. The first call begins to listen.
pub(crate) fn flag() -> Arc<AtomicBool> {
    Arc::clone(FLAG.get_or_init(|| {
        let flag = Arc::new(AtomicBool::new(false));
        listen(Arc::clone(&flag));
        flag
    }))
}

/// Whether the user wants to stop.
pub(crate) fn is_set() -> bool {
    FLAG.get().is_some_and(|flag| flag.load(Ordering::SeqCst))
}

/// Remove this directory if the process must die before the work has cleaned up; `None` once it may stay.
pub(crate) fn remove_if_killed(directory: Option<PathBuf>) {
    *LEFTOVER.lock().unwrap_or_else(PoisonError::into_inner) = directory;
}

#[cfg(unix)]
fn listen(flag: Arc<AtomicBool>) {
    use signal_hook::{consts::TERM_SIGNALS, iterator::Signals, low_level::emulate_default_handler};
    let Ok(mut signals) = Signals::new(TERM_SIGNALS) else {
        return;
    };
    std::thread::spawn(move || {
        for signal in signals.forever() {
            if !flag.swap(true, Ordering::SeqCst) {
                // A second signal doesn't wait: it finds the flag set.
                std::thread::spawn(move || {
                    std::thread::sleep(GRACE);
                    die(signal);
                });
            } else {
                die(signal);
            }
        }
    });

    fn die(signal: i32) {
        gix::tempfile::registry::cleanup_tempfiles();
        if let Some(directory) = LEFTOVER.lock().unwrap_or_else(PoisonError::into_inner).take() {
            let _ = std::fs::remove_dir_all(directory);
        }
        let _ = emulate_default_handler(signal);
    }
}

#[cfg(not(unix))]
fn listen(_flag: Arc<AtomicBool>) {}
