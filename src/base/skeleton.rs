//! The beginning of a line as it is drawn: in small plain letters.

use unicode_normalization::UnicodeNormalization as _;
use unicode_normalization::char::is_combining_mark;

use crate::base::invisible_name;

/// Characters of a line that are compared with ours from its first word on: more than any of our
/// lines begins with.
const SEEN_CHARS_MAX: usize = 160;
/// Longest label of an item of a list, in letters: what is longer is a word.
pub(in crate::base) const LABEL_LETTERS_MAX: usize = 3;
/// Where a tag was, which may end a line. No text has this character.
pub(in crate::base) const BREAK: char = '\u{fdd0}';
const BREAK_TEXT: &str = "\u{fdd0}";
/// A letter of another script, like none that is known here.
pub(in crate::base) const LETTER: char = '\u{fffd}';
/// Any other character that is not of ASCII.
pub(in crate::base) const SIGN: char = '\u{fffc}';
/// Characters that are drawn like others, in small letters, and what they are drawn like. A bracket
/// of any kind is like the others.
const LOOKALIKES: [(&str, char); 29] = [
    ("({<【〔⁅❲⟦〚〖⦋⌈⌊⎡⎢⎣「『﴾⟮❨❪❬❮❰❴⟨⟪⟬⦃⦅⦇⦉⦍⦏⦑⧼〈《〘‹«⸢⸤⸦⸨", '['),
    (")}>】〕⁆❳⟧〛〗⦌⌉⌋」』﴿⟯❩❫❭❯❱❵⟩⟫⟭⦄⦆⦈⦊⦎⦐⦒⧽〉》〙›»⸣⸥⸧⸩", ']'),
    ("♯⌗⋕井卄ⵌ", '#'),
    ("։∶꞉︓ːⵓ׃", ':'),
    ("аαɑᴀꭺⲁꓮ", 'a'),
    ("вβʙᏼꮟⲃꓐьƅ", 'b'),
    ("сϲςᴄꮯⲥꓚ", 'c'),
    ("ԁᴅꭰꓓɗ", 'd'),
    ("еєεᴇꭼⲉꓰҽ℮", 'e'),
    ("ꜰꓝϝƒ", 'f'),
    ("ɡɢցꮐꓖġ", 'g'),
    ("һнηʜհꮋⲏꓧ", 'h'),
    ("іιɪıⲓꓲꭵ", 'i'),
    ("јϳᴊյꭻꓙ", 'j'),
    ("кκᴋⲕꓗꮶ", 'k'),
    ("ӏʟꮮꓡլǀ", 'l'),
    ("мμᴍꮇⲙꓟϻ", 'm'),
    ("νɴոⲛꓠпͷ", 'n'),
    ("оοᴏօσⲟꓳჿ൦᧐ᴑø", 'o'),
    ("рρᴘꮲⲣꓑ", 'p'),
    ("гʀꭱꓣꮁɾꭇⲅ", 'r'),
    ("ѕꜱꮪꓢʂտ", 's'),
    ("тτᴛꭲⲧꓔ", 't'),
    ("υᴜսꓴʋ", 'u'),
    ("ѵᴠꮩꓦ", 'v'),
    ("ԝѡωᴡꮃꓪɯ", 'w'),
    ("хχⲭꓫ", 'x'),
    ("уγʏⲩꓬү", 'y'),
    ("ᴢꮓꓜ", 'z'),
];
/// A character of a line as it is read.
#[derive(Clone, Copy)]
pub(in crate::base) struct Seen {
    /// In small letters, without marks.
    pub(in crate::base) character: char,
    /// Whether it is written so.
    pub(in crate::base) is_plain: bool,
}

impl Seen {
    /// Returns whether it is a letter of ASCII.
    pub(in crate::base) fn is_letter(&self) -> bool {
        self.is_plain && self.character.is_ascii_alphabetic()
    }

    /// Returns whether it is a letter or a number, of any script.
    pub(in crate::base) fn is_word(&self) -> bool {
        self.character.is_ascii_alphanumeric() || self.character == LETTER
    }
}

