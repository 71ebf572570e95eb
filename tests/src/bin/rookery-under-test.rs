//! The program as the end-to-end tests run it: the same code as `rookery`, built with this package,
//! so that a clean checkout finds it.

#[global_allocator]
static ALLOCATOR: rookery::Allocator = rookery::ALLOCATOR;

fn main() -> std::process::ExitCode {
    rookery::main()
}
