//! One person's folder: their sign-in, and the working folders of their runs.
//!
//! **Invariant:** a token is in a file that only the server's account can read, and nowhere else.

use camino::{Utf8Path, Utf8PathBuf};

use crate::base::{CallId, ChatId, Context, Error, ErrorKind, PersonId, Result};
use crate::process::{JobFolder, Root, remove_some};

/// The file with the token for Claude Code.
const CLAUDE_TOKEN: &str = "claude.token";
/// Longest token, in bytes.
const TOKEN_BYTES_MAX: u64 = 4 * 1024;
/// Most entries removed at once.
const ENTRIES_MAX: usize = 100_000;
/// The folder with the previous contents of changed files.
const KEPT: &str = "kept";
/// Most bytes of previous contents per person.
const KEPT_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// The folder of one person below the data folder.
#[derive(Clone, Debug)]
pub struct Home {
    path: Utf8PathBuf,
}

impl Home {
    /// Returns a person's folder, without creating it.
    pub fn of(data: &Utf8Path, person: &PersonId) -> Home {
        Home { path: data.join("people").join(person.as_str()) }
    }

    /// Returns its path.
    pub fn path(&self) -> &Utf8Path {
        &self.path
    }

    /// Returns the token for Claude Code, if the person has signed in.
    ///
    /// # Errors
    /// `unavailable` if the file cannot be read.
    pub fn claude_token(&self) -> Result<Option<String>> {
        let Some(folder) = JobFolder::open(&self.path)? else { return Ok(None) };
        let bytes = folder.read(CLAUDE_TOKEN, TOKEN_BYTES_MAX)?;
        let text = bytes.and_then(|it| String::from_utf8(it).ok());
        Ok(text.map(|it| it.trim().to_owned()).filter(|it| !it.is_empty()))
    }

    /// Stores the token that `claude setup-token` printed.
    ///
    /// # Errors
    /// `invalid` with code `bad_token`; `unavailable` if it cannot be written.
    pub fn keep_claude_token(&self, token: &str) -> Result<()> {
        let token = token.trim();
        let is_word = token.bytes().all(|it| it.is_ascii_graphic());
        if !is_word || !(20..=TOKEN_BYTES_MAX as usize).contains(&token.len()) {
            let hint = "run `claude setup-token` on your own machine and paste the token it prints";
            return Err(Error::invalid("this is not the token of Claude Code")
                .code("bad_token")
                .of_input("token")
                .hint(hint));
        }
        JobFolder::make(&self.path)?.put(CLAUDE_TOKEN, token.as_bytes())
    }

    /// Removes the token. Returns whether there was one.
    ///
    /// # Errors
    /// `unavailable` if it cannot be removed.
    pub fn forget_claude_token(&self) -> Result<bool> {
        let Some(folder) = JobFolder::open(&self.path)? else { return Ok(false) };
        let was_there = folder.read(CLAUDE_TOKEN, TOKEN_BYTES_MAX)?.is_some();
        let failed = || format!("cannot remove {CLAUDE_TOKEN} in {}", self.path);
        folder.remove(CLAUDE_TOKEN).context(ErrorKind::Unavailable, failed)?;
        Ok(was_there)
    }

    /// Stores a file's content before a call changes it. The oldest are removed to make room.
    ///
    /// # Errors
    /// `unavailable` if it cannot be written; the caller must not change the file then.
    pub fn keep(&self, call: &CallId, bytes: &[u8]) -> Result<()> {
        JobFolder::make(&self.path)?;
        let path = self.path.join(KEPT);
        let folder = JobFolder::make(&path)?;
        let root = Root::open(&path)?;
        let mut kept = Vec::new();
        for name in root.names(Utf8Path::new("."), ENTRIES_MAX)? {
            if let Some(entry) = root.entry(Utf8Path::new(&name))? {
                kept.push((entry.modified_ms, entry.bytes, name));
            }
        }
        kept.sort();
        let mut total = kept.iter().map(|it| it.1).sum::<u64>() + bytes.len() as u64;
        for (_, bytes, name) in kept {
            if total <= KEPT_BYTES_MAX {
                break;
            }
            let failed = || format!("cannot remove {name} in {path}");
            folder.remove(&name).context(ErrorKind::Unavailable, failed)?;
            total -= bytes;
        }
        folder.put(call.as_str(), bytes)
    }

    /// Returns a file's content before a call changed it, if still stored.
    ///
    /// # Errors
    /// `unavailable` if it cannot be read.
    pub fn kept(&self, call: &CallId) -> Result<Option<Vec<u8>>> {
        let Some(folder) = JobFolder::open(&self.path.join(KEPT))? else { return Ok(None) };
        folder.read(call.as_str(), KEPT_BYTES_MAX)
    }

