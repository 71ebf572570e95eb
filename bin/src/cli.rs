//! The command line (DESIGN.md, section 7).

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};
use jiff::{SignedDuration, Timestamp};

/// Rookery: a fault-tolerant agent service.
#[derive(Parser)]
#[command(name = "rookery", version, about, disable_help_subcommand = true)]
pub struct Cli {
    /// The configuration file. Default: ./rookery.toml, if it is there.
    #[arg(long, global = true, env = "ROOKERY_CONFIG", value_name = "FILE")]
    pub config: Option<PathBuf>,
    #[command(flatten)]
    pub remote: Remote,
    #[command(subcommand)]
    pub command: Option<Command>,
}

/// Which service a command speaks to.
#[derive(Args, Clone, Default)]
pub struct Remote {
    /// The service. Default: http:// and gateway.listen of the configuration.
    #[arg(long, global = true, env = "ROOKERY_URL", value_name = "URL", hide_env_values = true)]
    pub url: Option<String>,
    /// The bearer token. Default: the file admin.token in data_dir.
    #[arg(
        long,
        global = true,
        env = "ROOKERY_TOKEN",
        value_name = "TOKEN",
        hide_env_values = true
    )]
    pub token: Option<String>,
}

#[derive(Subcommand)]
pub enum Command {
    /// Runs the service; with a terminal, a chat beside it. This is what no command does.
    Run,
    /// Chats with an agent: of the service that runs, or of one started for it.
    Chat(ChatArgs),
    /// Shows the live tree of actors.
    Tree {
        /// Shows it anew every second, until Ctrl-C.
        #[arg(long)]
        watch: bool,
        #[command(flatten)]
        output: Output,
    },
    /// Shows the busiest actors, anew every second at a terminal, until Ctrl-C.
    Top(TopArgs),
    /// Shows, stops, kills, restarts, pauses or resumes one actor.
    #[command(subcommand)]
    Actor(ActorCommand),
    /// Lists, shows or cancels turns.
    #[command(subcommand)]
    Turns(TurnsCommand),
    /// Lists or decides approvals.
    #[command(subcommand)]
    Approvals(ApprovalsCommand),
    /// Lists, shows, retries or purges dead letters.
    #[command(subcommand)]
    Deadletters(DeadLettersCommand),
    /// Checks receipts of tool results.
    #[command(subcommand)]
    Receipts(ReceiptsCommand),
    /// Lists, shows or deletes conversations.
    #[command(subcommand)]
    Sessions(SessionsCommand),
    /// Lists channels, or checks that all of them are up.
    #[command(subcommand)]
    Channels(ChannelsCommand),
    /// Lets people into a channel by one-time codes.
    #[command(subcommand)]
    Pair(PairCommand),
    /// Lists, searches, shows, forgets or exports what is remembered.
    #[command(subcommand)]
    Memory(MemoryCommand),
    /// Copies the databases of this configuration to a folder, while the service runs or not.
    Backup {
        /// The folder; it is made, and must not hold a backup yet.
        to: PathBuf,
        #[command(flatten)]
        output: Output,
    },
    /// Lists crashes of actors.
    Crashes(Output),
    /// Lists who did what.
    Audit(AuditArgs),
    /// Lists the built-in tools: the names that policies and filters are written with.
    Tools(Output),
    /// Tells what policy says of a tool call.
    #[command(subcommand)]
    Policy(PolicyCommand),
    /// Logs in at MCP servers.
    #[command(subcommand)]
    Mcp(McpCommand),
    /// Checks, shows, explains or writes the configuration.
    #[command(subcommand)]
    Config(ConfigCommand),
    /// Checks the configuration and whether the service is ready.
    Doctor {
        /// Asks only whether the process is alive, for a liveness probe.
        #[arg(long)]
        live: bool,
        #[command(flatten)]
        output: Output,
    },
}

/// How a result is printed.
#[derive(Args, Clone, Copy, Default)]
pub struct Output {
    /// Prints JSON.
    #[arg(long)]
    pub json: bool,
}

/// The conversation that is gone on with when none is named.
const USUAL_CONVERSATION: &str = "main";

