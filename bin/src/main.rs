//! Rookery, as a program.

#[global_allocator]
static ALLOCATOR: rookery::Allocator = rookery::ALLOCATOR;

fn main() -> std::process::ExitCode {
    rookery::main()
}
