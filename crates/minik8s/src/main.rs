//! The program itself: all of it is in the library, so that linking it anew compiles nothing.

use std::process::ExitCode;

/// Requests are trees of small strings: with the system's allocator half of a write's time went there.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    minik8s::main()
}
