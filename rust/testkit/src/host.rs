//! A throw-away ostree-booted host. `tests/host/ostree-host` makes and ends it; here are the calls that tests use, made
//! directly with `nsenter`, as a test makes hundreds of them.

use crate::picture::Picture;
use crate::{build_dir, cache_dir, project, tool};
use anyhow::{Context as _, Result, ensure};
use fn_error_context::context;
use rustix::process::{Pid, Signal};
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// How long anything here may take that should take no time.
const PATIENCE: Duration = Duration::from_secs(60);

/// What a program said and how it ended.
#[derive(Clone, PartialEq, Eq)]
pub struct Output {
    /// Exit status; 128 + signal where a signal ended it, as shells count.
    pub status: i32,
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
}

impl fmt::Debug for Output {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "exit status {}\n--- stdout\n{}\n--- stderr\n{}\n---", self.status, self.stdout, self.stderr)
    }
}

impl From<std::process::Output> for Output {
    fn from(out: std::process::Output) -> Output {
        use std::os::unix::process::ExitStatusExt as _;
        let status = out.status.code().unwrap_or_else(|| 128 + out.status.signal().unwrap_or(0));
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Output { status, stdout: text(&out.stdout), stderr: text(&out.stderr) }
    }
}

/// A running host. Ends with this value, also when the test panics.
#[derive(Debug)]
pub struct TestHost {
    name: String,
    dir: PathBuf,
    init: u32,
}

impl TestHost {
    /// A fresh host with the program under test: `$TRANSIENT_TEST_BINARY`, or the one in the build directory.
    ///
    /// # Errors
    /// When there is no such program, or the host does not come up.
    #[context("Starting a test host")]
    pub fn start() -> Result<TestHost> {
        let binary = match std::env::var_os("TRANSIENT_TEST_BINARY") {
            Some(path) => PathBuf::from(path),
            None => build_dir()?.join("rpm-ostree-transient"),
        };
        ensure!(
            binary.exists(),
            "{} is not there: `cargo build -p rpm-ostree-transient --features test-hooks` makes it",
            binary.display()
        );
        TestHost::start_with(Some(&binary))
    }

