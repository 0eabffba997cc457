//! Fault injection for tests: points at which the program aborts, and mechanisms that are disabled.
//!
//! **Invariant:** without the feature `faults` every function here returns a constant: a release
//! cannot be switched.

use crate::base::Result;

/// The environment variables that inject faults.
#[cfg(feature = "faults")]
const SWITCHES: [&str; 6] =
    ["WB_WITHOUT", "WB_ABSENT", "WB_FAIL_AT", "WB_CRASH_AT", "WB_CLOCK", "WB_WEB"];

/// Refuses to start with fault injection outside of a test: it disables guarantees.
///
/// # Errors
/// `invalid` with code `not_testing` if one is set and `WB_TESTING` is not 1.
pub fn refuse_unless_testing() -> Result<()> {
    #[cfg(feature = "faults")]
    if std::env::var("WB_TESTING").as_deref() != Ok("1")
        && let Some(set) = SWITCHES.iter().find(|it| std::env::var_os(it).is_some())
    {
        let message = format!("{set} takes guarantees away, and this is no test");
        let error = crate::base::Error::invalid(message).code("not_testing");
        return Err(error.hint(format!("unset {set}, or use a build without the feature faults")));
    }
    Ok(())
}

/// Aborts the process, as `kill -9` would, if `WB_CRASH_AT` names this point. If `WB_CRASH_WHEN`
/// names a file, only once that file exists, so that a frequently passed point can be armed later.
#[inline]
pub fn crash_point(name: &str) {
    #[cfg(feature = "faults")]
    if std::env::var("WB_CRASH_AT").is_ok_and(|at| at.split(',').any(|it| it == name))
        && std::env::var_os("WB_CRASH_WHEN").is_none_or(|it| std::path::Path::new(&it).exists())
    {
        // Abort is the closest to `kill -9` without a pid: no destructors run and nothing is
        // flushed.
        std::process::abort();
    }
    #[cfg(not(feature = "faults"))]
    let _: &str = name;
}

/// Returns whether `WB_WITHOUT` disables this mechanism, so that a test can show what it is for.
#[inline]
pub fn is_off(mechanism: &str) -> bool {
    #[cfg(feature = "faults")]
    {
        std::env::var("WB_WITHOUT").is_ok_and(|off| off.split(',').any(|it| it == mechanism))
    }
    #[cfg(not(feature = "faults"))]
    {
        let _: &str = mechanism;
        false
    }
}

/// Returns whether `WB_ABSENT` hides this system facility, so that a test can show what happens on
/// a machine without it.
#[inline]
pub fn is_absent(layer: &str) -> bool {
    #[cfg(feature = "faults")]
    {
        std::env::var("WB_ABSENT").is_ok_and(|absent| absent.split(',').any(|it| it == layer))
    }
    #[cfg(not(feature = "faults"))]
    {
        let _: &str = layer;
        false
    }
}

/// Returns whether a step must fail: `WB_FAIL_AT` names it, and the file named by `WB_CRASH_WHEN`
/// exists.
#[inline]
pub fn fails(step: &str) -> bool {
    #[cfg(feature = "faults")]
    {
        std::env::var("WB_FAIL_AT").is_ok_and(|at| at.split(',').any(|it| it == step))
            && std::env::var_os("WB_CRASH_WHEN")
                .is_some_and(|it| std::path::Path::new(&it).exists())
    }
    #[cfg(not(feature = "faults"))]
    {
        let _: &str = step;
        false
    }
}

/// Returns whether a step must pause. Like [`fails`], but also writes the step's name into the
/// file, so that a test knows that the program has reached it.
#[inline]
pub fn holds(step: &str) -> bool {
    let is_held = fails(step);
    #[cfg(feature = "faults")]
    if is_held && let Some(file) = std::env::var_os("WB_CRASH_WHEN") {
        // `create` is left out: the test may have just removed the file to let the program go on.
        let told = std::fs::OpenOptions::new().write(true).open(file);
        if let Ok(mut file) = told
            && let Err(cause) = std::io::Write::write_all(&mut file, step.as_bytes())
        {
            tracing::warn!("the step {step} is held, and nobody is told: {cause}");
        }
    }
    is_held
}

/// Returns the offset of the clock in milliseconds, read from the file named by `WB_CLOCK`. A test
/// moves the time of a running server with it.
#[inline]
pub fn clock_shift_ms() -> i64 {
    #[cfg(feature = "faults")]
    {
        let file = std::env::var_os("WB_CLOCK");
        let text = file.and_then(|it| std::fs::read_to_string(it).ok());
        text.and_then(|it| it.trim().parse().ok()).unwrap_or(0)
    }
    #[cfg(not(feature = "faults"))]
    {
        0
    }
}
