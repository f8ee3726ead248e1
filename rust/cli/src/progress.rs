//! The engine's events for people: one bar on a terminal, plain lines elsewhere, both on stderr. SIGINT, SIGTERM and SIGHUP
//! set a flag that the engine asks for, so that a run ends between two steps; the second signal ends the program at once,
//! which is as safe as any kill. From the moment at which the change becomes live none ends it: the exit status would be wrong.

use crate::render::{escape, size};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use model::{Event, Phase, Progress};
use std::collections::BTreeMap;
use std::io::{IsTerminal as _, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// What the screen shows now.
#[derive(Debug, Default)]
struct State {
    /// Bytes done and in all, for everything that moves in this phase.
    moving: BTreeMap<String, (u64, u64)>,
    /// The item that was named last, so that repeated events of one item are one line.
    item: String,
    bar: Option<ProgressBar>,
}

/// How much is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Manner {
    Bar,
    Lines,
    /// Notices only, for programs that read JSON.
    Notices,
}

/// Shows events on stderr.
pub struct Screen {
    manner: Manner,
    cancelled: Arc<AtomicBool>,
    state: Mutex<State>,
    lines: Mutex<Box<dyn Write + Send>>,
    /// What ends the program at the second signal.
    impatience: Mutex<Vec<signal_hook::SigId>>,
}

impl std::fmt::Debug for Screen {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Screen").field("manner", &self.manner).field("cancelled", &self.cancelled).finish()
    }
}

impl Screen {
    /// The right manner for stderr and `--json`, with signals caught from here on.
    ///
    /// # Errors
    /// When a signal handler cannot be set.
    pub fn start(json: bool) -> anyhow::Result<Screen> {
        let manner = match (std::io::stderr().is_terminal(), json) {
            (true, _) => Manner::Bar,
            (false, false) => Manner::Lines,
            (false, true) => Manner::Notices,
        };
        let screen = Screen::new(manner, Box::new(std::io::stderr()));
        use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
        let ignored = ignored();
        // nohup, and shells for what runs in the background, have some ignored on purpose.
        for signal in [SIGINT, SIGTERM, SIGHUP].into_iter().filter(|s| ignored >> (s - 1) & 1 == 0) {
            let status = i32::from(model::Code::Interrupted.exit_status());
            // In this order: the first signal finds the flag unset and only sets it.
            let id = signal_hook::flag::register_conditional_shutdown(signal, status, screen.cancelled.clone())?;
            screen.impatience().push(id);
            signal_hook::flag::register(signal, screen.cancelled.clone())?;
        }
        Ok(screen)
    }

    fn impatience(&self) -> MutexGuard<'_, Vec<signal_hook::SigId>> {
        self.impatience.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn new(manner: Manner, lines: Box<dyn Write + Send>) -> Screen {
        let (state, lines, impatience) = (Mutex::default(), Mutex::new(lines), Mutex::default());
        Screen { manner, cancelled: Arc::default(), state, lines, impatience }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One line above the bar. A terminal that went away is no reason to fail.
    fn line(&self, state: &State, text: &str) {
        let write = || {
            let _ = writeln!(self.lines.lock().unwrap_or_else(PoisonError::into_inner), "{text}");
        };
        match &state.bar {
            Some(bar) => bar.suspend(write),
            None => write(),
        }
    }

    fn phase(&self, state: &mut State, phase: Phase) {
        if phase == Phase::Activate {
            for id in self.impatience().drain(..) {
                signal_hook::low_level::unregister(id);
            }
        }
        state.moving.clear();
        state.item.clear();
        if let Some(old) = state.bar.take() {
            old.finish_and_clear();
        }
        match self.manner {
            Manner::Bar => {
                let bar = ProgressBar::with_draw_target(Some(0), ProgressDrawTarget::stderr_with_hz(10));
                bar.set_style(style("{spinner} {prefix} {msg}"));
                bar.set_prefix(title(phase));
                bar.enable_steady_tick(Duration::from_millis(120));
                state.bar = Some(bar);
            }
            Manner::Lines => self.line(state, title(phase)),
            Manner::Notices => {}
        }
    }

    fn bytes(&self, state: &mut State, what: &str, done: u64, total: u64) {
        let before = state.moving.insert(what.to_owned(), (done, total));
        let finished = |(done, total): (u64, u64)| total != 0 && done >= total;
        if let Some(bar) = &state.bar {
            let sum =
                state.moving.values().fold((0u64, 0u64), |a, v| (a.0.saturating_add(v.0), a.1.saturating_add(v.1)));
            if sum.1 == 0 {
                bar.set_message(format!("{} {}", size(sum.0), escape(what)));
            } else {
                bar.set_style(style("{spinner} {prefix} [{bar:24}] {bytes}/{total_bytes} {wide_msg}"));
                bar.set_length(sum.1);
                bar.set_position(sum.0);
                bar.set_message(escape(what));
            }
        } else if self.manner == Manner::Lines && finished((done, total)) && !before.is_some_and(finished) {
            self.line(state, &format!("  {} ({})", escape(what), size(total)));
        }
    }

    fn steps(&self, state: &mut State, what: &str, done: u64, total: u64) {
        let new = state.item != what;
        what.clone_into(&mut state.item);
        if let Some(bar) = &state.bar {
            bar.set_style(style("{spinner} {prefix} [{bar:24}] {pos}/{len} {wide_msg}"));
            bar.set_length(total);
            bar.set_position(done);
            bar.set_message(escape(what));
        } else if self.manner == Manner::Lines && new && !what.is_empty() {
            self.line(state, &format!("  [{done}/{total}] {}", escape(what)));
        }
    }
}

impl Progress for Screen {
    fn event(&self, event: Event) {
        crate::stream::event(&event);
        let state = &mut *self.state();
        match event {
            Event::Phase(phase) => self.phase(state, phase),
            Event::Bytes { what, done, total } => self.bytes(state, &what, done, total),
            Event::Steps { what, done, total } => self.steps(state, &what, done, total),
            Event::Scriptlet { package, line } if self.manner != Manner::Notices => {
                self.line(state, &format!("  {}: {}", escape(&package), escape(&line)));
            }
            Event::Scriptlet { .. } => {}
            Event::Notice(text) => self.line(state, &escape(&text)),
        }
    }