    /// A fresh host with this program as `rpm-ostree-transient` and `rpm-ostree`, or without any.
    ///
    /// # Errors
    /// When the host does not come up.
    pub fn start_with(binary: Option<&Path>) -> Result<TestHost> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let pid = std::process::id();
        let name = format!("test-{pid}-{}", COUNT.fetch_add(1, Ordering::Relaxed));
        let cache = cache_dir()?;
        let mut command = script("start");
        command.arg(&cache).arg(&name).args(["--owner", &pid.to_string()]);
        if let Some(binary) = binary {
            command.arg("--binary").arg(binary);
        }
        let mut host = TestHost { dir: cache.join("hosts").join(&name), name, init: 0 };
        host.init = tool(&mut command)?.trim().parse().context("Reading the pid of the host")?;
        Ok(host)
    }

    /// The pid of its init, as seen from here.
    pub fn init(&self) -> u32 {
        self.init
    }

    /// Its root directory as its init sees it.
    pub fn root(&self) -> PathBuf {
        PathBuf::from(format!("/proc/{}/root", self.init))
    }

    /// The root directory of one of its processes, as that one sees it.
    ///
    /// # Errors
    /// When there is no such process.
    pub fn root_of(&self, pid_inside: u32) -> Result<PathBuf> {
        Ok(PathBuf::from(format!("/proc/{}/root", self.outside(pid_inside)?)))
    }

    /// The pid, seen from here, of the process with this pid inside.
    #[context("Looking for process {pid_inside} of the host")]
    fn outside(&self, pid_inside: u32) -> Result<u32> {
        let namespace = fs::read_link(format!("/proc/{}/ns/pid", self.init))?;
        for entry in fs::read_dir("/proc")? {
            let Some(pid) = entry?.file_name().to_str().and_then(|n| n.parse::<u32>().ok()) else { continue };
            // Processes come and go while this looks.
            let Ok(status) = fs::read_to_string(format!("/proc/{pid}/status")) else { continue };
            let inner = status.lines().find_map(|l| l.strip_prefix("NSpid:")).and_then(|l| l.split_whitespace().last());
            if inner == Some(&pid_inside.to_string())
                && fs::read_link(format!("/proc/{pid}/ns/pid")).is_ok_and(|n| n == namespace)
            {
                return Ok(pid);
            }
        }
        anyhow::bail!("there is none")
    }

    /// The host's sysroot, seen from here.
    pub fn sysroot(&self) -> PathBuf {
        self.dir.join("sysroot")
    }

    /// A command inside, in a clean environment with these variables added.
    pub fn command(&self, env: &[(&str, &str)], args: &[&str]) -> Command {
        let mut command = Command::new("nsenter");
        command.args(["--target", &self.init.to_string(), "--mount", "--uts", "--ipc", "--pid", "--root", "--"]);
        command.args([
            "/usr/bin/env",
            "-i",
            "-C",
            "/",
            "PATH=/usr/sbin:/usr/bin",
            "TERM=dumb",
            "LANG=C.UTF-8",
            "HOME=/root",
        ]);
        command.args(env.iter().map(|(k, v)| format!("{k}={v}"))).args(args).stdin(Stdio::null());
        command
    }

    /// Runs a command inside to its end.
    ///
    /// # Panics
    /// When `nsenter` cannot be run at all.
    pub fn run(&self, args: &[&str]) -> Output {
        self.run_env(&[], args)
    }

    /// As [`TestHost::run`], with these variables.
    ///
    /// # Panics
    /// When `nsenter` cannot be run at all.
    pub fn run_env(&self, env: &[(&str, &str)], args: &[&str]) -> Output {
        self.command(env, args).output().expect("nsenter is there").into()
    }

    /// Runs a bash script inside. Its text is in no process' command line, so that `pgrep -f` finds only what it means.
    ///
    /// # Panics
    /// As [`TestHost::run`].
    pub fn sh(&self, script: &str) -> Output {
        self.run_env(&[("SCRIPT", script)], &["/usr/bin/bash", "-c", "eval \"$SCRIPT\""])
    }

    /// Starts a command inside.
    ///
    /// # Errors
    /// When it does not start.
    #[context("Starting {args:?} in the host")]
    pub fn spawn(&self, env: &[(&str, &str)], args: &[&str]) -> Result<Running> {
        let (stdout, stderr) = (tempfile::tempfile()?, tempfile::tempfile()?);
        let mut command = self.command(env, args);
        let child = command.stdout(stdout.try_clone()?).stderr(stderr.try_clone()?).spawn()?;
        let mut running = Running { child, pid: 0, stdout, stderr };
        let children = format!("/proc/{0}/task/{0}/children", running.child.id());
        let end = Instant::now() + PATIENCE;
        // nsenter forks once, as only a child is in the new pid namespace.
        while running.pid == 0 {
            let list = fs::read_to_string(&children).unwrap_or_default();
            match list.split_whitespace().next() {
                Some(pid) => running.pid = pid.parse()?,
                // Over already: the caller learns how from `finish`.
                None if running.child.try_wait()?.is_some() => break,
                None => std::thread::sleep(Duration::from_millis(1)),
            }
            ensure!(Instant::now() < end, "nsenter hangs");
        }
        Ok(running)
    }

    /// Every path of the host that outlives a reboot or belongs to the system.
    ///
    /// # Errors
    /// When a path cannot be read.
    pub fn picture(&self) -> Result<Picture> {
        const LEFT_OUT: [&str; 7] = ["run", "proc", "sys", "dev", "tmp", "var/cache", "sysroot"];
        Picture::of(&self.root(), &LEFT_OUT)
    }

    /// One hash over what must never change: origins, refs, repository configuration, deployments, boot entries and a
    /// staged deployment.
    ///
    /// # Errors
    /// When something cannot be read.
    #[context("Hashing the persistent state")]
    pub fn persistent_hash(&self) -> Result<String> {
        let sysroot = self.sysroot();
        let mut parts = Vec::new();
        for path in ["boot", "ostree/repo/refs"] {
            parts.push(Picture::of(&sysroot.join(path), &[])?.text());
        }
        let file = |path: &Path| -> Result<String> { Ok(format!("{}\n{}", path.display(), fs::read_to_string(path)?)) };
        parts.push(file(&sysroot.join("ostree/repo/config"))?);
        for name in sorted_names(&sysroot.join("ostree/deploy/testos/deploy"))? {
            let path = sysroot.join("ostree/deploy/testos/deploy").join(&name);
            parts.push(if path.is_file() { file(&path)? } else { name });
        }
        for name in sorted_names(&sysroot.join("ostree"))? {
            let path = sysroot.join("ostree").join(&name);
            parts.push(format!("{name} {:?}", fs::read_link(path).ok()));
        }
        let staged = self.root().join("run/ostree/staged-deployment");
        parts.push(fs::read(staged).map_or("nothing staged".into(), |s| crate::hex(&s)));
        Ok(crate::key_of(parts))
    }

    /// Ends everything in the host and starts it again: `/run` is gone, `/etc` and `/var` stay.
    ///
    /// # Errors
    /// When it does not come up again.
    #[context("Rebooting the host")]
    pub fn reboot(&mut self) -> Result<()> {
        self.init = tool(script("reboot").arg(&self.name))?.lines().next().unwrap_or_default().parse()?;
        Ok(())
    }
}

impl TestHost {
    /// Ends everything in the host but keeps `/run`, and mounts the root anew: that of a new deployment, into which `/etc`
    /// was merged, or the same one.
    ///
    /// # Errors
    /// When it does not come up again.
    #[context("Soft-rebooting the host")]
    pub fn soft_reboot(&mut self, new_deployment: bool) -> Result<()> {
        tool(script("soft-reboot").arg(&self.name).arg(if new_deployment { "new" } else { "same" }))?;
        Ok(())
    }
}