#[derive(Args, Clone)]
pub struct ChatArgs {
    /// Sends this one message, prints the reply, and ends: 0 answered, 1 failed, 3 denied.
    #[arg(short, long, value_name = "TEXT", value_parser = not_blank)]
    pub message: Option<String>,
    /// The agent. Default: the one that owns the channel `cli`.
    #[arg(long, value_name = "NAME")]
    pub agent: Option<String>,
    /// The conversation to go on with.
    #[arg(long, value_name = "NAME", default_value = USUAL_CONVERSATION)]
    pub conversation: String,
}

/// The begin of a time range.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Since {
    /// A moment.
    At(Timestamp),
    /// So long before now.
    Ago(SignedDuration),
}

impl Since {
    /// The moment.
    pub fn moment(self, now: Timestamp) -> Timestamp {
        match self {
            Self::At(at) => at,
            Self::Ago(ago) => now.checked_sub(ago).unwrap_or(Timestamp::MIN),
        }
    }
}

fn since(text: &str) -> Result<Since, String> {
    if let Ok(at) = text.parse() {
        return Ok(Since::At(at));
    }
    // A day is 24 hours here, whatever a calendar says.
    let days = text.strip_suffix('d').and_then(|days| days.parse::<i64>().ok());
    let ago = match days.and_then(|days| days.checked_mul(24)) {
        Some(hours) => SignedDuration::try_from_hours(hours),
        None => text.parse().ok(),
    };
    ago.filter(|ago| !ago.is_negative())
        .map(Since::Ago)
        .ok_or_else(|| "is neither a time nor how long ago".to_owned())
}

/// A message has a text.
fn not_blank(text: &str) -> Result<String, String> {
    if text.trim().is_empty() { Err("it is blank".to_owned()) } else { Ok(text.to_owned()) }
}

impl Default for ChatArgs {
    fn default() -> Self {
        Self { message: None, agent: None, conversation: USUAL_CONVERSATION.to_owned() }
    }
}

#[derive(Args, Clone, Default)]
pub struct Because {
    /// Why, for the audit.
    #[arg(long, value_name = "TEXT")]
    pub reason: Option<String>,
}

#[derive(Subcommand)]
pub enum ActorCommand {
    /// Shows one actor.
    Show {
        /// Its path, such as root/service/observer; the end of one, if no other ends so; or a turn's or call's id.
        path: String,
        #[command(flatten)]
        output: Output,
    },
    /// Tells it to stop.
    Stop {
        /// Its path, the end of one, or an id.
        path: String,
        #[command(flatten)]
        because: Because,
    },
    /// Ends it at once.
    Kill {
        /// Its path, the end of one, or an id.
        path: String,
        #[command(flatten)]
        because: Because,
    },
    /// Stops it and starts it again.
    Restart {
        /// Its path, the end of one, or an id.
        path: String,
        #[command(flatten)]
        because: Because,
    },
    /// Lets it take no new work: a channel's intake or sender, sessions.
    Pause {
        /// Its path, the end of one, or an id.
        path: String,
        #[command(flatten)]
        because: Because,
    },
    /// Lets a paused one take work again.
    Resume {
        /// Its path, the end of one, or an id.
        path: String,
        #[command(flatten)]
        because: Because,
    },
}

#[derive(Subcommand)]
pub enum TurnsCommand {
    /// Lists turns, newest first.
    List {
        /// Only of this conversation.
        #[arg(long)]
        conversation: Option<String>,
        /// Only in this state.
        #[arg(long, value_parser = ["queued", "running", "waiting_approval", "ended"])]
        state: Option<String>,
        /// At most so many.
        #[arg(long)]
        limit: Option<u32>,
        #[command(flatten)]
        output: Output,
    },
    /// Shows one turn.
    Show {
        /// Its id.
        id: String,
        #[command(flatten)]
        output: Output,
    },
    /// Cancels a turn.
    Cancel {
        /// Its id.
        id: String,
    },
}

