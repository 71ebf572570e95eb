//! Rookery, as a program.

fn main() -> std::process::ExitCode {
    rookery::main()
}