impl Drop for TestHost {
    fn drop(&mut self) {
        // A host that did not start has left nothing, or is swept by the next start.
        if let Err(error) = tool(script("stop").arg(&self.name))
            && self.init != 0
            && !std::thread::panicking()
        {
            panic!("the test host is not gone: {error:#}");
        }
    }
}

fn script(verb: &str) -> Command {
    let mut command = Command::new(project().join("tests/host/ostree-host"));
    command.arg(verb).stdin(Stdio::null());
    command
}

fn sorted_names(dir: &Path) -> Result<Vec<String>> {
    let names = fs::read_dir(dir)?.map(|e| Ok(e?.file_name().to_string_lossy().into_owned()));
    let mut names = names.collect::<Result<Vec<String>>>()?;
    names.sort();
    Ok(names)
}

/// A command that runs inside. Killed with this value.
#[derive(Debug)]
pub struct Running {
    child: Child,
    pid: u32,
    stdout: fs::File,
    stderr: fs::File,
}

impl Running {
    /// Its pid, as seen from here; 0 when it was over before that could be found out.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// True while it runs.
    ///
    /// # Errors
    /// When the kernel does not tell.
    pub fn is_running(&mut self) -> Result<bool> {
        Ok(self.child.try_wait()?.is_none())
    }

    /// Sends a signal to the program itself. No error when it is over.
    ///
    /// # Errors
    /// When it cannot be sent.
    #[context("Sending a signal")]
    pub fn signal(&mut self, signal: Signal) -> Result<()> {
        // Until the child is waited for, its pid is nobody else's: nsenter reaps it only just before it ends itself.
        if self.is_running()?
            && let Some(pid) = i32::try_from(self.pid).ok().and_then(Pid::from_raw)
        {
            match rustix::process::kill_process(pid, signal) {
                Err(rustix::io::Errno::SRCH) => {}
                other => other?,
            }
        }
        Ok(())
    }

    /// SIGKILL, and waits until it is gone.
    ///
    /// # Errors
    /// As [`Running::finish`].
    pub fn kill(&mut self) -> Result<Output> {
        self.signal(Signal::KILL)?;
        self.finish()
    }

    /// Waits for its end.
    ///
    /// # Errors
    /// When its output cannot be read.
    pub fn finish(&mut self) -> Result<Output> {
        use std::io::{Read as _, Seek as _};
        let status = self.child.wait()?;
        let mut text = [Vec::new(), Vec::new()];
        for (file, text) in [&mut self.stdout, &mut self.stderr].into_iter().zip(&mut text) {
            file.rewind()?;
            file.read_to_end(text)?;
        }
        let [stdout, stderr] = text;
        Ok(std::process::Output { status, stdout, stderr }.into())
    }

    /// Waits until one of its threads is in a sleep of more than `least`, which is where a failpoint's `sleep` is.
    /// False when the program ended instead.
    ///
    /// # Errors
    /// When neither happens in a minute.
    #[context("Waiting for the failpoint")]
    pub fn wait_for_sleep(&mut self, least: Duration) -> Result<bool> {
        let end = Instant::now() + PATIENCE;
        while self.is_running()? {
            let tasks = fs::read_dir(format!("/proc/{}/task", self.pid)).into_iter().flatten().flatten();
            let mut dirs = tasks.map(|t| t.path());
            if dirs.any(|dir| sleep_of(&dir).is_some_and(|seconds| seconds >= least.as_secs())) {
                return Ok(true);
            }
            ensure!(Instant::now() < end, "no thread sleeps");
            std::thread::sleep(Duration::from_millis(2));
        }
        Ok(false)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.kill();
    }
}

/// The seconds of the relative (clock_)nanosleep that a thread is in.
fn sleep_of(task: &Path) -> Option<u64> {
    use std::os::unix::fs::FileExt as _;
    /// `clock_nanosleep(clock, flags, request, …)` and `nanosleep(request, …)`.
    const NUMBERS: (&str, &str) = if cfg!(target_arch = "x86_64") { ("230", "35") } else { ("115", "101") };
    let line = fs::read_to_string(task.join("syscall")).ok()?;
    let words: Vec<&str> = line.split_whitespace().collect();
    let request = match (*words.first()?, *words.get(2)?) {
        (number, "0x0") if number == NUMBERS.0 => words.get(3)?,
        (number, _) if number == NUMBERS.1 => words.get(1)?,
        _ => return None,
    };
    let address = u64::from_str_radix(request.strip_prefix("0x")?, 16).ok()?;
    let mut seconds = [0; 8];
    fs::File::open(task.join("mem")).ok()?.read_exact_at(&mut seconds, address).ok()?;
    Some(u64::from_ne_bytes(seconds))
}
