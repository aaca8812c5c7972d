//! `rgit`: push, fetch, clone and ls-remote over pluggable transports, with git's command line.
//!
//! This binary turns arguments into options, asks `rgit-transport-auto` for a transport, lets `rgit-porcelain` do the work, and
//! prints what came of it. Policy lives below; results go to standard output, progress and diagnostics to standard error.

// Printing is what this program is for.
#![allow(clippy::print_stdout, clippy::print_stderr)]

mod args;
mod commands;
mod context;
mod duration;
mod exit;
mod interrupt;
mod parameters;
mod ui;

use clap::Parser;

fn main() -> std::process::ExitCode {
    let args = match args::Args::try_parse() {
        Ok(args) => args,
        Err(err) => return exit::usage(&err),
    };
    ui::trace::init();
    exit::code(commands::run(args))
}
