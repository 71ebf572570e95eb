//! The program as the end-to-end tests run it: the same code as `rookery`, built with this package,
//! so that a clean checkout finds it.

fn main() -> std::process::ExitCode {
    rookery::main()
}
