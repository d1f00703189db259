//! Programs that do nothing, for what starting a process costs by itself.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use crate::world::tool;

/// The target that the program was compiled for.
const TARGET: &str = if cfg!(target_env = "musl") {
    "unknown-linux-musl"
} else if cfg!(target_os = "macos") {
    "apple-darwin"
} else {
    "unknown-linux-gnu"
};

/// Ends by a system call as its first instruction.
const BARE: &str = r#"
#![no_std]
#![no_main]
#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! { loop {} }
#[unsafe(no_mangle)]
pub extern "C" fn _start() -> ! {
    unsafe {
        #[cfg(target_arch = "x86_64")]
        core::arch::asm!("xor edi, edi", "mov eax, 60", "syscall", options(noreturn));
        #[cfg(target_arch = "aarch64")]
        core::arch::asm!("mov x0, 0", "mov x8, 93", "svc 0", options(noreturn));
    }
}
"#;

/// Two compiled programs that do nothing.
#[derive(Debug)]
pub(crate) struct NoOp {
    directory: tempfile::TempDir,
}

impl NoOp {
    /// Compiles them.
    pub(crate) fn compile() -> Self {
        let noop = Self {
            directory: tempfile::tempdir().expect("a temporary directory"),
        };
        let linking = if cfg!(target_feature = "crt-static") {
            "target-feature=+crt-static"
        } else {
            "target-feature=-crt-static"
        };
        let target = format!("{}-{TARGET}", std::env::consts::ARCH);
        noop.rustc(
            "same",
            "fn main() {}",
            &["--target", &target, "-C", linking],
        );
        noop.rustc(
            "bare",
            BARE,
            &[
                "-C",
                "panic=abort",
                "-C",
                "link-args=-nostartfiles -nostdlib -static",
            ],
        );
        noop
    }

    fn rustc(&self, name: &str, source: &str, flags: &[&str]) {
        use std::io::Write as _;
        let mut rustc = tool("rustc")
            .args([
                "-",
                "--crate-name",
                name,
                "--edition",
                "2024",
                "-C",
                "opt-level=3",
                "-C",
                "strip=symbols",
            ])
            .args(flags)
            .arg("-o")
            .arg(self.path(name))
            .stdin(Stdio::piped())
            .spawn()
            .expect("rustc starts");
        let mut input = rustc.stdin.take().expect("its input is a pipe");
        input
            .write_all(source.as_bytes())
            .expect("rustc reads its input");
        drop(input);
        let status = rustc.wait().expect("rustc is our child");
        assert!(status.success(), "rustc did not compile the no-op `{name}`");
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// The one compiled and linked as the program is.
    pub(crate) fn same(&self) -> Command {
        let mut command = tool(self.path("same"));
        command.env_clear().stdin(Stdio::null());
        command
    }

    /// The one without a C library.
    pub(crate) fn bare(&self) -> Command {
        let mut command = tool(self.path("bare"));
        command.env_clear().stdin(Stdio::null());
        command
    }
}

/// What the program was compiled for, in words.
pub(crate) fn target() -> String {
    let linking = if cfg!(target_feature = "crt-static") {
        "static"
    } else {
        "dynamic"
    };
    format!("{}-{TARGET}, {linking}", std::env::consts::ARCH)
}
