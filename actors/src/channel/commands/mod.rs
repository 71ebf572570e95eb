//! Commands that people send as messages: `/stop`, `/new`, `/status`, `/model`, `/help`.
//!
//! An adapter offers every text that begins with `/` to [`parse`], after its allow-list, and hands what
//! it finds to the [`Desk`]. That is the control path: no queue and no turn is between a command and its
//! effect, and nothing of it ever reaches a model (A088).

mod desk;
mod stop;
#[cfg(test)]
mod tests;
mod texts;

pub use desk::{Answer, Desk, DeskDeps, ModelName};
pub use stop::{Stopper, running_turn};

/// What somebody wants.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Command {
    /// The running turn shall stop; with `all`, what waits shall not begin either.
    Stop {
        /// What waits too.
        all: bool,
    },
    /// The conversation begins anew.
    New,
    /// What runs, what waits, what was used.
    Status,
    /// Which model answers.
    Model(Wish),
    /// What there is.
    Help,
    /// A command's word with words behind it that it does not take.
    Misused {
        /// How it is used.
        usage: &'static str,
    },
    /// An answer to an approval that names none.
    Unaddressed,
    /// There is no such command.
    Unknown {
        /// Its word.
        word: String,
    },
}

/// What is wanted of a conversation's model.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Wish {
    /// To know it.
    Show,
    /// The agent's own again.
    Reset,
    /// This one, by its profile's name or its own.
    Choose(String),
}

impl Command {
    /// Short stable word, for audit and metrics.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Stop { .. } => "stop",
            Self::New => "new",
            Self::Status => "status",
            Self::Model(_) => "model",
            Self::Help => "help",
            Self::Misused { .. } | Self::Unaddressed | Self::Unknown { .. } => "unknown",
        }
    }
}

/// Longest word that is taken for a command.
const LONGEST_WORD: usize = 32;

/// Reads a command: one word behind a `/`, perhaps addressed to a bot (`/stop@rookery`). None: it is a
/// message like any other, such as one that begins with a path.
pub fn parse(text: &str) -> Option<Command> {
    let text = text.trim();
    let (word, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
    let word = word.strip_prefix('/')?;
    let (word, bot) = word.split_once('@').unwrap_or((word, "bot"));
    let of_word = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    if word.is_empty() || word.len() > LONGEST_WORD || bot.is_empty() {
        return None;
    }
    if !word.chars().all(of_word) || !bot.chars().all(of_word) {
        return None;
    }
    let rest = rest.trim();
    let alone = |command, usage| if rest.is_empty() { command } else { Command::Misused { usage } };
    Some(match word.to_ascii_lowercase().as_str() {
        "stop" if rest.eq_ignore_ascii_case("all") => Command::Stop { all: true },
        "stop" => alone(Command::Stop { all: false }, "/stop or /stop all"),
        "new" => alone(Command::New, "/new"),
        "status" => alone(Command::Status, "/status"),
        // Platforms send `/start`, with a word of their own behind it, when somebody opens the chat.
        "start" => Command::Help,
        "help" => alone(Command::Help, "/help"),
        "model" => match rest {
            "" => Command::Model(Wish::Show),
            "reset" | "default" => Command::Model(Wish::Reset),
            name if !name.contains(char::is_whitespace) => {
                Command::Model(Wish::Choose(name.to_owned()))
            }
            _ => Command::Misused { usage: "/model, /model <name> or /model reset" },
        },
        "approve" | "always" | "deny" | "replace" => Command::Unaddressed,
        word => Command::Unknown { word: word.to_owned() },
    })
}

/// The commands as a platform's menu wants them: word and meaning.
pub const MENU: [(&str, &str); 5] = [
    ("stop", "stop the turn that runs"),
    ("new", "begin anew: forget this conversation's history"),
    ("status", "what runs, what waits, what was used"),
    ("model", "show or choose the model that answers here"),
    ("help", "what there is"),
];
