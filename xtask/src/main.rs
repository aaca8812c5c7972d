//! The tasks of this repository, one file each: `cargo xtask demo`, `cargo xtask test`, `cargo xtask bench`,
//! `cargo xtask tidy`.
//!
//! Owns what is done *to* the workspace: building and checking it, and showing it at work. Nothing here is shipped, and no
//! crate depends on it.
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a task speaks to the person who started it"
)]

mod bench;
mod cargo;
mod demo;
mod test;
mod tidy;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Tasks of this repository.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Arguments {
    #[command(subcommand)]
    task: Task,
}

#[derive(Debug, Subcommand)]
enum Task {
    /// Show rgit at work: serve a real `git http-backend` over TLS, move a repository by every transport, check the result.
    Demo(demo::Arguments),
    /// Run every check and test, as continuous integration does.
    Test(test::Arguments),
    /// Measure rgit against git and its peers: a matrix of scenarios, transports, links and servers.
    Bench(Box<bench::Arguments>),
    /// Check the house rules: who may depend on whom, what sources may name, banned crates, licences.
    Tidy(tidy::Arguments),
}

fn main() -> ExitCode {
    let outcome = match Arguments::parse().task {
        Task::Demo(arguments) => demo::run(&arguments),
        Task::Test(arguments) => test::run(&arguments),
        Task::Bench(arguments) => bench::run(&arguments),
        Task::Tidy(arguments) => tidy::run(&arguments),
    };
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::from(2)
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        super::Arguments::command().debug_assert();
    }
}
