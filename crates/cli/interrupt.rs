//! Ctrl-C and SIGTERM: tell the work to stop, give it a moment to clean up, then leave as the signal would have it.

use std::{
    path::PathBuf,
    sync::{
        Arc, Mutex, OnceLock, PoisonError,
        atomic::{AtomicBool, AtomicI32, Ordering},
    },
};

/// How long the work may take to stop by itself. It stops between two reads; a read that waits for the network won't return sooner
/// than its server speaks.
#[cfg(unix)]
const GRACE: std::time::Duration = std::time::Duration::from_millis(1500);

static FLAG: OnceLock<Arc<AtomicBool>> = OnceLock::new();
/// The signal that set the flag; 0 before.
static SIGNAL: AtomicI32 = AtomicI32::new(0);
static LEFTOVER: Mutex<Option<Leftover>> = Mutex::new(None);

/// A directory that the work is filling.
struct Leftover {
    directory: PathBuf,
    /// It was here, empty, before.
    existed: bool,
}

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

/// Remove this directory, or what is in it if it is here already, should the process have to die before the work has cleaned up;
/// `None` once it may stay.
pub(crate) fn remove_if_killed(directory: Option<PathBuf>) {
    let leftover = directory.map(|directory| Leftover {
        existed: directory.exists(),
        directory,
    });
    *LEFTOVER.lock().unwrap_or_else(PoisonError::into_inner) = leftover;
}

/// If a signal ended the work, die of it as git does: a shell's loop goes on after any exit code, and stops after this.
pub(crate) fn die_of_signal() {
    #[cfg(unix)]
    match SIGNAL.load(Ordering::SeqCst) {
        0 => {}
        signal => die(signal),
    }
}

#[cfg(unix)]
fn listen(flag: Arc<AtomicBool>) {
    use signal_hook::{
        consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM},
        iterator::Signals,
    };
    let Ok(mut signals) = Signals::new([SIGHUP, SIGINT, SIGQUIT, SIGTERM]) else {
        return;
    };
    std::thread::spawn(move || {
        for signal in signals.forever() {
            SIGNAL.store(signal, Ordering::SeqCst);
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
}

#[cfg(unix)]
fn die(signal: i32) {
    gix::tempfile::registry::cleanup_tempfiles();
    if let Some(leftover) = LEFTOVER.lock().unwrap_or_else(PoisonError::into_inner).take() {
        leftover.remove();
    }
    let _ = signal_hook::low_level::emulate_default_handler(signal);
}

#[cfg(unix)]
impl Leftover {
    fn remove(&self) {
        // The work may still be writing: what it adds behind our back is caught by another round.
        for _ in 0..10 {
            let removed = if self.existed {
                std::fs::read_dir(&self.directory).is_ok_and(|entries| {
                    entries.flatten().all(|entry| match entry.file_type() {
                        Ok(kind) if kind.is_dir() => std::fs::remove_dir_all(entry.path()).is_ok(),
                        _ => std::fs::remove_file(entry.path()).is_ok(),
                    })
                })
            } else {
                std::fs::remove_dir_all(&self.directory).is_ok() || !self.directory.exists()
            };
            if removed {
                break;
            }
        }
    }
}

#[cfg(not(unix))]
fn listen(_flag: Arc<AtomicBool>) {}