    fn cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Relaxed)
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // The bar is part of the wait, not of the result.
        if let Some(bar) = self.state().bar.take() {
            bar.finish_and_clear();
        }
    }
}

/// Signals that the caller had ignored, one bit each from SIGHUP (1) on, as proc(5) shows them.
fn ignored() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|l| l.strip_prefix("SigIgn:"));
    mask.and_then(|m| u64::from_str_radix(m.trim(), 16).ok()).unwrap_or(0)
}

fn title(phase: Phase) -> &'static str {
    match phase {
        Phase::Resolve => "Resolving",
        Phase::Fetch => "Downloading",
        Phase::Admit => "Checking packages",
        Phase::Stage => "Running the transaction",
        Phase::Harvest => "Sealing the layer",
        Phase::Activate => "Activating",
        Phase::Settle => "Settling",
    }
}

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar()).progress_chars("=> ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone, Default)]
    struct Sink(Arc<Mutex<Vec<u8>>>);

    impl Write for Sink {
        fn write(&mut self, text: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(text);
            Ok(text.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    fn shown(manner: Manner) -> String {
        let sink = Sink::default();
        let screen = Screen::new(manner, Box::new(sink.clone()));
        let bytes = |what: &str, done, total| screen.event(Event::Bytes { what: what.into(), done, total });
        screen.event(Event::Phase(Phase::Fetch));
        bytes("a", 10, 2000);
        bytes("b", 5, 0);
        bytes("a", 2000, 2000);
        bytes("a", 2000, 2000);
        screen.event(Event::Phase(Phase::Stage));
        for done in [1, 1, 2] {
            screen.event(Event::Steps { what: format!("p{done}"), done, total: 2 });
        }
        screen.event(Event::Scriptlet { package: "p1".into(), line: "hi\x1b[2J".into() });
        screen.event(Event::Notice("Waiting".into()));
        drop(screen);
        String::from_utf8(sink.0.lock().unwrap().clone()).unwrap()
    }

    #[test]
    fn lines_are_few_and_plain() {
        assert_eq!(
            shown(Manner::Lines),
            "Downloading\n  a (2.0 kB)\nRunning the transaction\n  [1/2] p1\n  [2/2] p2\n  p1: hi\\x1b[2J\nWaiting\n"
        );
    }

    #[test]
    fn programs_get_notices_only() {
        assert_eq!(shown(Manner::Notices), "Waiting\n");
    }

    #[test]
    fn a_signal_sets_the_flag() {
        let screen = Screen::start(true).unwrap();
        assert!(!screen.cancelled());
        signal_hook::low_level::raise(signal_hook::consts::SIGTERM).unwrap();
        assert!(screen.cancelled());
    }
}
