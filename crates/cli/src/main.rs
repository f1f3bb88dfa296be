//! `kubequota`: arguments in, answers out. What they say is worked out in the other crates.
//!
//! One file per subcommand: a new one is a module, and a line in [`Command`] and in [`run`].

mod audit;
mod controller;
#[cfg(feature = "demo")]
mod demo;
mod input;
mod output;
mod process;
mod webhook;

use std::io::Write;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// ResourceQuota for Kubernetes: what quotas count, and whether they count it right.
#[derive(Debug, Parser)]
#[command(name = "kubequota", version, max_term_width = 100, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Audit(audit::Args),
    Controller(controller::Args),
    #[cfg(feature = "demo")]
    Demo(demo::Args),
    Run(webhook::RunArgs),
    Webhook(webhook::Args),
}

fn run(command: Command) -> Result<ExitCode, output::OutputError> {
    match command {
        Command::Audit(args) => audit::run(&args),
        Command::Controller(args) => Ok(controller::run(&args)),
        #[cfg(feature = "demo")]
        Command::Demo(args) => Ok(demo::run(&args)),
        Command::Run(args) => Ok(webhook::run_both(&args)),
        Command::Webhook(args) => Ok(webhook::run(&args)),
    }
}

fn main() -> ExitCode {
    run(Cli::parse().command).unwrap_or_else(|error| {
        // There is nowhere left to say that this fails.
        let _ = writeln!(std::io::stderr().lock(), "kubequota: {error}");
        ExitCode::from(output::BAD_INPUT)
    })
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn arguments_are_consistent() {
        Cli::command().debug_assert();
    }
}
