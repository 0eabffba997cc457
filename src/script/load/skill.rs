//! The skill that a declaration names: a folder with a `SKILL.md`.

use camino::{Utf8Component, Utf8Path, Utf8PathBuf};

use crate::base::limit::SKILL_BYTES_MAX;
use crate::base::split_front_matter;
use crate::script::config::Skill;
use crate::script::load::kind::KindBuilder;
use crate::script::source::diagnostic::nearest;
use crate::script::vm::require::Origin;

/// The file that makes a folder a skill.
const FILE: &str = "SKILL.md";
/// Most folders searched for a similar name.
const SKILLS_MAX: usize = 500;

impl KindBuilder<'_> {
    /// Validates the field `skill`.
    pub(crate) fn skill(&mut self) -> Option<Skill> {
        let written = self.checked.text("skill")?;
        let spot = self.checked.spot("skill");
        let path = Utf8Path::new(written);
        let is_below = path.components().all(|part| matches!(part, Utf8Component::Normal(_)));
        let (true, Some(name)) = (is_below, path.file_name()) else {
            let message = format!("`skill` of {} is not a folder below the script", self.title());
            self.error("bad-path", message, spot, "write \"skills/NAME\"");
            return None;
        };
        let skill = Skill { path: path.to_owned(), name: name.to_owned() };
        if matches!(self.beside.origin, Origin::Stored(_)) {
            // Judged when that generation was loaded first; its text is no part of it.
            return Some(skill);
        }
        // Rebuilt, since `a//b` and `a/./b` would not compare with the name of the open file.
        let file = path.components().collect::<Utf8PathBuf>().join(FILE);
        let text = match self.beside.origin.read_at_most(self.beside.folder, &file, SKILL_BYTES_MAX)
        {
            Ok(text) => text,
            Err(cause) => {
                let message = format!("`skill` of {}: {}", self.title(), cause.message());
                let note = match path.parent().filter(|it| name == FILE && !it.as_str().is_empty())
                {
                    Some(folder) => format!("a skill is named by its folder: write \"{folder}\""),
                    None => self.meant_skill(path).unwrap_or_else(|| {
                        format!(
                            "write {file}, which begins with the lines ---, name: {name}, \
                             description: WHEN TO USE IT, ---"
                        )
                    }),
                };
                self.error("missing-skill", message, spot, &note);
                return Some(skill);
            }
        };
        let front = match split_front_matter(&text) {
            Ok((front, _)) => front.unwrap_or_default(),
            Err(cause) => {
                let message = format!("{file}: {}", cause.message());
                self.error("bad-skill", message, spot, "");
                return Some(skill);
            }
        };
        if front.field("name") != Some(skill.name.as_str()) {
            let given = front.field("name").unwrap_or("");
            let message = format!("{file} has the name `{}`", given.escape_debug());
            let note = format!("`name` in its front matter must be `{}`", skill.name);
            self.error("bad-skill", message, spot, &note);
        }
        Some(skill)
    }

    /// Returns the folder with the most similar name.
    fn meant_skill(&self, path: &Utf8Path) -> Option<String> {
        let parent = path.parent()?;
        let entries =
            self.beside.folder.join(parent).read_dir_utf8().ok()?.flatten().take(SKILLS_MAX);
        let has_skill = |it: &camino::Utf8DirEntry| it.path().join(FILE).is_file();
        let names: Vec<String> =
            entries.filter(has_skill).map(|it| it.file_name().to_owned()).collect();
        let near = nearest(path.file_name()?, names.iter().map(String::as_str))?;
        Some(format!("did you mean `{}`?", parent.join(near)))
    }
}