/// Returns the beginning of a line as a model may read it: in small plain letters and brackets,
/// with single blanks, without markup within words and what is invisible.
pub(in crate::base) fn as_read(line: &str) -> Vec<Seen> {
    let mut read: Vec<Seen> = Vec::new();
    let (mut letters, mut end) = (0, usize::MAX);
    for character in line.chars().filter(|it| !is_combining_mark(*it) && !is_markup(*it)) {
        letters = if character.is_ascii_alphabetic() { letters + 1 } else { 0 };
        if letters > LABEL_LETTERS_MAX {
            end = end.min(read.len() + SEEN_CHARS_MAX);
        }
        if character == BREAK {
            end = usize::MAX;
        }
        if read.len() >= end {
            continue;
        }
        let is_plain = character.is_ascii();
        let mut add = |character| {
            let is_skipped = matches!(character, ' ' | SIGN | BREAK);
            if !is_skipped || read.last().is_none_or(|it| it.character != character) {
                read.push(Seen { character, is_plain });
            }
        };
        if character == BREAK {
            add(BREAK);
        } else if is_blank(character) {
            add(' ');
        } else if invisible_name(character).is_none() {
            let small = character.to_lowercase().next().unwrap_or(character);
            match alike(small).or_else(|| alike(character)) {
                Some(it) => add(it),
                None if is_plain => add(small),
                None => small.nfkd().filter(|it| !is_combining_mark(*it)).for_each(|it| {
                    let it = it.to_ascii_lowercase();
                    let other = if it.is_alphabetic() { LETTER } else { SIGN };
                    let other = if it.is_ascii() { it } else { other };
                    add(alike(it).unwrap_or(other));
                }),
            }
        }
    }
    read
}

/// Returns a name as it is drawn: two that are drawn alike are equal then. Characters that set a
/// direction may turn it around.
pub fn drawn_name(name: &str) -> String {
    let is_drawn =
        |it: &char| !is_combining_mark(*it) && !is_blank(*it) && invisible_name(*it).is_none();
    let small = name.chars().filter(is_drawn).flat_map(char::to_lowercase);
    let plain = |it: char| match alike(it) {
        Some(known) => vec![known],
        None => it.nfkd().filter(is_drawn).flat_map(char::to_lowercase).collect(),
    };
    let drawn = small.flat_map(plain).map(|it| match alike(it).unwrap_or(it) {
        '0' => 'o',
        '1' => 'l',
        it => it,
    });
    if name.contains(['\u{202e}', '\u{2067}', '\u{202b}']) {
        return drawn.collect::<Vec<_>>().into_iter().rev().collect();
    }
    drawn.collect()
}

/// Returns a line with a [`BREAK`] in the place of each tag and comment. Each `>` may end one: its
/// attributes may have more of them, and it may have begun in an earlier line.
pub(in crate::base) fn untagged(line: &str) -> String {
    let mut bare = String::new();
    let mut rest = line;
    while let Some((before, after)) = rest.split_once('<') {
        bare.push_str(before);
        let is_tag = after.starts_with(|it: char| it.is_ascii_alphabetic() || "/!?".contains(it));
        let end = after.find('>').filter(|_| is_tag);
        bare.push(if end.is_some() { BREAK } else { '<' });
        rest = end.map_or(after, |it| &after[it + 1..]);
    }
    bare.push_str(rest);
    bare.replace('>', BREAK_TEXT)
}

fn is_markup(character: char) -> bool {
    "*_~`\\".contains(character)
}

fn is_blank(character: char) -> bool {
    let is_drawn = |it: &str| it.contains("blank") || it.ends_with(" space");
    let is_zero = |it: &str| it.starts_with("zero");
    character.is_whitespace()
        || invisible_name(character).is_some_and(|it| is_drawn(it) && !is_zero(it))
}

fn alike(character: char) -> Option<char> {
    LOOKALIKES.iter().find(|it| it.0.contains(character)).map(|it| it.1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_are_drawn_alike_are_equal() {
        for other in [
            "Operator",
            "оperаtor",
            "opera\u{200b}tor",
            "ｏｐｅｒａｔｏｒ",
            "o perator",
            "ópërator",
            "0perat0r",
            "ჿpeɾatør",
            "\u{202e}rotarepo",
        ] {
            assert_eq!(drawn_name(other), "operator", "{other}");
        }
        for (one, other) in [("王伟", "李娜"), ("Ада", "Ева"), ("bo1", "bo2"), ("a.b", "a-b")]
        {
            assert_ne!(drawn_name(one), drawn_name(other));
        }
    }
}
