//! Exit codes, in one place: 0 done, 1 a ref was refused, 128 transport or protocol failed, 129 usage; as git's.

use std::process::ExitCode;

use crate::ui;

/// How a command that ran to its end turned out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// Everything asked for was done.
    Done,
    /// Some of it was refused, and said so.
    Refused,
    /// Nothing matched, where the caller asked to be told by the exit code (`ls-remote --exit-code`).
    NoMatch,
}

const FAILURE: u8 = 128;
const USAGE: u8 = 129;

/// The process's exit code for a command's result; an error is printed here.
pub(crate) fn code(result: anyhow::Result<Outcome>) -> ExitCode {
    match result {
        Ok(Outcome::Done) => ExitCode::SUCCESS,
        Ok(Outcome::Refused) => ExitCode::from(1),
        Ok(Outcome::NoMatch) => ExitCode::from(2),
        Err(err) => {
            crate::interrupt::die_of_signal();
            if err.downcast_ref::<ui::ReaderGone>().is_some() {
                die_of_broken_pipe();
            }
            ui::error::print(&err);
            ExitCode::from(FAILURE)
        }
    }
}

/// As any program ends whose reader wants no more: `rgit ls-remote | head -1` is no failure to speak of.
fn die_of_broken_pipe() {
    #[cfg(unix)]
    let _ = signal_hook::low_level::emulate_default_handler(signal_hook::consts::SIGPIPE);
}

/// clap's verdict on the arguments: help and version are no failure.
pub(crate) fn usage(err: &clap::Error) -> ExitCode {
    // Nothing can be done when even the message can't be printed.
    let _ = err.print();
    if err.use_stderr() {
        ExitCode::from(USAGE)
    } else {
        ExitCode::SUCCESS
    }
}
