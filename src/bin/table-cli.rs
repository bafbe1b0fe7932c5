//! The command `table-cli`; see [`lakeward::cli`].

use std::process::ExitCode;

/// Rows are made and freed in large numbers by several threads; this allocator keeps that cheap and gives memory back.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    lakeward::cli::run(std::env::args_os())
}
