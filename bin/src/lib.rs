//! Rookery's program: command line, configuration, chat, and the start and end of the service.

pub mod banner;
mod chat;
mod cli;
mod client;
mod commands;
pub mod config;
#[cfg(test)]
mod deploy_tests;
mod endpoint;
mod exit;
mod logging;
mod output;
pub mod policy_check;
mod probe;
mod render;
mod run;
pub mod service;
mod signals;

use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;

use cli::{Cli, Command, ConfigCommand, McpCommand, PolicyCommand};
use config::Environment;
use exit::{Exit, Failure};

/// The allocator of the programs, SQLite's part of them included. A turn is some thousand short-lived allocations,
/// many of them larger than what glibc keeps at hand for a thread. Huge pages are off: they would make an idle
/// service larger by three quarters.
pub type Allocator = mimalloc::MiMalloc;

/// See [`Allocator`].
pub const ALLOCATOR: Allocator = mimalloc::MiMalloc;

/// The whole program. Another binary may call this in the place of its own `main`.
pub fn main() -> ExitCode {
    install_crypto();
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            // Help and version are ends like any other; a closed pipe leaves nobody to tell.
            let _ = error.print();
            return if error.use_stderr() { Exit::Usage.into() } else { Exit::Ok.into() };
        }
    };
    match dispatch(cli) {
        Ok(exit) => exit.into(),
        Err(failure) => {
            output::to_stderr(&format!("error: {}\n", failure.message));
            failure.exit.into()
        }
    }
}

/// TLS needs a provider before the first client is built. A second call finds it there, which is fine.
fn install_crypto() {
    let _ = rustls::crypto::ring::default_provider().install_default();
}

fn dispatch(cli: Cli) -> Result<Exit, Failure> {
    let environment = Environment::of_process();
    // An empty variable is an unset one.
    let named = cli.config.filter(|path| !path.as_os_str().is_empty());
    let named = named.as_deref();
    let remote = cli.remote;
    match cli.command.unwrap_or(Command::Run) {
        Command::Config(command) => config_command(command, named, &environment),
        Command::Policy(PolicyCommand::Check { agent, tool, args, output: _ }) => {
            commands::policy::check(&config::load(named, &environment)?, &agent, &tool, &args)
        }
        Command::Tools(output) => commands::policy::tools(output),
        Command::Mcp(McpCommand::Login { server }) => {
            let loaded = config::load(named, &environment)?;
            block_on(async move { commands::mcp::login(&loaded.settings, &server).await })
        }
        Command::Backup { to, output } => {
            commands::backup::run(&config::load(named, &environment)?, &to, output)
        }
        Command::Run => block_on(run::run(named, &environment)),
        Command::Chat(args) => block_on(run::chat(named, &environment, &remote, args)),
        Command::Doctor { live, output } => {
            block_on(commands::doctor::run(named, &environment, &remote, live, output))
        }
        other => block_on(async {
            let client = endpoint::client(named, &environment, &remote)?;
            commands::remote::run(&client, other).await
        }),
    }
}

fn config_command(
    command: ConfigCommand,
    named: Option<&std::path::Path>,
    environment: &Environment,
) -> Result<Exit, Failure> {
    match command {
        ConfigCommand::Check(output) => commands::config::check(named, environment, output),
        ConfigCommand::Show(output) => {
            commands::config::show(&config::load(named, environment)?, output)
        }
        ConfigCommand::Schema(output) => commands::config::schema(output),
        ConfigCommand::Init => {
            commands::config::init(named.unwrap_or(std::path::Path::new(config::USUAL_FILE)))
        }
    }
}

fn block_on(work: impl Future<Output = Result<Exit, Failure>>) -> Result<Exit, Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::failed(format!("can't start the runtime: {error}")))?;
    let result = runtime.block_on(work);
    // What is left is a blocked read of standard input at most: nothing to wait long for.
    runtime.shutdown_timeout(Duration::from_millis(200));
    result
}