#[derive(Subcommand)]
pub enum ApprovalsCommand {
    /// Lists approvals that wait for a decision.
    List {
        /// Decided ones too.
        #[arg(long)]
        all: bool,
        #[command(flatten)]
        output: Output,
    },
    /// Lets calls run, this once.
    Approve {
        #[command(flatten)]
        which: Which,
    },
    /// Refuses calls.
    Deny {
        #[command(flatten)]
        which: Which,
        #[command(flatten)]
        because: Because,
    },
    /// Lets calls run, and the same again without asking: a grant, as the approval shows it.
    Always {
        #[command(flatten)]
        which: Which,
        /// Where the grant holds.
        #[arg(long, value_parser = ["conversation", "agent"], default_value = "conversation")]
        scope: String,
    },
    /// Refuses the call and gives its result instead.
    Replace {
        /// The approval's id.
        id: String,
        /// What the model reads as the result.
        replacement: String,
    },
    /// Lists standing grants, newest first.
    Grants {
        /// Ended and revoked ones too.
        #[arg(long)]
        all: bool,
        #[command(flatten)]
        output: Output,
    },
    /// Takes a standing grant back.
    Revoke {
        /// The grant's id.
        id: String,
        #[command(flatten)]
        output: Output,
    },
}

/// Which approvals are decided.
#[derive(Args)]
pub struct Which {
    /// The approvals' ids.
    #[arg(value_name = "ID", required_unless_present = "turn")]
    pub ids: Vec<String>,
    /// All that a turn waits for.
    #[arg(long, value_name = "TURN", conflicts_with = "ids")]
    pub turn: Option<String>,
}

#[derive(Subcommand)]
pub enum DeadLettersCommand {
    /// Lists dead letters.
    List(Output),
    /// Shows one.
    Show {
        /// Its id.
        id: String,
        #[command(flatten)]
        output: Output,
    },
    /// Sends one again.
    Retry {
        /// Its id.
        id: String,
    },
    /// Deletes one.
    Purge {
        /// Its id.
        id: String,
    },
}

#[derive(Subcommand)]
pub enum ReceiptsCommand {
    /// Says whether a receipt was issued by the running service for this call and its result. Exit code 1 if not, or if nobody can tell any more.
    Verify {
        /// The receipt: rk-receipt-…
        #[arg(long)]
        receipt: String,
        /// The turn's id.
        #[arg(long)]
        turn: String,
        /// The call's id.
        #[arg(long)]
        call: String,
        #[command(flatten)]
        output: Output,
    },
}

#[derive(Subcommand)]
pub enum ChannelsCommand {
    /// Lists the configured channels, who owns them, and whether they are up.
    List(Output),
    /// The same; exit code 1 if one of them is not up.
    Check(Output),
    /// Says something in a conversation, once: it is kept until it has arrived. Exit code 1 if it can't.
    Send {
        /// The channel, such as telegram.main.
        channel: String,
        /// The platform's id of the conversation, such as a chat's number.
        #[arg(allow_hyphen_values = true)]
        conversation: String,
        /// The text.
        #[arg(value_parser = not_blank, allow_hyphen_values = true)]
        text: String,
        /// An id of yours: sent again under it, it is the same message.
        #[arg(long, value_name = "ID")]
        id: Option<String>,
        /// How long to wait until it has arrived, in seconds, at most 20.
        #[arg(long, value_name = "SECONDS", default_value_t = 10, value_parser = clap::value_parser!(u64).range(..=20))]
        wait: u64,
        #[command(flatten)]
        output: Output,
    },
}

#[derive(Subcommand)]
pub enum PairCommand {
    /// Makes a code: whoever sends it to the channel first may use it from then on.
    New {
        /// The channel, such as telegram.main.
        channel: String,
        /// How long the code is good, in minutes.
        #[arg(long)]
        minutes: Option<u64>,
        #[command(flatten)]
        output: Output,
    },
    /// Lists who came in by a code.
    List(Output),
    /// Takes a pairing back.
    Revoke {
        /// The channel.
        channel: String,
        /// The platform's id of the sender.
        sender: String,
    },
}

#[derive(Subcommand)]
pub enum SessionsCommand {
    /// Lists conversations, newest first.
    List(Output),
    /// Shows one, and what was said in it last.
    Show {
        /// Its id, or the end of it, as `rookery sessions list` has it.
        id: String,
        /// At most so many messages.
        #[arg(long)]
        limit: Option<u32>,
        #[command(flatten)]
        output: Output,
    },
    /// Deletes one for good: what was said, its turns, its grants. Memory is kept: see `rookery memory forget`.
    Delete {
        /// Its id, or the end of it.
        id: String,
    },
}

