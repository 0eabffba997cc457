//! *Did you mean*: the name that somebody probably meant, among those that there are.

/// Returns `did you mean …?` if one of the names is similar, otherwise the list of names.
pub fn suggestion<'a>(given: &str, names: impl IntoIterator<Item = &'a str> + Clone) -> String {
    match nearest(given, names.clone()) {
        Some(name) => format!("did you mean `{name}`?"),
        None => expected(names),
    }
}

/// Returns `expected one of …`.
pub fn expected<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    let names: Vec<String> = names.into_iter().map(|name| format!("`{name}`")).collect();
    match names.as_slice() {
        [] => String::new(),
        [name] => format!("expected {name}"),
        names => format!("expected one of {}", names.join(", ")),
    }
}

/// Returns the name that was probably meant.
pub fn nearest<'a>(given: &str, names: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    if given.len() > 64 {
        return None;
    }
    let scored = names.into_iter().map(|name| (strsim::jaro_winkler(given, name), name));
    let best = scored.filter(|(score, name)| *score > 0.8 && *name != given);
    best.max_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, name)| name)
}