    /// Removes the contents stored for these calls.
    ///
    /// # Errors
    /// `unavailable` if something cannot be removed.
    pub fn forget_kept(&self, calls: &[CallId]) -> Result<()> {
        let path = self.path.join(KEPT);
        let Some(folder) = JobFolder::open(&path)? else { return Ok(()) };
        for call in calls {
            match folder.remove(call.as_str()) {
                Err(cause) if cause.kind() != std::io::ErrorKind::NotFound => {
                    let message = format!("cannot remove {call} in {path}");
                    return Err(Error::unavailable(message).source(cause));
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Creates and returns the folder for Claude Code's sessions.
    ///
    /// # Errors
    /// `unavailable` if it cannot be made.
    pub fn claude_config(&self) -> Result<Utf8PathBuf> {
        JobFolder::make(&self.path)?;
        let path = self.path.join("claude");
        JobFolder::make(&path)?;
        Ok(path)
    }

    /// Creates and returns the empty working folder of a conversation's runs. All of them use the
    /// same one, because Claude Code finds a session only from its own folder.
    ///
    /// # Errors
    /// `unavailable` if it cannot be made.
    pub fn claude_cwd(&self, session: &ChatId) -> Result<Utf8PathBuf> {
        JobFolder::make(&self.path)?;
        let all = self.path.join("claude-cwd");
        JobFolder::make(&all)?;
        let path = all.join(session.as_str());
        JobFolder::make(&path)?;
        Ok(path)
    }

    /// Returns the conversations and the calls of which there are files.
    ///
    /// # Errors
    /// `unavailable` if a folder cannot be read.
    pub fn files(&self) -> Result<(Vec<ChatId>, Vec<CallId>)> {
        let names = |folder: &str| match JobFolder::open(&self.path.join(folder))? {
            Some(_) => Root::open(&self.path.join(folder))?.names(Utf8Path::new("."), ENTRIES_MAX),
            None => Ok(Default::default()),
        };
        let sessions = names("claude-cwd")?.iter().filter_map(|it| it.parse().ok()).collect();
        Ok((sessions, names(KEPT)?.iter().filter_map(|it| it.parse().ok()).collect()))
    }

    /// Returns whether Claude Code still has a session of a conversation.
    pub fn has_claude_session(&self, session: &ChatId, reference: &str) -> bool {
        self.claude_project(session).join(format!("{reference}.jsonl")).is_file()
    }

    /// Removes the files of a conversation's runs.
    ///
    /// # Errors
    /// `unavailable` if something cannot be removed.
    pub fn forget_conversation(&self, session: &ChatId) -> Result<()> {
        let project = self.claude_project(session);
        // The one that the other is found by goes last.
        let own = [project, self.path.join("claude-cwd").join(session.as_str())];
        for path in own.iter().filter(|it| it.exists()) {
            if let (Some(folder), Some(name)) = (path.parent(), path.file_name()) {
                remove_some(folder, name, ENTRIES_MAX)?;
            }
        }
        Ok(())
    }

    /// Claude Code names a project's folder after its working folder.
    fn claude_project(&self, session: &ChatId) -> Utf8PathBuf {
        let cwd = self.path.join("claude-cwd").join(session.as_str());
        let cwd = cwd.canonicalize_utf8().unwrap_or(cwd);
        let dashed = |it: char| if it.is_ascii_alphanumeric() { it } else { '-' };
        let name: String = cwd.as_str().chars().map(dashed).collect();
        self.path.join("claude").join("projects").join(name)
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn a_token_is_private_and_goes_when_it_is_told_to() {
        let folder = tempfile::tempdir().unwrap();
        let data = Utf8Path::from_path(folder.path()).unwrap();
        let home = Home::of(data, &"018bcfe5-6800-7000-8000-000000000001".parse().unwrap());
        assert_eq!(home.claude_token().unwrap(), None);
        assert!(!home.forget_claude_token().unwrap());
        for bad in ["", "short", "with a blank in the middle of it", "ü-ü-ü-ü-ü-ü-ü-ü-ü-ü"]
        {
            assert_eq!(home.keep_claude_token(bad).unwrap_err().code_str(), "bad_token", "{bad}");
        }
        let token = "sk-ant-oat01-0123456789abcdef";
        home.keep_claude_token(&format!("  {token}\n")).unwrap();
        assert_eq!(home.claude_token().unwrap().as_deref(), Some(token));
        let mode = |path: &Utf8Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&home.path.join(CLAUDE_TOKEN)), 0o600);
        assert_eq!(mode(&home.path), 0o700);
        assert!(home.forget_claude_token().unwrap());
        assert_eq!(home.claude_token().unwrap(), None);
    }

    #[test]
    fn a_conversation_has_a_folder_that_can_go() {
        let folder = tempfile::tempdir().unwrap();
        let data = Utf8Path::from_path(folder.path()).unwrap();
        let home = Home::of(data, &"018bcfe5-6800-7000-8000-000000000001".parse().unwrap());
        let session: ChatId = "018bcfe5-6800-7000-8000-000000000002".parse().unwrap();
        let config = home.claude_config().unwrap();
        let cwd = home.claude_cwd(&session).unwrap();
        assert!(!home.has_claude_session(&session, "s-1"));
        let project = home.claude_project(&session);
        assert!(project.starts_with(config.join("projects")), "{project}");
        std::fs::create_dir_all(&project).unwrap();
        std::fs::write(project.join("s-1.jsonl"), "{}\n").unwrap();
        assert!(home.has_claude_session(&session, "s-1"));
        home.forget_conversation(&session).unwrap();
        assert!(!cwd.exists() && !project.exists() && config.exists());
    }
}