/// What `top` puts first.
#[derive(clap::ValueEnum, Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum TopBy {
    /// Messages that wait.
    #[default]
    Mailbox,
    /// Messages handled in a second.
    Rate,
    /// How long the message in hand takes.
    Busy,
    /// Messages handled in all.
    Handled,
}

#[derive(Args, Clone, Copy)]
pub struct TopArgs {
    /// What comes first.
    #[arg(long, value_enum, default_value_t)]
    pub by: TopBy,
    /// At most so many actors.
    #[arg(long, default_value_t = 20)]
    pub limit: usize,
    #[command(flatten)]
    pub output: Output,
}

/// Which entries of the memory.
#[derive(Args, Default)]
pub struct MemoryWhich {
    /// Only of this agent.
    #[arg(long, value_name = "NAME")]
    pub agent: Option<String>,
    /// Only those that hold in all conversations, or in one.
    #[arg(long, value_parser = ["agent", "session"])]
    pub scope: Option<String>,
    /// Only those that hold in this conversation: our id, as `rookery sessions list --json` has it.
    #[arg(long, value_name = "ID")]
    pub conversation_id: Option<String>,
    /// Only of this category.
    #[arg(long, value_name = "WORD")]
    pub category: Option<String>,
    /// Only of this source.
    #[arg(long, value_parser = ["external", "model", "user"])]
    pub source: Option<String>,
    /// Only under this key.
    #[arg(long, value_name = "KEY")]
    pub key: Option<String>,
}

impl MemoryWhich {
    /// As the API's query.
    pub fn query(&self) -> Vec<(&str, &str)> {
        [
            ("agent", &self.agent),
            ("scope", &self.scope),
            ("conversation_id", &self.conversation_id),
            ("category", &self.category),
            ("source", &self.source),
            ("key", &self.key),
        ]
        .into_iter()
        .filter_map(|(name, value)| Some((name, value.as_deref()?)))
        .collect()
    }
}

#[derive(Subcommand)]
pub enum MemoryCommand {
    /// Lists entries, newest first.
    List {
        #[command(flatten)]
        which: MemoryWhich,
        /// Superseded versions too.
        #[arg(long)]
        all: bool,
        /// At most so many.
        #[arg(long)]
        limit: Option<u32>,
        #[command(flatten)]
        output: Output,
    },
    /// Tells how much is remembered, and how much of it can be found by its meaning.
    Coverage(Output),
    /// Finds what has to do with a text, the best match first.
    Search {
        /// The text.
        #[arg(value_parser = not_blank)]
        text: String,
        #[command(flatten)]
        which: MemoryWhich,
        /// At most so many.
        #[arg(long)]
        limit: Option<u32>,
        #[command(flatten)]
        output: Output,
    },
    /// Shows one entry in full.
    Show {
        /// Its id.
        id: String,
        #[command(flatten)]
        output: Output,
    },
    /// Forgets for good: an entry, or all that is named. Older versions go with it.
    Forget {
        /// The entry's id.
        #[arg(conflicts_with_all = ["agent", "scope", "conversation_id", "category", "source", "key"])]
        id: Option<String>,
        #[command(flatten)]
        which: MemoryWhich,
        #[command(flatten)]
        output: Output,
    },
    /// Prints all entries as JSON, one a line.
    Export {
        #[command(flatten)]
        which: MemoryWhich,
        /// Superseded versions too.
        #[arg(long)]
        all: bool,
    },
}

#[derive(Args)]
pub struct AuditArgs {
    /// At most so many rows.
    #[arg(long)]
    pub limit: Option<u32>,
    /// Nothing older: a time such as 2026-01-02T03:04:05Z, or how long ago, such as 90m or 2d.
    #[arg(long, value_name = "TIME", value_parser = since)]
    pub since: Option<Since>,
    #[command(flatten)]
    pub output: Output,
}

#[derive(Subcommand)]
pub enum PolicyCommand {
    /// Judges one call by the configuration alone; no service is needed. Exit code 3 when it is blocked.
    Check {
        /// The agent.
        #[arg(long)]
        agent: String,
        /// The tool.
        #[arg(long)]
        tool: String,
        /// The arguments: a JSON object.
        #[arg(long, value_name = "JSON", default_value = "{}")]
        args: String,
        #[command(flatten)]
        output: Output,
    },
}

/// What is done with MCP servers.
#[derive(Subcommand)]
pub enum McpCommand {
    /// Has a person authorize the service at a server, in a browser on this machine.
    Login {
        /// The server's name.
        server: String,
    },
}

#[derive(Subcommand)]
pub enum ConfigCommand {
    /// Says `ok`, or all that is wrong.
    Check(Output),
    /// Prints what the service would run with; secrets are hidden.
    Show(Output),
    /// Prints every key with its type, default and meaning.
    Schema(Output),
    /// Writes rookery.toml with every key explained; never overwrites.
    Init,
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_well_formed() {
        Cli::command().debug_assert();
    }

    #[test]
    fn every_command_of_the_contract_is_understood() {
        for line in [
            "rookery",
            "rookery run --config x.toml",
            "rookery chat -m hi --agent home --conversation c --url http://h --token t",
            "rookery tree --watch --json",
            "rookery actor show root/service/observer --json",
            "rookery actor stop root/service/observer --reason stuck",
            "rookery actor kill a",
            "rookery actor restart a",
            "rookery turns list --conversation c --state ended --limit 3 --json",
            "rookery turns show 1 --json",
            "rookery turns cancel 1",
            "rookery approvals list --all --json",
            "rookery approvals approve 1 2 3",
            "rookery approvals approve --turn 1",
            "rookery approvals deny 1 --reason no",
            "rookery approvals always 1 --scope agent",
            "rookery approvals grants --all --json",
            "rookery approvals revoke 1",
            "rookery audit --since 2d --limit 5",
            "rookery approvals replace 1 text",
            "rookery deadletters list --json",
            "rookery deadletters show 1",
            "rookery deadletters retry 1",
            "rookery deadletters purge 1",
            "rookery receipts verify --receipt r --turn t --call c --json",
            "rookery sessions list --json",
            "rookery channels list --json",
            "rookery channels check",
            "rookery channels send telegram.main -100123/45 hello --id deploy-7 --wait 0 --json",
            "rookery pair new telegram.main --minutes 5",
            "rookery pair list --json",
            "rookery pair revoke telegram.main 123",
            "rookery memory list --agent home --category core --all --limit 5 --json",
            "rookery memory search tea --agent home --json",
            "rookery memory show 1 --json",
            "rookery memory forget 1",
            "rookery memory forget --source external --json",
            "rookery memory export --agent home --all",
            "rookery crashes --json",
            "rookery audit --json",
            "rookery policy check --agent home --tool shell --args {} --json",
            "rookery config check --json",
            "rookery config show",
            "rookery config schema --json",
            "rookery config init",
            "rookery doctor",
        ] {
            assert!(Cli::try_parse_from(line.split(' ')).is_ok(), "{line}");
        }
        for line in [
            "rookery approvals approve",
            "rookery approvals approve 1 --turn 2",
            "rookery approvals always 1 --scope world",
            "rookery memory forget 1 --agent home",
            "rookery channels send telegram.main 7",
            "rookery channels send telegram.main 7 hi --wait 21",
            "rookery memory list --source moon",
            "rookery audit --since yesterday",
        ] {
            assert!(Cli::try_parse_from(line.split(' ')).is_err(), "{line}");
        }
    }

    #[test]
    fn a_range_begins_at_a_moment_or_so_long_ago() {
        let now: Timestamp = "2026-01-03T00:00:00Z".parse().unwrap();
        let moment = |text: &str| since(text).unwrap().moment(now).to_string();
        assert_eq!(moment("2026-01-02T03:04:05Z"), "2026-01-02T03:04:05Z");
        assert_eq!(moment("90m"), "2026-01-02T22:30:00Z");
        assert_eq!(moment("2d"), "2026-01-01T00:00:00Z");
        assert!(since("-2h").is_err() && since("soon").is_err());
    }
}
